// Operations that walk the elements of each partition: the eight largest, positions, ranking, random numbers. They get
// dense rows by address and step, in elements, and give the results of numpy/top8.py and numpy/executor.py.
//
// Vectors have 16 lanes on every machine; LLVM splits them where registers are shorter. Short loops say how often they
// are unrolled, as the IR made of this is not optimised again.

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 16 };
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t words __attribute__((vector_size(4 * LANES), aligned(4)));

// A vector of 0 and -1 as bits, the first lane the lowest.
static inline uint32_t bits_of(words flags) {
    typedef bool lanes __attribute__((ext_vector_type(LANES)));
    union {
        lanes lanes;
        uint16_t bits;
    } mask = {__builtin_convertvector(flags, lanes)};
    return mask.bits;
}

static inline int32_t word_of(float number) {
    union {
        float number;
        int32_t word;
    } pun = {number};
    return pun.word;
}

// ---------------------------------------------------------------------------------------------------------------------
// The eight largest elements of each row, in descending order. Keys are integers of the order of numbers: -0 below +0,
// and every NaN, which becomes the canonical one, above them.

enum { EIGHT = 8, NAN_KEY = 0x7FC00000 };

// Bits of a float as an integer of the same order, and back.
static inline int32_t flipped(int32_t word) { return word ^ (word >> 31 & INT32_MAX); }

static inline int32_t key_of(float number) { return number != number ? NAN_KEY : flipped(word_of(number)); }

static inline words keys_of(floats numbers) {
    words bits = (words)numbers, is_nan = numbers != numbers;
    return (is_nan & NAN_KEY) | (~is_nan & (bits ^ (bits >> 31 & INT32_MAX)));
}

// Let one key sink to its place among the best.
static inline void insert(int32_t best[EIGHT], int32_t key) {
#pragma clang loop unroll(full)
    for (int i = 0; i < EIGHT; i++) {
        int32_t held = best[i];
        best[i] = held >= key ? held : key;
        key = held >= key ? key : held;
    }
}

