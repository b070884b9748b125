/* The compressors that stand in the same shared object as libcurl, for making bodies.
 */
#ifndef TEST_ENCODERS_H
#define TEST_ENCODERS_H

#include "libcurl.h"

typedef struct bytes {
    uint8_t *p; /* malloc's */
    size_t n;
} bytes;

static inline void *encoder_symbol(const hf_curl *c, const char *name) {
    void *s = dlsym(c->handle, name);
    if (s == NULL) {
        fprintf(stderr, "%s does not export %s\n", c->path, name);
        exit(1);
    }
    return s;
}

/* flush: 4 to end the stream, 3 for a full flush whose blocks can be repeated. */
static inline bytes deflate_with(const hf_curl *c, const void *in, size_t n, int bits,
                                 int flush) {
    int (*init)(hf_z_stream *, int, int, int, int, int, const char *, int);
    int (*run)(hf_z_stream *, int);
    int (*end)(hf_z_stream *);
    *(void **)&init = encoder_symbol(c, "deflateInit2_");
    *(void **)&run = encoder_symbol(c, "deflate");
    *(void **)&end = encoder_symbol(c, "deflateEnd");
    hf_z_stream z;
    bytes out = {malloc(n + 1024), 0};
    memset(&z, 0, sizeof z);
    REQUIRE(init(&z, 6, 8, bits, 8, 0, "1.3.1", (int)sizeof z) == 0);
    z.next_in = in;
    z.avail_in = (unsigned)n;
    z.next_out = out.p;
    z.avail_out = (unsigned)n + 1024;
    int rc = run(&z, flush);
    REQUIRE(rc == (flush == 4 ? 1 : 0) && z.avail_out > 0);
    out.n = (size_t)(z.next_out - out.p);
    end(&z);
    return out;
}

static inline bytes brotli_of(const hf_curl *c, const void *in, size_t n) {
    int (*encode)(int, int, int, size_t, const uint8_t *, size_t *, uint8_t *);
    *(void **)&encode = encoder_symbol(c, "BrotliEncoderCompress");
    bytes out = {malloc(n + 1024), n + 1024};
    REQUIRE(encode(5, 22, 0, n, in, &out.n, out.p) == 1);
    return out;
}

static inline bytes zstd_of(const hf_curl *c, const void *in, size_t n) {
    size_t (*encode)(void *, size_t, const void *, size_t, int);
    *(void **)&encode = encoder_symbol(c, "ZSTD_compress");
    bytes out = {malloc(n + 1024), 0};
    out.n = encode(out.p, n + 1024, in, n, 3);
    REQUIRE(!c->ZSTD_isError(out.n));
    return out;
}

static inline bytes encoded(const hf_curl *c, const char *how, const void *in,
                            size_t n) {
    if (strcmp(how, "gzip") == 0) {
        return deflate_with(c, in, n, 31, 4);
    }
    if (strcmp(how, "zlib") == 0) {
        return deflate_with(c, in, n, 15, 4);
    }
    if (strcmp(how, "raw") == 0) {
        return deflate_with(c, in, n, -15, 4);
    }
    return strcmp(how, "br") == 0 ? brotli_of(c, in, n) : zstd_of(c, in, n);
}

#endif
