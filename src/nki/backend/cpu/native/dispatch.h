// The walk over a dispatch table, and entries that walk others. Walks end early if the launch has failed or is
// cancelled.

enum { ENTRIES_PER_POLL = 32 };

static void walk(struct frame *frame, int64_t first, int64_t entries) {
    const struct entry *table = frame->table + first;
    const int64_t *args = frame->args;
    struct status *status = frame->status;
    for (int64_t i = 0; i < entries; i++) {
        table[i].run(frame, args + table[i].first, 0, INT64_MAX);
        if (i % ENTRIES_PER_POLL == ENTRIES_PER_POLL - 1)
            poll(frame, &status->countdown, -ANYWHERE);
        if (__builtin_expect(status->trap != 0, false))
            return;
    }
}

// The same for some partitions of all entries, without polls.
static void walk_range(const struct entry *table, int64_t entries, const int64_t *args, struct frame *frame,
                       int64_t first, int64_t last) {
    for (int64_t i = 0; i < entries; i++) {
        table[i].run(frame, args + table[i].first, first, last);
        if (__builtin_expect(frame->status->trap != 0, false))
            return;
    }
}

// The body of a loop, with a countdown of its own.
struct body {
    int64_t first, entries; // in the table
    int64_t loop;           // its number
};

// Run the body once more; false if the loop is to end. In line, so that the countdown is in a register.
static inline __attribute__((always_inline)) bool run_body(struct frame *frame, const struct body *body,
                                                          int64_t *left) {
    walk(frame, body->first, body->entries);
    poll(frame, left, body->loop);
    return frame->status->trap == 0;
}

static void end_loop(struct frame *frame, const struct body *body, int64_t left) {
    frame->status->countdown = left;
    if (frame->status->trap == ANYWHERE)
        frame->status->trap = -body->loop; // the innermost loop is where the launch was interrupted
}

struct for_arguments {
    struct place counter, start, stop; // 32 bits each
    int64_t step;
    struct body body;
};

void nki_for(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct for_arguments *loop = (const void *)args;
    int32_t *counter = (int32_t *)address(frame, loop->counter);
    int64_t stop = *(const int32_t *)address(frame, loop->stop), left = frame->status->countdown;
    for (int64_t i = *(const int32_t *)address(frame, loop->start); i < stop; i += loop->step) {
        *counter = (int32_t)i;
        if (!run_body(frame, &loop->body, &left))
            break;
    }
    end_loop(frame, &loop->body, left);
}

struct while_arguments {
    struct place condition; // 32 bits; 0 ends the loop
    struct body body;
};

void nki_while(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct while_arguments *loop = (const void *)args;
    const int32_t *condition = (const int32_t *)address(frame, loop->condition);
    int64_t left = frame->status->countdown;
    while (*condition != 0 && run_body(frame, &loop->body, &left))
        ;
    end_loop(frame, &loop->body, left);
}

struct timed_arguments {
    routine *run;
    int64_t args;   // bytes from these arguments to its own
    shared *totals; // nanoseconds and calls
};

// An entry that calls another one and notes its time. A first chunk of partitions counts as the call.
void nki_timed(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct timed_arguments *timed = (const void *)args;
    int64_t before = nanoseconds();
    timed->run(frame, (const void *)((const char *)args + timed->args), first, last);
    atomic_fetch_add_explicit(&timed->totals[0], nanoseconds() - before, memory_order_relaxed);
    atomic_fetch_add_explicit(&timed->totals[1], first == 0, memory_order_relaxed);
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory: entries that fill and copy it.

struct fill_arguments {
    struct place target;
    int64_t bytes;
    int64_t pattern; // 8 bytes, the lowest one first
};

void nki_fill(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct fill_arguments *fill = (const void *)args;
    char *target = address(frame, fill->target);
    int64_t words = fill->bytes >> 3;
    for (int64_t i = 0; i < words; i++)
        ((unaligned64 *)target)[i] = fill->pattern;
    for (int64_t i = 0; i < (fill->bytes & 7); i++)
        target[8 * words + i] = (char)(fill->pattern >> 8 * i);
}

struct copy_arguments {
    struct place target, source;
    int64_t bytes; // a multiple of 8
};

void nki_copy(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct copy_arguments *copy = (const void *)args;
    int64_t *target = (int64_t *)address(frame, copy->target);
    const int64_t *source = (const int64_t *)address(frame, copy->source);
    for (int64_t i = 0; i < copy->bytes >> 3; i++)
        target[i] = source[i];
}
