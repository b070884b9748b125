/* Requests in the packed form of api.h, built item by item, and settings to read them
 * with. */
#ifndef PACKED_H
#define PACKED_H

#include "config.h"
#include "libcurl.h"

typedef struct packed {
    uint8_t bytes[1 << 16]; /* u32 length, then items */
    size_t n;               /* bytes in use, the length's four included */
} packed;

static inline void packed_u32(uint8_t *p, size_t v) {
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

static inline void packed_begin(packed *f) {
    f->n = 4;
    packed_u32(f->bytes, 0);
}

static inline void packed_bytes(packed *f, int tag, const void *p, size_t n) {
    REQUIRE(f->n + 5 + n <= sizeof f->bytes);
    f->bytes[f->n] = (uint8_t)tag;
    packed_u32(f->bytes + f->n + 1, n);
    if (n > 0) {
        memcpy(f->bytes + f->n + 5, p, n);
    }
    f->n += 5 + n;
    packed_u32(f->bytes, f->n - 4);
}

static inline void packed_text(packed *f, int tag, const char *s) {
    packed_bytes(f, tag, s, strlen(s));
}

static inline void packed_i64(packed *f, int tag, int64_t v) {
    uint8_t b[8];
    for (int i = 0; i < 8; i++) {
        b[i] = (uint8_t)((uint64_t)v >> (8 * i));
    }
    packed_bytes(f, tag, b, 8);
}

/* Settings made of cfg with the library of the test; ends the program on failure. */
static inline void make_settings(hf_settings *s, hf_config *cfg) {
    char text[512] = "";
    hf_curl c;
    load_libcurl(&c); /* for what it loads besides */
    cfg->libcurl = getenv("HARDFETCH_LIBCURL");
    if (hf_settings_init(s, cfg, (hf_errbuf){text, sizeof text}) != 0) {
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
}

#endif
