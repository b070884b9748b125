#include "spares.h"

#include <stdlib.h>
#include <string.h>

/* Bytes kept in one block, and in all. */
#define BLOCK_MOST ((size_t)1 << 20)
#define BYTES_MOST ((size_t)8 << 20)

void hf_spares_lend(hf_spares *spares, hf_buf *b) {
    if (b->cap > 0 || spares->n == 0) {
        return;
    }
    spares->n--;
    hf_lull_took(&spares->lull, spares->n);
    b->data = spares->spare[spares->n].data;
    b->cap = spares->spare[spares->n].cap;
    spares->bytes -= b->cap;
}

static void free_first(hf_spares *spares, int n) {
    for (int i = 0; i < n; i++) {
        spares->bytes -= spares->spare[i].cap;
        free(spares->spare[i].data);
    }
    spares->n -= n;
    memmove(spares->spare, spares->spare + n,
            (size_t)spares->n * sizeof spares->spare[0]);
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
    int unused = hf_lull_gave(&spares->lull, spares->n);
    if (unused > 0) {
        free_first(spares, unused);
    }
}

void hf_spares_free(hf_spares *spares) {
    while (spares->n > 0) {
        free(spares->spare[--spares->n].data);
    }
    spares->bytes = 0;
}
