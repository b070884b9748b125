#include "spares.h"

#include <stdlib.h>

/* Bytes kept in one block, and in all. */
#define BLOCK_MOST ((size_t)1 << 20)
#define BYTES_MOST ((size_t)8 << 20)

void hf_spares_lend(hf_spares *spares, hf_buf *b) {
    if (b->cap > 0 || spares->n == 0) {
        return;
    }
    spares->n--;
    b->data = spares->spare[spares->n].data;
    b->cap = spares->spare[spares->n].cap;
    spares->bytes -= b->cap;
}

void hf_spares_take(hf_spares *spares, hf_buf *b) {
    if (b->cap == 0) {
        return;
    }
    if (b->cap > BLOCK_MOST || b->cap > BYTES_MOST - spares->bytes ||
        spares->n == HF_SPARES) {
        hf_buf_free(b);
        return;
    }
    spares->spare[spares->n].data = b->data;
    spares->spare[spares->n].cap = b->cap;
    spares->n++;
    spares->bytes += b->cap;
    *b = hf_buf_make(b->max);
}

void hf_spares_free(hf_spares *spares) {
    while (spares->n > 0) {
        free(spares->spare[--spares->n].data);
    }
    spares->bytes = 0;
}
