// Native code that no kernel changes: the walk over a dispatch table, loops and regions, thread pools, barriers, the
// look for signals, entry into native code, and calls of Python objects.
//
// Users have no compiler: tools/native_runtime.py makes runtime.ll out of this file, LLVM IR for every machine, and
// library.py loads that. So this includes no header of a system, calls functions of the C library, of Python and of XLA
// by their names or addresses, and its structures consist of words of 64 bits.

#include "frame.h"
#include "polls.h"
#include "dispatch.h"
#include "thread_pool.h"

// ---------------------------------------------------------------------------------------------------------------------
// Entry into native code: functions that release the interpreter lock, walk entries of a frame's table, and raise what
// signal handlers and callbacks raised meanwhile. While a table is walked, floating point has its default environment:
// XLA and PyTorch may have told the thread to flush subnormals to zero, and a kernel's bits must not depend on that.

// Begin with the default environment; what end_default takes.
static int64_t begin_default(void) {
    int64_t before = nki_floating_control();
    if ((before ^ nki_floating_default) & nki_floating_changes)
        nki_set_floating_control(nki_floating_default);
    return before;
}

static void end_default(int64_t before) {
    if ((before ^ nki_floating_default) & nki_floating_changes)
        nki_set_floating_control(before);
}

static void walk_in_default(struct frame *frame, int64_t first, int64_t entries) {
    int64_t before = begin_default();
    walk(frame, first, entries);
    end_default(before);
}

// A launch on the threads of PyTorch (thread_pool.py) is one parallel region of OpenMP. Its first thread leads; the others
// are workers of the pool, and return to the runtime when the leader ends. The runtime may give fewer threads than it
// was asked for, or only the first: nothing waits for a thread that never comes.

struct launch {
    struct frame *frame;
    int64_t entries;
};

static void run_member(void *argument) {
    const struct launch *launch = argument;
    struct thread_pool *pool = launch->frame->pool;
    int index = pool->thread_number();
    if (index == 0) {
        walk_in_default(launch->frame, 0, launch->entries);
        nki_stop_pool(pool);
        return;
    }
    int64_t before = begin_default();
    work(pool, index);
    end_default(before);
}

// Walk the first entries with the pool of the frame, unless that helps another launch.
void nki_run(struct frame *frame, int64_t entries) {
    void *state = PyEval_SaveThread();
    borrow_pool(frame); // no Python code, which a signal could interrupt, runs between this and the end
    struct thread_pool *pool = frame->pool;
    if (pool && pool->parallel) {
        atomic_store(&pool->stop, 0);
        pool->parallel(run_member, &(struct launch){frame, entries}, (uint32_t)frame->threads, 0);
    } else {
        walk_in_default(frame, 0, entries);
    }
    return_pool(frame);
    PyEval_RestoreThread(state);
    raise_kept(frame->control);
}

// Cores of a launch on several wait at a gate until the first one, their leader, has entered native code; from there on
// no Python code of the launch runs, which a signal could interrupt, before all cores have ended.

// For the leader: open the gate, and return when all have ended.
void nki_lead(struct frame *frame, int64_t first, int64_t entries, struct line *lines, int64_t cores) {
    struct control *control = frame->control;
    void *state = PyEval_SaveThread();
    atomic_store(&control->gate, OPEN);
    walk_in_default(frame, first, entries);
    end_core(lines, frame->rank, cores);
    for (int64_t looks = 1; atomic_load_explicit(&control->ended, memory_order_acquire) < cores - 1; looks++)
        if (wait_after(looks))
            poll_now(frame, -ANYWHERE);
    PyEval_RestoreThread(state);
    raise_kept(control);
}

enum { GATE_PATIENCE = 100000000 }; // nanoseconds after which a core asks whether its launch still exists

// For the other cores: wait at the gate, then walk; what the gate was, 0 if it is neither open nor shut after a while.
// Raises nothing: the leader does.
int64_t nki_follow(struct frame *frame, int64_t first, int64_t entries, struct line *lines, int64_t cores) {
    struct control *control = frame->control;
    void *state = PyEval_SaveThread();
    int64_t deadline = nanoseconds() + GATE_PATIENCE, gate;
    for (int64_t looks = 1; (gate = atomic_load_explicit(&control->gate, memory_order_acquire)) == 0; looks++)
        if (wait_after(looks) && nanoseconds() > deadline)
            break;
    if (gate == OPEN) {
        walk_in_default(frame, first, entries);
        end_core(lines, frame->rank, cores);
        atomic_fetch_add(&control->ended, 1); // the leader may free all memory now
    }
    PyEval_RestoreThread(state);
    return gate;
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls of Python objects, which must stay alive.

// The result of `callee`, called with an address as a number; 0 if it raised. With the interpreter lock held.
static object *call_with(object *callee, const void *place) {
    object *number = PyLong_FromLongLong((int64_t)place);
    object *result = PyObject_Vectorcall(callee, &number, 1, 0);
    Py_DecRef(number);
    return result;
}

// A routine of a kernel prints the tensor at `place`: the one place where a running kernel enters Python. What the
// callback raises ends the launch.
void nki_print(struct frame *frame, const void *place, object *callback) {
    if (is_cancelled(frame)) {
        stop(frame, -ANYWHERE);
        return;
    }
    int state = PyGILState_Ensure();
    object *result = call_with(callback, place);
    if (result) {
        Py_DecRef(result);
    } else {
        keep_exception(frame->control);
        stop(frame, -ANYWHERE);
    }
    PyGILState_Release(state);
}

struct foreign { // the library that calls (callbacks.py), by byte offsets
    object *interrupt; // KeyboardInterrupt
    int64_t api;       // of the pointer to the library's table in the argument of the call
    int64_t create;    // in that table: the function that makes an error
    int64_t size;      // of its argument, which begins with its size
    int64_t message;   // of the pointer to a text
    int64_t code;      // of a number of 32 bits
    int64_t internal;  // which is this
};

enum { MOST_BYTES = 128 }; // of the argument

// The library's error for the Python exception that is set, which is cleared.
static void *library_error(const char *argument, const struct foreign *library) {
    _Alignas(8) char error[MOST_BYTES] = {0};
    object *type, *value, *traceback;
    bool is_interrupt = PyErr_ExceptionMatches(library->interrupt);
    PyErr_Fetch(&type, &value, &traceback);
    *(int64_t *)error = library->size;
    *(const char **)(error + library->message) = PyExceptionClass_Name(type);
    *(int32_t *)(error + library->code) = (int32_t)library->internal;
    const char *api = *(const char *const *)(argument + library->api);
    void *result = (*(void *(*const *)(void *))(api + library->create))(error);
    PyErr_Restore(type, value, traceback);
    PyErr_Clear();
    if (is_interrupt)
        PyErr_SetInterrupt();
    return result;
}

// What `target` returns for the argument that a library passes: an address or 0, and with its lowest bit set if a
// KeyboardInterrupt is to come up again in the main thread. If it raises, an error of the library.
void *nki_foreign(const char *argument, object *target, const struct foreign *library) {
    int state = PyGILState_Ensure();
    object *returned = call_with(target, argument);
    void *result;
    if (returned) {
        int64_t value = (int64_t)PyLong_AsVoidPtr(returned);
        Py_DecRef(returned);
        result = (void *)(value & ~INT64_C(1));
        if (value & 1)
            PyErr_SetInterrupt();
    } else {
        result = library_error(argument, library);
    }
    PyGILState_Release(state);
    return result;
}
