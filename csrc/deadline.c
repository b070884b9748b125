#include "deadline.h"

#include <stdlib.h>

#define ARITY 4

static void place(hf_heap *h, hf_due *d, int32_t i) {
    h->at[i] = d;
    d->index = i;
}

static void sift_up(hf_heap *h, hf_due *d, int32_t i) {
    while (i > 0) {
        int32_t parent = (i - 1) / ARITY;
        if (h->at[parent]->at <= d->at) {
            break;
        }
        place(h, h->at[parent], i);
        i = parent;
    }
    place(h, d, i);
}

static int32_t least_child(const hf_heap *h, int32_t i) {
    int32_t first = i * ARITY + 1;
    int32_t best = first;
    for (int32_t c = first + 1; c < first + ARITY && c < h->len; c++) {
        if (h->at[c]->at < h->at[best]->at) {
            best = c;
        }
    }
    return best;
}

static void sift_down(hf_heap *h, hf_due *d, int32_t i) {
    while (i * ARITY + 1 < h->len) {
        int32_t child = least_child(h, i);
        if (h->at[child]->at >= d->at) {
            break;
        }
        place(h, h->at[child], i);
        i = child;
    }
    place(h, d, i);
}

int hf_heap_reserve(hf_heap *h, int32_t n) {
    if (n <= h->cap) {
        return 0;
    }
    int32_t cap = h->cap < 64 ? 64 : h->cap;
    while (cap < n) {
        cap *= 2;
    }
    hf_due **at = realloc(h->at, (size_t)cap * sizeof *at);
    if (at == NULL) {
        return HF_ENOMEM;
    }
    h->at = at;
    h->cap = cap;
    return 0;
}

void hf_heap_remove(hf_heap *h, hf_due *d) {
    int32_t i = d->index;
    if (i < 0) {
        return;
    }
    d->index = -1;
    hf_due *last = h->at[--h->len];
    if (last == d) {
        return;
    }
    /* The last node takes the hole and moves to where it belongs. */
    sift_up(h, last, i);
    sift_down(h, last, last->index);
}

int hf_heap_set(hf_heap *h, hf_due *d, int64_t at) {
    if (at == HF_NEVER) {
        hf_heap_remove(h, d);
        d->at = at;
        return 0;
    }
    if (d->index >= 0) {
        int64_t before = d->at;
        d->at = at;
        if (at < before) {
            sift_up(h, d, d->index);
        } else {
            sift_down(h, d, d->index);
        }
        return 0;
    }
    int rc = hf_heap_reserve(h, h->len + 1);
    if (rc != 0) {
        return rc;
    }
    d->at = at;
    sift_up(h, d, h->len++);
    return 0;
}

int64_t hf_heap_next(const hf_heap *h) {
    return h->len > 0 ? h->at[0]->at : HF_NEVER;
}

hf_due *hf_heap_pop(hf_heap *h, int64_t now) {
    if (h->len == 0 || h->at[0]->at > now) {
        return NULL;
    }
    hf_due *d = h->at[0];
    hf_heap_remove(h, d);
    return d;
}

void hf_heap_free(hf_heap *h) {
    free(h->at);
    *h = (hf_heap){NULL, 0, 0};
}
