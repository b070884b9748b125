#include "cjk_tables.h"

#include <pthread.h>
#include <string.h>

#include "charset_data.h"

/* LIMIT: code points, no table has one beyond. BLOCK: words that are passed over at
 * once where all of their code points are. */
enum { LIMIT = 0x30000, BLOCK = 32 };

/* How likely a 0 is, in 1/65536: the mean of two that learn at different speeds. */
typedef struct odds {
    uint16_t fast;
    uint16_t slow;
} odds;

/* The reverse of tools/pack_cells.py: names and steps are the same there. */
typedef struct unpacker {
    const uint64_t *words;
    size_t at; /* bytes read */
    uint32_t range;
    uint32_t code;
    uint32_t last;       /* code point reached by the last step */
    uint32_t copied;     /* cell behind the one copied last */
    unsigned before;     /* kind of the cell before: 0 step, 1 hole, 2 again */
    odds odd[3];         /* by `before` */
    odds again;          /* of those that are odd */
    odds sizes[2][64];   /* of steps, of cells to copy */
    odds tops[2][64][4]; /* by size */
    uint64_t used[LIMIT / 64];
    uint32_t unused[LIMIT / 64 / BLOCK]; /* code points of each block of `used` */
} unpacker;

static uint32_t next_byte(unpacker *u) {
    uint64_t word = u->words[u->at / 8];
    return (uint32_t)(word >> (u->at++ % 8 * 8) & 0xff);
}

static void start(unpacker *u, const uint64_t *words) {
    memset(u, 0, sizeof *u);
    u->words = words;
    u->range = UINT32_MAX;
    for (int i = 0; i < 4; i++)
        u->code = u->code << 8 | next_byte(u);
    odds even = {0x8000, 0x8000};
    for (int i = 0; i < 3; i++)
        u->odd[i] = even;
    u->again = even;
    for (int i = 0; i < 128; i++)
        (&u->sizes[0][0])[i] = even;
    for (int i = 0; i < 512; i++)
        (&u->tops[0][0][0])[i] = even;
    for (int i = 0; i < LIMIT / 64 / BLOCK; i++)
        u->unused[i] = 64 * BLOCK;
}

/* zero: how likely a 0 is, in 1/4096. */
static unsigned take_bit(unpacker *u, uint32_t zero) {
    uint32_t bound = (u->range >> 12) * zero;
    unsigned bit = u->code >= bound;
    if (bit) {
        u->code -= bound;
        u->range -= bound;
    } else {
        u->range = bound;
    }
    while (u->range < 1u << 24) {
        u->range <<= 8;
        u->code = u->code << 8 | next_byte(u);
    }
    return bit;
}

static unsigned next_bit(unpacker *u, odds *o) {
    unsigned bit = take_bit(u, ((uint32_t)o->fast + o->slow) >> 5);
    if (bit) {
        o->fast = (uint16_t)(o->fast - (o->fast >> 4));
        o->slow = (uint16_t)(o->slow - (o->slow >> 7));
    } else {
        o->fast = (uint16_t)(o->fast + ((65535 - o->fast) >> 4));
        o->slow = (uint16_t)(o->slow + ((65535 - o->slow) >> 7));
    }
    return bit;
}

/* A magnitude; *down is its sign. Up 0, down 0, up 1 and so on are different numbers.
 */
static uint32_t next_number(unpacker *u, int model, unsigned *down) {
    unsigned node = 1;
    for (int i = 0; i < 6; i++)
        node = node << 1 | next_bit(u, &u->sizes[model][node]);
    unsigned kind = node & 63;
    odds *tops = u->tops[model][kind];
    uint32_t n = 1;
    for (unsigned i = 0; i < kind >> 1; i++)
        n = n << 1 | (n < 4 ? next_bit(u, &tops[n]) : take_bit(u, 2048));
    *down = kind & 1;
    return n - 1;
}

/* The code point with n unused ones between it and the last. */
static uint32_t above(const unpacker *u, uint32_t n) {
    uint32_t word = (u->last + 1) / 64;
    uint64_t unused = ~u->used[word] & UINT64_MAX << (u->last + 1) % 64;
    for (uint32_t k; (k = (uint32_t)__builtin_popcountll(unused)) <= n;) {
        n -= k;
        word++;
        for (; word % BLOCK == 0 && u->unused[word / BLOCK] <= n; word += BLOCK)
            n -= u->unused[word / BLOCK];
        unused = ~u->used[word];
    }
    while (n-- > 0)
        unused &= unused - 1;
    return word * 64 + (uint32_t)__builtin_ctzll(unused);
}

static uint32_t below(const unpacker *u, uint32_t n) {
    uint32_t word = (u->last - 1) / 64;
    uint64_t unused = ~u->used[word] & UINT64_MAX >> (63 - (u->last - 1) % 64);
    for (uint32_t k; (k = (uint32_t)__builtin_popcountll(unused)) <= n;) {
        n -= k;
        word--;
        for (; (word + 1) % BLOCK == 0 && u->unused[word / BLOCK] <= n; word -= BLOCK)
            n -= u->unused[word / BLOCK];
        unused = ~u->used[word];
    }
    while (n-- > 0)
        unused ^= UINT64_C(1) << (63 - __builtin_clzll(unused));
    return word * 64 + 63 - (uint32_t)__builtin_clzll(unused);
}

/* Returns a cell's code point. Where it is that of an earlier cell, sets *like to that
 * cell; *like stays as it is elsewhere. */
static uint32_t next_cell(unpacker *u, size_t *like) {
    unsigned down = 0;
    if (!next_bit(u, &u->odd[u->before])) {
        u->before = 0;
        uint32_t n = next_number(u, 0, &down);
        u->last = down ? below(u, n) : above(u, n);
        u->used[u->last / 64] |= UINT64_C(1) << u->last % 64;
        u->unused[u->last / 64 / BLOCK]--;
        return u->last;
    }
    u->before = 1;
    if (next_bit(u, &u->again)) {
        u->before = 2;
        uint32_t n = next_number(u, 1, &down);
        u->copied += down ? 0 - n - 1 : n;
        *like = u->copied++;
    }
    return 0;
}

#define DEFINE(type, name, rows, cells)                         \
    type hf_##name##_index[rows * cells];                       \
    static void unpack_##name(void) {                           \
        unpacker u;                                             \
        start(&u, hf_##name##_packed);                          \
        for (size_t i = 0; i < rows * cells; i++) {             \
            size_t like = i;                                    \
            hf_##name##_index[i] = (type)next_cell(&u, &like);  \
            if (like < i)                                       \
                hf_##name##_index[i] = hf_##name##_index[like]; \
        }                                                       \
    }                                                           \
    void hf_need_##name(void) {                                 \
        static pthread_once_t once = PTHREAD_ONCE_INIT;         \
        pthread_once(&once, unpack_##name);                     \
    }
HF_CJK_TABLES(DEFINE)
