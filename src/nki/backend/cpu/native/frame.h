// Frames, and the functions of others that native code calls.

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic int64_t shared; // a word that several threads use
typedef struct object object;   // an object of Python
typedef int64_t unaligned64 __attribute__((aligned(1)));
typedef int32_t unaligned32 __attribute__((aligned(1)));
typedef int16_t unaligned16 __attribute__((aligned(1)));

// The C library
int usleep(uint32_t microseconds);
int sched_yield(void);
int clock_gettime(int clock, int64_t time[2]);
void *calloc(uint64_t number, uint64_t size);
int pthread_create(int64_t *thread, const void *attributes, void *(*start)(void *), void *argument);
int pthread_mutex_init(void *mutex, const void *attributes);
int pthread_mutex_lock(void *mutex);
int pthread_mutex_unlock(void *mutex);
int pthread_cond_init(void *condition, const void *attributes);
int pthread_cond_wait(void *condition, void *mutex);
int pthread_cond_broadcast(void *condition);

// Python. Everything goes through its C API and not through callbacks of ctypes: a signal handler may raise at the
// first instruction of a Python function, before any `try` in it; ctypes would lose that exception and return garbage.
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);
int PyGILState_Ensure(void);
void PyGILState_Release(int state);
int PyErr_CheckSignals(void);
void PyErr_SetInterrupt(void);
void PyErr_Fetch(object **type, object **value, object **traceback);
void PyErr_Restore(object *type, object *value, object *traceback);
void PyErr_Clear(void);
int PyErr_ExceptionMatches(object *type);
const char *PyExceptionClass_Name(object *type);
object *PyLong_FromLongLong(int64_t number);
void *PyLong_AsVoidPtr(object *number);
object *PyObject_Vectorcall(object *callee, object *const *arguments, uint64_t number, object *names);
void Py_DecRef(object *each);

// What differs by machine and operating system: library.py appends these as IR.
extern const int32_t nki_monotonic_clock;   // the number of the clock that never goes back
extern const int64_t nki_floating_changes;  // bits of the control word that change results
extern const int64_t nki_floating_default;  // the control word of a new thread
int64_t nki_floating_control(void);         // the control word of this thread's floating-point unit
void nki_set_floating_control(int64_t word);
void nki_pause(void);                       // tells the processor that this thread waits

// ---------------------------------------------------------------------------------------------------------------------
// Frames: what the routines of one thread get. Python writes them (frame.py), and a test compares the words.

struct entry;
struct thread_pool;

struct status { // of one thread
    int64_t trap;    // its id, 0: none; minus the number of a loop, or ANYWHERE, if the launch was interrupted
    int64_t operand; // the number of the operand, DEADLOCK or INTERRUPTED
    int64_t index;   // which is out of bounds, or the trap id of the barrier at which the peer waits
    int64_t peer;
    int64_t countdown; // to the next look at the clock; below -PATIENCE it is due
    int64_t budget;    // polls between two looks at the clock
    int64_t looked;    // the time of the last look
    int64_t asked;     // the last time that Python handled signals
};

struct control { // shared by all threads of a launch
    shared gate;      // 0: wait, OPEN, or SHUT: the launch has failed before it began
    shared cancelled; // 1 once the launch is to stop
    shared ended;     // cores that have ended
    shared kept;      // 1 once an exception is kept here
    object *exception[3];
    int64_t unused;
};

struct frame {
    char *arena;
    char *scratch;
    struct status *status;
    const struct entry *table; // the dispatch table
    const int64_t *args;
    int64_t rank; // of the core
    struct control *control;
    struct thread_pool *pool; // that shares the regions; 0: none does
    int64_t threads;          // that may run the launch, the one that has launched included
    char *worker_frames;      // the frame of the first worker
    int64_t worker_step;      // bytes from there to the next
};

enum { OPEN = 1, SHUT = 2 };
enum { DEADLOCK = -1, INTERRUPTED = -2 };
#define ANYWHERE (-(INT64_C(1) << 62)) // stands for the number of a loop outside of all loops

// A routine runs partitions `first` to `last` - 1 of its instruction, which may have fewer.
typedef void routine(struct frame *frame, const int64_t *args, int64_t first, int64_t last);

struct entry { // of a dispatch table
    routine *run;
    int64_t first; // the index of its first argument
};

struct place { // as two arguments of an entry
    int64_t slot;
    int64_t offset;
};

static char *address(const struct frame *frame, struct place place) {
    return ((char *const *)frame)[place.slot] + place.offset;
}
