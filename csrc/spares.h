/* Memory of bodies that are done with, for those to come.
 *
 * Last in, first out: a body is received, looked at and encoded in one go as a rule, so
 * what was given back last is still in the processor's cache, and one block serves page
 * after page whatever number is in flight. A response borrows it with the first byte of
 * its body. Blocks that were not needed for a while are freed: any of them becomes the
 * home of a large body sooner or later. Invariant: every block came from a buffer with
 * the same maximum.
 *
 * Thread: the owner of the shard that it belongs to, all of it.
 */
#ifndef HF_SPARES_H
#define HF_SPARES_H

#include "buf.h"
#include "lull.h"

#define HF_SPARES 64

typedef struct hf_spares {
    struct {
        uint8_t *data; /* owned */
        size_t cap;    /* bytes */
    } spare[HF_SPARES];
    int n;
    hf_lull lull;
    size_t bytes; /* of all that is spare */
} hf_spares;

/* Gives b memory that was given back, if there is some and b has none. */
void hf_spares_lend(hf_spares *spares, hf_buf *b);

/* Takes the memory of b, which is empty afterwards. What is too much to keep is freed,
 * and now and then what nobody has needed. */
void hf_spares_take(hf_spares *spares, hf_buf *b);

/* Frees what is spare. */
void hf_spares_free(hf_spares *spares);

#endif
