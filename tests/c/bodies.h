/* A page in every encoding, and a decoder driven over it in pieces. */
#ifndef TEST_BODIES_H
#define TEST_BODIES_H

#include <time.h>

#include "decode.h"
#include "encoders.h"

static hf_curl curl;
static char text[200000]; /* a page with some variety */

static const struct {
    const char *how;   /* for encoded() */
    const char *field; /* Content-Encoding */
} formats[] = {{"gzip", "gzip"},
               {"zlib", "deflate"},
               {"raw", "deflate"},
               {"br", "br"},
               {"zstd", "zstd"}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static inline void make_text(void) {
    size_t used = 0;
    unsigned long long seed = 1;
    while (used + 64 < sizeof text) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "<p>%llx word %d</p>\n", seed >> 40, (int)used % 97);
    }
    memset(text + used, '.', sizeof text - used);
}

static inline int start(hf_decoder *d, const char *field) {
    return hf_decoder_start(d, (const uint8_t *)field, strlen(field));
}

/* Feeds a body in pieces of `piece` bytes; returns what finish says. */
static inline int decode(hf_decoder *d, const char *field, const void *body, size_t n,
                         size_t piece, hf_buf *out) {
    hf_buf_reset(out, 1 << 20);
    (void)start(d, field);
    for (size_t i = 0; i < n; i += piece) {
        size_t len = n - i < piece ? n - i : piece;
        if (hf_decoder_write(d, (const uint8_t *)body + i, len, out) != 0) {
            break;
        }
    }
    return hf_decoder_finish(d, out);
}

static inline int is_prefix(const hf_buf *out) {
    return out->len <= sizeof text &&
           (out->len == 0 || memcmp(out->data, text, out->len) == 0);
}

static inline int holds_text(const hf_buf *out) {
    return out->len == sizeof text && memcmp(out->data, text, sizeof text) == 0;
}

static inline int same(const hf_buf *out, const void *p, size_t n) {
    return out->len == n && (n == 0 || memcmp(out->data, p, n) == 0);
}

static inline double cpu_now(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

#endif
