// Polls. Native code runs without the interpreter lock, so Python cannot handle a signal meanwhile. Loops and long
// tables therefore poll: every few iterations they look at the clock, and twenty times a second they let Python handle
// signals. What a handler raises, or a callback, is kept in the control words of the launch. Each thread stops at its
// next poll; when all of them have, the function that has entered native code raises it.

enum { PATIENCE = 32 };                    // polls of a launch before the first look: the countdown begins at 0
enum { MOST_POLLS = 64 };                  // between two looks
enum { SOON = 100000, LATE = 5000000 };    // nanoseconds between two looks that are too few, too many
enum { ASK_EVERY = 50000000 };             // nanoseconds after which Python handles signals

static int64_t nanoseconds(void) {
    int64_t time[2];
    clock_gettime(nki_monotonic_clock, time);
    return time[0] * 1000000000 + time[1];
}

static bool is_cancelled(struct frame *frame) {
    return atomic_load_explicit(&frame->control->cancelled, memory_order_relaxed);
}

// Let this thread stop, unless it has failed already.
static void stop(struct frame *frame, int64_t loop) {
    if (frame->status->trap == 0) {
        frame->status->trap = -loop;
        frame->status->operand = INTERRUPTED;
    }
}

// Cancel the launch and keep the exception that has just been raised, unless there is one; with the lock held.
static void keep_exception(struct control *control) {
    object **kept = control->exception;
    if (atomic_exchange(&control->kept, 1) == 0)
        PyErr_Fetch(&kept[0], &kept[1], &kept[2]);
    else
        PyErr_Clear();
    atomic_store(&control->cancelled, 1);
}

// Raise the exception that the launch keeps, if any; with the lock held, all threads having ended.
static void raise_kept(struct control *control) {
    object **kept = control->exception;
    if (atomic_load(&control->kept))
        PyErr_Restore(kept[0], kept[1], kept[2]);
}

static void handle_signals(struct frame *frame, int64_t loop) {
    int state = PyGILState_Ensure();
    if (PyErr_CheckSignals()) {
        keep_exception(frame->control);
        stop(frame, loop);
    }
    PyGILState_Release(state);
}

// Look at the clock, and let Python handle signals if it is time.
static __attribute__((noinline)) void poll_now(struct frame *frame, int64_t loop) {
    struct status *status = frame->status;
    if (is_cancelled(frame)) {
        stop(frame, loop);
        return;
    }
    int64_t now = nanoseconds(), since = now - status->looked, budget = status->budget;
    if (budget == 0) // the first poll of the launch
        status->asked = now;
    if (since < SOON)
        budget = budget < MOST_POLLS ? 2 * budget + 1 : budget;
    else if (since > LATE)
        budget >>= 2;
    status->budget = budget;
    status->countdown = budget - PATIENCE;
    status->looked = now;
    if (now - status->asked > ASK_EVERY) {
        status->asked = now;
        handle_signals(frame, loop);
    }
}

// Count `left`, the countdown or a copy of it, down by one, and poll if that is due.
static inline void poll(struct frame *frame, int64_t *left, int64_t loop) {
    if (__builtin_expect(--*left < -PATIENCE, false)) {
        poll_now(frame, loop);
        *left = frame->status->countdown;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Waiting for other threads: spin, then let others run, then sleep.

enum { SPINS = 2000 }; // looks before a thread lets others run: about 50 microseconds
enum { YIELDS_BEFORE_SLEEP = 200 };
enum { SLEEP = 50 }; // microseconds

// Wait between two looks, of which there were so many; true if that was long.
static bool wait_after(int64_t looks) {
    if (looks <= SPINS)
        return false;
    if (looks > SPINS + YIELDS_BEFORE_SLEEP)
        usleep(SLEEP);
    else
        sched_yield();
    return true;
}
