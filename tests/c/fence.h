/* Memory between two pages that cannot be touched, and random bytes that are the same
 * in each run: for code that must read and write within given bytes. */
#ifndef FENCE_H
#define FENCE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct fence {
    uint8_t *start; /* behind the first page that cannot be touched */
    uint8_t *end;   /* the second such page */
} fence;

/* At least n bytes; lives until the program ends. */
static inline fence fence_new(size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (n + page - 1) / page * page;
    uint8_t *p =
        mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, inner, PROT_READ | PROT_WRITE) != 0)
        abort();
    return (fence){p + page, p + page + inner};
}

/* xorshift64*: good enough to reach every branch. */
static inline uint32_t fence_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * 2685821657736338717u) >> 32);
}

#endif
