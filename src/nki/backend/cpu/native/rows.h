// The walk over a table, and rows that walk others. Walks end early if the launch has failed or is cancelled.

enum { ROWS_PER_POLL = 32 };

static void walk(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame) {
    struct status *status = frame->status;
    for (int64_t i = 0; i < rows; i++) {
        table[i].run(frame, args + table[i].first, 0, INT64_MAX);
        if (i % ROWS_PER_POLL == ROWS_PER_POLL - 1)
            poll(frame, &status->countdown, -ANYWHERE);
        if (__builtin_expect(status->site != 0, false))
            return;
    }
}

// The same for some partitions of all rows, without polls.
static void walk_range(const struct row *table, int64_t rows, const int64_t *args, struct frame *frame, int64_t first,
                       int64_t last) {
    for (int64_t i = 0; i < rows; i++) {
        table[i].run(frame, args + table[i].first, first, last);
        if (__builtin_expect(frame->status->site != 0, false))
            return;
    }
}

// The body of a loop, with a countdown of its own.
struct body {
    int64_t first, rows; // in the table
    int64_t loop;        // its number
};

// Run the body once more; false if the loop is to end.
static inline __attribute__((always_inline)) bool run_body(struct frame *frame, const struct body *body, int64_t *left) {
    walk(frame->table + body->first, body->rows, frame->args, frame);
    poll(frame, left, body->loop);
    return frame->status->site == 0;
}

static void end_loop(struct frame *frame, const struct body *body, int64_t left) {
    frame->status->countdown = left;
    if (frame->status->site == ANYWHERE)
        frame->status->site = -body->loop; // the innermost loop is where the launch was interrupted
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

// A row that calls another one and notes its time. A first chunk of partitions counts as the call.
void nki_timed(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct timed_arguments *timed = (const void *)args;
    int64_t before = nanoseconds();
    timed->run(frame, (const void *)((const char *)args + timed->args), first, last);
    atomic_fetch_add_explicit(&timed->totals[0], nanoseconds() - before, memory_order_relaxed);
    atomic_fetch_add_explicit(&timed->totals[1], first == 0, memory_order_relaxed);
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory: rows that fill and copy it.

typedef int64_t unaligned64 __attribute__((aligned(1)));
typedef int32_t unaligned32 __attribute__((aligned(1)));
typedef int16_t unaligned16 __attribute__((aligned(1)));

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

// ---------------------------------------------------------------------------------------------------------------------
// Gather and scatter: rows before and after an instruction on indirect views (gather_scatter.py).

struct offsets_arguments {
    struct place index, result;
    int64_t down, right;           // bytes from partition to partition of the index, and from column to column
    int64_t groups, group, length; // groups, partitions in each, offsets of a group
    int64_t step, largest;         // bytes of an offset of 1, the largest legal offset
    int64_t site, operand;         // for the error
    int64_t width;                 // bytes of an offset in the index: 1, 2, 4 or 8
};

static inline int64_t unsigned_word(const char *at, int64_t width) {
    switch (width) {
    case 1: return *(const uint8_t *)at;
    case 2: return (uint16_t)*(const unaligned16 *)at;
    case 4: return (uint32_t)*(const unaligned32 *)at;
    default: return *(const unaligned64 *)at;
    }
}

// Look up offsets, in bytes. A wrong one becomes 0, and the launch fails, unless it has failed before.
void nki_offsets(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct offsets_arguments *look = (const void *)args;
    const char *index = address(frame, look->index);
    int64_t *result = (int64_t *)address(frame, look->result);
    struct status *status = frame->status;
    for (int64_t number = 0; number < look->groups; number++) {
        for (int64_t i = 0; i < look->length; i++) {
            int64_t row = number * look->group + i % look->group;
            int64_t offset = unsigned_word(index + row * look->down + i / look->group * look->right, look->width);
            bool is_legal = offset <= look->largest;
            if (__builtin_expect(!is_legal, false) && status->site == 0) {
                status->site = look->site;
                status->operand = look->operand;
                status->index = offset;
            }
            result[number * look->length + i] = is_legal ? offset * look->step : 0;
        }
    }
}

struct move_arguments {
    struct place tile, offsets, dense;
    int64_t step, dense_step; // bytes from partition to partition of the tile, and of the dense tile
    int64_t partitions, group, length;
    int64_t width; // bytes of an element: 1, 2, 4 or 8
    int64_t mask;  // bytes of an element of the predicate; 0: there is none, and no arguments of it
    struct place predicate;
    int64_t predicate_step, zeros_select;
};

#define MOVING(name, word)                                                                                             \
    static void gather_##name(const char *tile, char *dense, const int64_t *offsets, int64_t length) {                 \
        for (int64_t i = 0; i < length; i++)                                                                           \
            ((word *)dense)[i] = *(const word *)(tile + offsets[i]);                                                   \
    }                                                                                                                  \
    static void scatter_##name(char *tile, const char *dense, const int64_t *offsets, int64_t length) {                \
        for (int64_t i = 0; i < length; i++)                                                                           \
            *(word *)(tile + offsets[i]) = ((const word *)dense)[i];                                                   \
    }
MOVING(1, char)
MOVING(2, unaligned16)
MOVING(4, unaligned32)
MOVING(8, unaligned64)

static void scatter(char *tile, const char *dense, const int64_t *offsets, int64_t length, int64_t width) {
    switch (width) {
    case 1: scatter_1(tile, dense, offsets, length); break;
    case 2: scatter_2(tile, dense, offsets, length); break;
    case 4: scatter_4(tile, dense, offsets, length); break;
    default: scatter_8(tile, dense, offsets, length);
    }
}

// Gather elements from a tile into a dense one.
void nki_gather(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct move_arguments *move = (const void *)args;
    char *tile = address(frame, move->tile), *dense = address(frame, move->dense);
    const int64_t *all = (const int64_t *)address(frame, move->offsets);
    for (int64_t i = 0; i < move->partitions; i++, tile += move->step, dense += move->dense_step) {
        const int64_t *offsets = all + i / move->group * move->length;
        switch (move->width) {
        case 1: gather_1(tile, dense, offsets, move->length); break;
        case 2: gather_2(tile, dense, offsets, move->length); break;
        case 4: gather_4(tile, dense, offsets, move->length); break;
        default: gather_8(tile, dense, offsets, move->length);
        }
    }
}

// Scatter elements from a dense tile, all or those that a predicate selects.
void nki_scatter(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct move_arguments *move = (const void *)args;
    char *tile = address(frame, move->tile), *dense = address(frame, move->dense);
    const int64_t *all = (const int64_t *)address(frame, move->offsets);
    const char *predicate = move->mask ? address(frame, move->predicate) : 0;
    for (int64_t i = 0; i < move->partitions; i++, tile += move->step, dense += move->dense_step) {
        const int64_t *offsets = all + i / move->group * move->length;
        if (!predicate) {
            scatter(tile, dense, offsets, move->length, move->width);
            continue;
        }
        for (int64_t j = 0; j < move->length; j++)
            if ((unsigned_word(predicate + j * move->mask, move->mask) == 0) == (move->zeros_select != 0))
                scatter(tile, dense + j * move->width, offsets + j, 1, move->width);
        predicate += move->predicate_step;
    }
}
