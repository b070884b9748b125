/* A bounded memory: 64-bit keys to numbers, each until a time.
 *
 * Keys are hashes; a key falls into one set of eight places, and where all are taken
 * the one that ends first gives way. So memory is bounded and no call is long, and what
 * is forgotten is only forgotten early. No clock of its own. Not thread-safe.
 */
#ifndef HF_MEMO_H
#define HF_MEMO_H

#include <stddef.h>
#include <stdint.h>

typedef struct hf_memo_entry {
    uint64_t key;
    int64_t until; /* us; a place is free once that has passed */
    int32_t value; /* at least 0 */
} hf_memo_entry;

/* Zeroed is empty. */
typedef struct hf_memo {
    hf_memo_entry *entries; /* owned; NULL until the first put */
} hf_memo;

enum { HF_MEMO_ENTRIES = 32768 }; /* at most, of 24 bytes each */

void hf_memo_free(hf_memo *m);

/* The value that was put and has not ended, or -1. */
int32_t hf_memo_get(const hf_memo *m, uint64_t key, int64_t now);

/* Remembers value until a time; one in the past forgets it. Without memory for the
 * table nothing is remembered. */
void hf_memo_put(hf_memo *m, uint64_t key, int32_t value, int64_t until, int64_t now);

/* A hash of bytes, begun with an earlier one or HF_MEMO_SEED; any bits of it do for an
 * index. Eight bytes at a time, and FNV-1a for the last few. No two hashes that differ
 * become one by the same bytes, so as a sum it finds each change within eight of them.
 * In the machine's byte order. */
#define HF_MEMO_SEED 14695981039346656037u
uint64_t hf_memo_hash(uint64_t seed, const void *p, size_t n);

#endif