void nki_top8(int32_t *out, int64_t out_step, const float *in, int64_t in_step, int64_t rows, int64_t columns) {
    for (; rows > 0; rows--, out += out_step, in += in_step) {
        int32_t best[EIGHT];
#pragma clang loop unroll(full)
        for (int i = 0; i < EIGHT; i++)
            best[i] = INT32_MIN;
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) {
            uint32_t above = bits_of(keys_of(*(const floats *)(in + i)) > best[EIGHT - 1]);
            for (; above; above &= above - 1)
                insert(best, key_of(in[i + __builtin_ctz(above)]));
        }
        for (; i < columns; i++)
            insert(best, key_of(in[i]));
#pragma clang loop unroll(full)
        for (int i = 0; i < EIGHT; i++)
            out[i] = flipped(best[i]);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Positions.

// The first place of `wanted` from `start` on; -1 if there is none.
static int64_t place_of(const float *row, int64_t columns, float wanted, int64_t start) {
    int64_t i = start;
    for (; i + LANES <= columns; i += LANES) {
        uint32_t same = bits_of(*(const floats *)(row + i) == wanted - (floats){});
        if (same)
            return i + __builtin_ctz(same);
    }
    for (; i < columns; i++)
        if (row[i] == wanted)
            return i;
    return -1;
}

// Where in its row each of the eight elements of a row of `wanted` is; all ones if it is nowhere. The first of equal
// wanted elements (if `last_first`: the last) gets the first place, the next one the next.
void nki_find(uint32_t *out, int64_t out_step, const float *in, int64_t in_step, const float *wanted,
              int64_t wanted_step, int64_t rows, int64_t columns, int64_t last_first) {
    for (; rows > 0; rows--, out += out_step, in += in_step, wanted += wanted_step) {
        int64_t backward = last_first ? EIGHT - 1 : 0;
        for (int64_t turn = 0; turn < EIGHT; turn++) {
            float number = wanted[turn ^ backward];
            int64_t start = 0;
            for (int64_t earlier = 0; earlier < turn; earlier++)
                if (wanted[earlier ^ backward] == number)
                    start = (int64_t)out[earlier ^ backward] + 1;
            out[turn ^ backward] = (uint32_t)place_of(in, columns, number, start);
        }
    }
}

// Elements of `size` bytes, `step` from each other, get `value` at those of the `count` places of their row that are
// below `columns`.
void nki_put(char *out, int64_t out_step, const uint32_t *places, int64_t places_step, const void *value,
             int64_t value_step, int64_t rows, int64_t columns, int64_t count, int64_t step, int64_t size) {
    for (; rows > 0; rows--, out += out_step * size, places += places_step) {
        for (int64_t i = 0; i < count; i++) {
            void *at = out + places[i] * step * size;
            if (places[i] >= columns)
                continue;
            if (size == 4)
                *(uint32_t *)at = *(const uint32_t *)value;
            else if (size == 2)
                *(uint16_t *)at = *(const uint16_t *)value;
            else
                *(uint8_t *)at = *(const uint8_t *)value;
        }
    }
}

// The positions of the elements that are not 0, then -1; behind the columns of the row, the number of them.
void nki_nonzero(int32_t *out, int64_t out_step, const float *in, int64_t in_step, int64_t rows, int64_t columns) {
    for (; rows > 0; rows--, out += out_step, in += in_step) {
        int64_t count = 0;
#pragma clang loop unroll_count(8)
        for (int64_t i = 0; i < columns; i++) { // each position goes where that of the next non-zero element belongs
            out[count] = (int32_t)i;
            count += in[i] != 0;
        }
#pragma clang loop unroll_count(8)
        for (int64_t i = count; i < columns; i++)
            out[i] = -1;
        out[columns] = (int32_t)count;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Ranking: pairs of key and position, sorted by one byte of the key after the other, the lowest one first.

enum { BUCKETS = 256 };

// An unsigned word that orders as the float does: -0 below +0, NaN above all.
static inline uint32_t rank_key(float number) {
    int32_t word = word_of(number);
    return number != number ? UINT32_MAX : (uint32_t)word ^ ((uint32_t)(word >> 31) | 0x80000000u);
}

// Move the pairs in order of one byte, keeping the order of equal ones.
static void sort_by_byte(const uint64_t *pairs, uint64_t *sorted, int64_t columns, int64_t shift) {
    uint32_t starts[BUCKETS];
    for (int64_t bucket = 0; bucket < BUCKETS; bucket++)
        starts[bucket] = 0;
#pragma clang loop unroll_count(4)
    for (int64_t i = 0; i < columns; i++)
        starts[pairs[i] >> shift & (BUCKETS - 1)]++;
    uint32_t total = 0;
    for (int64_t bucket = 0; bucket < BUCKETS; bucket++) {
        uint32_t count = starts[bucket];
        starts[bucket] = total;
        total += count;
    }
#pragma clang loop unroll_count(4)
    for (int64_t i = 0; i < columns; i++)
        sorted[starts[pairs[i] >> shift & (BUCKETS - 1)]++] = pairs[i];
}

// The positions of the `count` largest elements of each row, the largest last and of equal ones the earlier last.
// Elements have `width` bytes: 4, or 2 for bfloat16, where the lower half of a key follows from the upper one.
// `pairs` is memory for two pairs of each column.
void nki_ranked(int32_t *out, int64_t out_step, const char *in, int64_t in_step, int64_t rows, int64_t columns,
                int64_t count, int64_t width, uint64_t *pairs) {
    for (; rows > 0; rows--, out += out_step, in += in_step * width) {
        uint64_t *from = pairs, *to = pairs + columns;
        for (int64_t i = 0; i < columns; i++) {
            int64_t position = columns - 1 - i; // sorting keeps the order of equal keys
            union {
                uint32_t word;
                float number;
            } element = {width == 2 ? (uint32_t)((const uint16_t *)in)[position] << 16
                                    : ((const uint32_t *)in)[position]};
            from[i] = (uint64_t)rank_key(element.number) << 32 | (uint64_t)position;
        }
        for (int64_t byte = 4 - width; byte < 4; byte++) {
            sort_by_byte(from, to, columns, 32 + 8 * byte);
            uint64_t *sorted = to;
            to = from;
            from = sorted;
        }
        for (int64_t i = 0; i < count; i++)
            out[i] = (int32_t)from[columns - count + i];
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Random numbers: XORWOW (Marsaglia 2003), one generator or four side by side in each row. A state is six words for
// each: x, y, z, w, v and the counter.

enum { WEYL = 362437, STATE = 6, MOST_GENERATORS = 4 }; // WEYL: the increment of the counter

#define XORWOW(generators, numbers)                                                                                    \
    static void xorwow_##generators(uint32_t *out, const uint32_t *before, uint32_t *after, int64_t count) {           \
        union {                                                                                                        \
            numbers words[STATE];                                                                                      \
            uint32_t each[STATE][generators];                                                                          \
        } state;                                                                                                       \
        for (int64_t i = 0; i < STATE * generators; i++)                                                               \
            state.each[i % STATE][i / STATE] = before[i];                                                              \
        numbers x = state.words[0], y = state.words[1], z = state.words[2], w = state.words[3], v = state.words[4];    \
        numbers counter = state.words[5];                                                                              \
        _Pragma("clang loop unroll_count(5)") for (int64_t i = 0; i < count; i++) {                                    \
            numbers t = x ^ x >> 2;                                                                                    \
            t ^= t << 1;                                                                                               \
            x = y, y = z, z = w, w = v;                                                                                \
            v ^= v << 4 ^ t;                                                                                           \
            counter += WEYL;                                                                                           \
            ((numbers *)out)[i] = counter + v;                                                                         \
        }                                                                                                              \
        state.words[0] = x, state.words[1] = y, state.words[2] = z, state.words[3] = w, state.words[4] = v;            \
        state.words[5] = counter;                                                                                      \
        for (int64_t i = 0; i < STATE * generators; i++)                                                               \
            after[i] = state.each[i % STATE][i / STATE];                                                               \
    }
typedef uint32_t four __attribute__((vector_size(16), aligned(4)));
XORWOW(1, uint32_t)
XORWOW(4, four)

// `columns` numbers of each row, in turns from its generators.
void nki_xorwow(uint32_t *out, int64_t out_step, uint32_t *after, int64_t after_step, const uint32_t *before,
                int64_t before_step, int64_t rows, int64_t columns, int64_t generators) {
    for (; rows > 0; rows--, out += out_step, before += before_step, after += after_step) {
        if (generators == MOST_GENERATORS)
            xorwow_4(out, before, after, columns / MOST_GENERATORS);
        else
            xorwow_1(out, before, after, columns);
    }
}
