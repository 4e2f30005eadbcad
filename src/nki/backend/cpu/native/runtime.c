// Native code that no kernel changes: the walk over a table of rows, loops and regions, teams of threads, barriers,
// the look for signals, entry into native code, and calls of Python objects.
//
// Users have no compiler: tools/native_runtime.py makes runtime.ll out of this file, LLVM IR for every machine, and
// library.py loads that. So this includes no header of a system, calls functions of the C library, of Python and of XLA
// by their names or addresses, and its structures consist of words of 64 bits.

#include "frame.h"
#include "polls.h"
#include "rows.h"
#include "threads.h"

// ---------------------------------------------------------------------------------------------------------------------
// Entry into native code: functions that release the interpreter lock, walk a table, and raise what signal handlers and
// callbacks raised meanwhile. While a table is walked, floating point has its default environment: XLA and PyTorch may
// have told the thread to flush subnormals to zero, and a kernel's bits must not depend on that.

struct entry {
    const struct row *table;
    int64_t rows;
    const int64_t *args;
    struct frame *frame;
};

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

static void walk_entry(const struct entry *entry) {
    int64_t before = begin_default();
    walk(entry->table, entry->rows, entry->args, entry->frame);
    end_default(before);
}

void nki_run(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame) {
    void *state = PyEval_SaveThread();
    walk_entry(&(struct entry){table, rows, args, frame});
    PyEval_RestoreThread(state);
    raise_kept(frame->control);
}

// For a frame with a team, which helps unless it helps another launch.
void nki_run_with_team(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame) {
    void *state = PyEval_SaveThread();
    begin_team(frame); // no Python code, which a signal could interrupt, runs between this and the end
    walk_entry(&(struct entry){table, rows, args, frame});
    end_team(frame);
    PyEval_RestoreThread(state);
    raise_kept(frame->control);
}

// Workers of a launch on several cores wait at a gate until its leader has entered native code; from there on no Python
// code of the launch runs, which a signal could interrupt, before all workers have ended.

// For the leader of several cores: open the gate, and return when all have ended.
void nki_lead(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame, struct line *lines,
              int64_t rank, int64_t cores) {
    struct control *control = frame->control;
    void *state = PyEval_SaveThread();
    atomic_store(&control->gate, OPEN);
    walk_entry(&(struct entry){table, rows, args, frame});
    end_core(lines, rank, cores);
    for (int64_t looks = 1; atomic_load_explicit(&control->ended, memory_order_acquire) < cores - 1; looks++)
        if (wait_after(looks))
            poll_now(frame, -ANYWHERE);
    PyEval_RestoreThread(state);
    raise_kept(control);
}

enum { GATE_PATIENCE = 100000000 }; // nanoseconds after which a worker asks whether its launch still exists

// For the other cores: wait at the gate, then walk; what the gate was, 0 if it is neither open nor shut after a while.
// Raises nothing: the leader does.
int64_t nki_follow(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame, struct line *lines,
                   int64_t rank, int64_t cores) {
    struct control *control = frame->control;
    void *state = PyEval_SaveThread();
    int64_t deadline = nanoseconds() + GATE_PATIENCE, gate;
    for (int64_t looks = 1; (gate = atomic_load_explicit(&control->gate, memory_order_acquire)) == 0; looks++)
        if (wait_after(looks) && nanoseconds() > deadline)
            break;
    if (gate == OPEN) {
        walk_entry(&(struct entry){table, rows, args, frame});
        end_core(lines, rank, cores);
        atomic_fetch_add(&control->ended, 1); // the leader may free all memory now
    }
    PyEval_RestoreThread(state);
    return gate;
}

// One parallel region of OpenMP (openmp.py). Its first thread leads; the others help through a team's block of memory
// as helpers do, and return to the runtime when the leader ends. The runtime may give fewer threads than it was asked
// for, or only the first: nothing waits for a thread that never comes.

struct parallel {
    struct entry entry;
    int (*thread_number)(void);
};

static void run_member(void *argument) {
    const struct parallel *parallel = argument;
    struct team *team = parallel->entry.frame->team;
    int index = parallel->thread_number();
    if (index == 0) {
        walk_entry(&parallel->entry);
        nki_stop_team(team);
        return;
    }
    int64_t before = begin_default();
    help(team, index);
    end_default(before);
}

// `parallel` is GOMP_parallel and `thread_number` omp_get_thread_num, which lie elsewhere in each process.
void nki_run_on_openmp(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame,
                       void (*parallel)(void (*member)(void *), void *argument, uint32_t threads, uint32_t flags),
                       int (*thread_number)(void)) {
    struct parallel region = {{table, rows, args, frame}, thread_number};
    void *state = PyEval_SaveThread();
    begin_team(frame);
    if (frame->team) {
        atomic_store(&frame->team->stop, 0);
        parallel(run_member, &region, (uint32_t)frame->threads, 0);
    } else {
        walk_entry(&region.entry);
    }
    end_team(frame);
    PyEval_RestoreThread(state);
    raise_kept(frame->control);
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

struct foreign { // the library that calls (foreign_call.py), by byte offsets
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
