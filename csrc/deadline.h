/* A heap of deadlines: pure, no clock, no I/O.
 *
 * Indexed 4-ary min-heap of nodes that live inside their owners' structs. Invariant:
 * for each node in the heap, heap->at[node->index] == node. Times are microseconds on
 * whatever clock the owner uses. Not thread-safe: one owner.
 */
#ifndef HF_DEADLINE_H
#define HF_DEADLINE_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define HF_NEVER INT64_MAX

typedef struct hf_due {
    int64_t at;    /* us, when it is due */
    int32_t index; /* place in the heap, -1 = not in it */
    int32_t kind;  /* the owner's: what this is a deadline of */
} hf_due;

typedef struct hf_heap {
    hf_due **at; /* owned array; nodes are their owners' */
    int32_t len; /* nodes */
    int32_t cap; /* slots */
} hf_heap;

/* A node that is in no heap. */
static inline hf_due hf_due_make(int32_t kind) {
    return (hf_due){HF_NEVER, -1, kind};
}

/* Makes room for n nodes in all, so that hf_heap_set can't fail up to that count.
 * Returns 0 or HF_ENOMEM.
 */
int hf_heap_reserve(hf_heap *h, int32_t n);

/* Puts the node in, or moves it, to time `at`; HF_NEVER takes it out.
 * Returns 0 or HF_ENOMEM (the node is then not in the heap).
 */
int hf_heap_set(hf_heap *h, hf_due *d, int64_t at);

/* Takes the node out, if it is in. */
void hf_heap_remove(hf_heap *h, hf_due *d);

/* The earliest time, HF_NEVER when empty. */
int64_t hf_heap_next(const hf_heap *h);

/* Takes out and returns the earliest node that is due at `now`, else NULL. */
hf_due *hf_heap_pop(hf_heap *h, int64_t now);

/* Frees the array; nodes still in it are forgotten. */
void hf_heap_free(hf_heap *h);

#endif
