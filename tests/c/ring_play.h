/* One thread playing both sides of a ring, for the tests of its states. */
#ifndef RING_PLAY_H
#define RING_PLAY_H

#include <stdlib.h>

#include "check.h"
#include "ring.h"

static const hf_errbuf no_text = {NULL, 0};

/* An empty ring whose positions are `at` already. */
static inline void make(hf_ring *r, size_t capacity, uint64_t at) {
    REQUIRE(hf_ring_init(r, capacity, NULL, NULL, no_text) == 0);
    hf_init(&r->tail, at);
    hf_init(&r->announced, at);
    hf_init(&r->head, at);
    r->tail_pos = r->head_seen = r->told_pos = r->head_pos = at;
}

static inline int push(hf_ring *r, const char *text) {
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
    return hf_ring_push(r, &part, 1);
}

static inline int push_ref(hf_ring *r, const char *text) {
    uint8_t *heap = malloc(strlen(text));
    REQUIRE(heap);
    memcpy(heap, text, strlen(text));
    int rc = hf_ring_push_ref(r, heap, strlen(text));
    if (rc)
        free(heap);
    return rc;
}

/* True when the next peek gives exactly this text, however it is cut. */
static inline int gives(hf_ring *r, const char *text) {
    struct iovec seg[2];
    char got[256];
    size_t n = 0;
    int count = hf_ring_peek(r, seg);
    for (int i = 0; i < count; i++) {
        REQUIRE(n + seg[i].iov_len < sizeof got);
        memcpy(got + n, seg[i].iov_base, seg[i].iov_len);
        n += seg[i].iov_len;
    }
    got[n] = 0;
    if (strcmp(got, text) != 0)
        fprintf(stderr, "    ring gives \"%s\", not \"%s\"\n", got, text);
    return strcmp(got, text) == 0;
}

#endif
