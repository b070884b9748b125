#include "cjk_tables.h"

#include <pthread.h>

#include "charset_data.h"

/* The reverse of `packed` in tools/make_charsets.py. */
static uint32_t next_cell(const char **at, uint32_t *last) {
    uint32_t n = 0;
    uint32_t digit;
    for (unsigned shift = 0;; shift += 5) {
        digit = (uint32_t)(**at - 64);
        (*at)++;
        n |= (digit & 31) << shift;
        if (digit < 32)
            break;
    }
    if (n-- == 0)
        return 0;
    *last += 1 + ((n & 1) != 0 ? 0 - (n + 1) / 2 : n / 2);
    return *last;
}

#define DEFINE(type, name, rows, cells)                         \
    type hf_##name##_index[rows * cells];                       \
    static void unpack_##name(void) {                           \
        const char *at = hf_##name##_packed;                    \
        uint32_t last = 0;                                      \
        for (size_t i = 0; i < rows * cells; i++)               \
            hf_##name##_index[i] = (type)next_cell(&at, &last); \
    }                                                           \
    void hf_need_##name(void) {                                 \
        static pthread_once_t once = PTHREAD_ONCE_INIT;         \
        pthread_once(&once, unpack_##name);                     \
    }
HF_CJK_TABLES(DEFINE)
