#include "buf.h"

#include <stdlib.h>

int hf_buf_reserve(hf_buf *b, size_t extra) {
    if (b->len + extra <= b->cap && b->len + extra >= b->len) {
        return 0;
    }
    if (extra > b->max - b->len) {
        return HF_EFULL;
    }
    size_t need = b->len + extra;
    size_t cap = b->cap < 256 ? 256 : b->cap;
    while (cap < need) {
        cap = cap > b->max / 2 ? b->max : cap * 2;
    }
    if (cap > b->max) {
        cap = b->max;
    }
    uint8_t *p = realloc(b->data, cap);
    if (p == NULL) {
        return HF_ENOMEM;
    }
    b->data = p;
    b->cap = cap;
    return 0;
}

int hf_buf_append(hf_buf *b, const void *p, size_t n) {
    int rc = hf_buf_reserve(b, n);
    if (rc == 0 && n > 0) {
        memcpy(b->data + b->len, p, n);
        b->len += n;
    }
    return rc;
}

int64_t hf_buf_append_some(hf_buf *b, const void *p, size_t n) {
    size_t room = b->max - b->len;
    if (n > room) {
        n = room;
    }
    int rc = hf_buf_append(b, p, n);
    return rc == 0 ? (int64_t)n : rc;
}

void hf_buf_reset(hf_buf *b, size_t keep) {
    b->len = 0;
    if (b->cap > keep) {
        hf_buf_free(b);
    }
}

void hf_buf_free(hf_buf *b) {
    free(b->data);
    b->data = NULL;
    b->len = 0;
    b->cap = 0;
}
