// Gather and scatter: entries before and after an instruction on indirect views (gather_scatter.py). They are apart
// from runtime.c, since few kernels have such views.

#include "frame.h"

struct offsets_arguments {
    struct place index, result;
    int64_t down, right;           // bytes from partition to partition of the index, and from column to column
    int64_t groups, group, length; // groups, partitions in each, offsets of a group
    int64_t step, largest;         // bytes of an offset of 1, the largest legal offset
    int64_t trap, operand;         // for the error
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
            if (__builtin_expect(!is_legal, false) && status->trap == 0) {
                status->trap = look->trap;
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
    int64_t mask;  // bytes of an element of the predicate: 1, 2 or 4; 0: there is none, and no arguments of it
    struct place predicate;
    int64_t predicate_step, zeros_choose; // 1: zeros choose, 0: other numbers
};

#define UNROLLED _Pragma("clang loop unroll_count(8)")
#define MOVING(width, word)                                                                                            \
    static void gather_##width(const char *tile, char *dense, const int64_t *offsets, int64_t length) {                \
        UNROLLED for (int64_t i = 0; i < length; i++)                                                                  \
            ((word *)dense)[i] = *(const word *)(tile + offsets[i]);                                                   \
    }                                                                                                                  \
    static void scatter_##width(char *tile, const char *dense, const int64_t *offsets, int64_t length) {               \
        UNROLLED for (int64_t i = 0; i < length; i++)                                                                  \
            *(word *)(tile + offsets[i]) = ((const word *)dense)[i];                                                   \
    }                                                                                                                  \
    CHOOSING(width, word, 1, char)                                                                                     \
    CHOOSING(width, word, 2, unaligned16)                                                                              \
    CHOOSING(width, word, 4, unaligned32)
#define CHOOSING(width, word, mask, choice)                                                                            \
    static void scatter_##width##_by_##mask(char *tile, const char *dense, const int64_t *offsets, int64_t length,     \
                                            const char *predicate, bool zeros) {                                       \
        _Pragma("clang loop unroll_count(2)") for (int64_t i = 0; i < length; i++) {                                   \
            word before = *(word *)(tile + offsets[i]), after = ((const word *)dense)[i];                              \
            *(word *)(tile + offsets[i]) = (((const choice *)predicate)[i] == 0) == zeros ? after : before;            \
        }                                                                                                              \
    }
MOVING(1, char)
MOVING(2, unaligned16)
MOVING(4, unaligned32)
MOVING(8, unaligned64)

#define BY_WIDTH(width, move, by, ...)                                                                                 \
    switch (width) {                                                                                                   \
    case 1: move##_1##by(__VA_ARGS__); break;                                                                          \
    case 2: move##_2##by(__VA_ARGS__); break;                                                                          \
    case 4: move##_4##by(__VA_ARGS__); break;                                                                          \
    default: move##_8##by(__VA_ARGS__);                                                                                \
    }

// Gather elements from a tile into a dense one.
void nki_gather(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct move_arguments *move = (const void *)args;
    char *tile = address(frame, move->tile), *dense = address(frame, move->dense);
    const int64_t *all = (const int64_t *)address(frame, move->offsets);
    for (int64_t i = 0; i < move->partitions; i++, tile += move->step, dense += move->dense_step) {
        const int64_t *offsets = all + i / move->group * move->length;
        BY_WIDTH(move->width, gather, , tile, dense, offsets, move->length)
    }
}

// Scatter elements from a dense tile, all or those that a predicate chooses.
void nki_scatter(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct move_arguments *move = (const void *)args;
    char *tile = address(frame, move->tile), *dense = address(frame, move->dense);
    const int64_t *all = (const int64_t *)address(frame, move->offsets);
    int64_t length = move->length, down = move->mask ? move->predicate_step : 0;
    const char *predicate = move->mask ? address(frame, move->predicate) : dense;
    bool zeros = move->mask && move->zeros_choose;
    for (int64_t i = 0; i < move->partitions; i++, tile += move->step, dense += move->dense_step) {
        const int64_t *offsets = all + i / move->group * move->length;
        const char *chosen = predicate + i * down;
        switch (move->mask) {
        case 0: BY_WIDTH(move->width, scatter, , tile, dense, offsets, length) break;
        case 1: BY_WIDTH(move->width, scatter, _by_1, tile, dense, offsets, length, chosen, zeros) break;
        case 2: BY_WIDTH(move->width, scatter, _by_2, tile, dense, offsets, length, chosen, zeros) break;
        default: BY_WIDTH(move->width, scatter, _by_4, tile, dense, offsets, length, chosen, zeros)
        }
    }
}
