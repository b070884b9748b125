#include "codec.h"

#include <stdlib.h>
#include <string.h>

enum {
    BODY,    /* inside a stream */
    SNIFF,   /* deflate: the first two bytes decide */
    FIRST,   /* zstd: no frame of an early draft, which libzstd may still know */
    BETWEEN, /* behind a gzip member or zstd frame: another one, or junk? */
    OVER     /* behind the end: whatever comes is passed over */
};

enum {
    ENDED = 1, /* the decoder reached the end of a stream */
    ZLIB_BITS = 15,
    GZIP_BITS = 15 + 16,
    RAW_BITS = -15,
    Z_NEED_DICT = 2,
    Z_DATA_ERROR = -3,
    Z_STREAM_ERROR = -2,
    Z_MEM_ERROR = -4,
    ZSTD_WINDOW_LOG = 23,      /* 8 MiB, as RFC 9659 demands of content encodings */
    KEEP_BLOCK = 128 * 1024,   /* bytes of a brotli block that is kept at most */
    KEEP_CONTEXT = 1024 * 1024 /* a zstd context that produced more is given back */
};

/* ---- brotli's memory: it has no reset, so its blocks are kept instead ---- */

typedef union block {
    size_t size; /* bytes behind this header */
    max_align_t align;
} block;

static void *brotli_alloc(void *opaque, size_t size) {
    hf_codec *k = opaque;
    for (int i = 0; i < HF_CODEC_SPARE; i++) {
        block *b = k->spare[i];
        if (b != NULL && b->size >= size && b->size / 4 <= size) {
            k->spare[i] = NULL;
            return b + 1;
        }
    }
    block *b = size < SIZE_MAX / 2 ? malloc(sizeof *b + size) : NULL;
    if (b == NULL) {
        return NULL;
    }
    b->size = size;
    return b + 1;
}

static void brotli_free(void *opaque, void *p) {
    hf_codec *k = opaque;
    if (p == NULL) {
        return;
    }
    block *b = (block *)p - 1;
    for (int i = 0; i < HF_CODEC_SPARE && b->size <= KEEP_BLOCK; i++) {
        if (k->spare[i] == NULL) {
            k->spare[i] = b;
            return;
        }
    }
    free(b);
}

/* The table takes functions as plain pointers, for which ISO C has no cast. */
static int make_brotli(hf_codec *k) {
    void *(*take)(void *, size_t) = brotli_alloc;
    void (*give)(void *, void *) = brotli_free;
    void *alloc_address;
    void *free_address;
    memcpy(&alloc_address, &take, sizeof alloc_address);
    memcpy(&free_address, &give, sizeof free_address);
    if (k->brotli != NULL) {
        k->curl->BrotliDecoderDestroyInstance(k->brotli);
    }
    k->brotli = k->curl->BrotliDecoderCreateInstance(alloc_address, free_address, k);
    return k->brotli != NULL ? 0 : HF_ENOMEM;
}

/* ---- Beginning and ending ---- */

static int make_zlib(hf_codec *k, int bits) {
    int rc;
    if (k->z_made) {
        rc = k->curl->inflateReset2(&k->z, bits);
    } else {
        memset(&k->z, 0, sizeof k->z);
        /* The version's first digit and the struct's size are what zlib compares. */
        rc = k->curl->inflateInit2_(&k->z, bits, "1.3.1", (int)sizeof k->z);
        k->z_made = rc == HF_Z_OK;
    }
    return rc == HF_Z_OK ? 0 : HF_ENOMEM;
}

static int make_zstd(hf_codec *k) {
    if (k->zstd == NULL) {
        k->zstd = k->curl->ZSTD_createDCtx();
    }
    if (k->zstd == NULL) {
        return HF_ENOMEM;
    }
    (void)k->curl->ZSTD_DCtx_reset(k->zstd, HF_ZSTD_RESET_SESSION);
    size_t rc = k->curl->ZSTD_DCtx_setParameter(k->zstd, HF_ZSTD_D_WINDOW_LOG_MAX,
                                                ZSTD_WINDOW_LOG);
    return k->curl->ZSTD_isError(rc) ? HF_ENOMEM : 0;
}

void hf_codec_init(hf_codec *k, const hf_curl *c) {
    memset(k, 0, sizeof *k);
    k->curl = c;
}

int hf_codec_start(hf_codec *k, hf_codec_kind kind) {
    if (k->zstd != NULL && k->kind == HF_CODEC_ZSTD && k->produced > KEEP_CONTEXT) {
        k->curl->ZSTD_freeDCtx(k->zstd);
        k->zstd = NULL;
    }
    k->kind = kind;
    k->fed = 0;
    k->produced = 0;
    k->pending = false;
    k->trailing = false;
    k->head_len = 0;
    k->head_used = 0;
    k->state = BODY;
    switch (kind) {
    case HF_CODEC_GZIP:
        return make_zlib(k, GZIP_BITS);
    case HF_CODEC_DEFLATE:
        k->state = SNIFF;
        return 0;
    case HF_CODEC_BROTLI:
        return make_brotli(k);
    default:
        k->state = FIRST;
        return make_zstd(k);
    }
}

int hf_codec_end(const hf_codec *k) {
    /* Between members nothing may be half seen: the start of a magic number is rather a
     * cut member than junk. */
    return k->state == OVER || (k->state == BETWEEN && k->head_len == 0) ? 0 : HF_EBAD;
}

void hf_codec_free(hf_codec *k) {
    if (k->z_made) {
        (void)k->curl->inflateEnd(&k->z);
    }
    if (k->brotli != NULL) {
        k->curl->BrotliDecoderDestroyInstance(k->brotli);
    }
    if (k->zstd != NULL) {
        (void)k->curl->ZSTD_freeDCtx(k->zstd);
    }
    for (int i = 0; i < HF_CODEC_SPARE; i++) {
        free(k->spare[i]);
    }
    hf_codec_init(k, k->curl);
}

/* ---- Running: each returns 0, ENDED, HF_EBAD or HF_ENOMEM ---- */

static int run_zlib(hf_codec *k, const uint8_t *in, size_t n, size_t *used,
                    uint8_t *out, size_t cap, size_t *made) {
    k->z.next_in = in;
    k->z.avail_in = n > UINT32_MAX ? UINT32_MAX : (unsigned)n;
    k->z.next_out = out;
    k->z.avail_out = cap > UINT32_MAX ? UINT32_MAX : (unsigned)cap;
    int rc = k->curl->inflate(&k->z, HF_Z_NO_FLUSH);
    *used = (size_t)(k->z.next_in - in);
    *made = (size_t)(k->z.next_out - out);
    switch (rc) {
    case HF_Z_OK:
    case HF_Z_BUF_ERROR:
        return 0;
    case HF_Z_STREAM_END:
        return ENDED;
    case Z_MEM_ERROR:
        return HF_ENOMEM;
    default:
        return HF_EBAD;
    }
}

static int run_brotli(hf_codec *k, const uint8_t *in, size_t n, size_t *used,
                      uint8_t *out, size_t cap, size_t *made) {
    size_t left = n;
    size_t room = cap;
    int rc = k->curl->BrotliDecoderDecompressStream(k->brotli, &left, &in, &room, &out,
                                                    NULL);
    *used = n - left;
    *made = cap - room;
    return rc == HF_BROTLI_SUCCESS ? ENDED : rc == HF_BROTLI_ERROR ? HF_EBAD : 0;
}

static int run_zstd(hf_codec *k, const uint8_t *in, size_t n, size_t *used,
                    uint8_t *out, size_t cap, size_t *made) {
    hf_zstd_in from = {in, n, 0};
    hf_zstd_out to = {out, cap, 0};
    size_t rc = k->curl->ZSTD_decompressStream(k->zstd, &to, &from);
    *used = from.pos;
    *made = to.pos;
    if (k->curl->ZSTD_isError(rc)) {
        return HF_EBAD;
    }
    return rc == 0 ? ENDED : 0;
}

static int run(hf_codec *k, const uint8_t *in, size_t n, size_t *used, uint8_t *out,
               size_t cap, size_t *made) {
    switch (k->kind) {
    case HF_CODEC_BROTLI:
        return run_brotli(k, in, n, used, out, cap, made);
    case HF_CODEC_ZSTD:
        return run_zstd(k, in, n, used, out, cap, made);
    default:
        return run_zlib(k, in, n, used, out, cap, made);
    }
}

/* ---- Looking at first bytes ---- */

/* How many bits inflate should be told for a deflate body that starts with these. */
static int deflate_bits(const uint8_t head[2]) {
    if (head[0] == 0x1f && head[1] == 0x8b) {
        return GZIP_BITS; /* no raw stream starts so: its block type is reserved */
    }
    bool zlib = (head[0] & 0x0f) == 8 && head[0] >> 4 <= 7 &&
                (head[0] << 8 | head[1]) % 31 == 0;
    return zlib ? ZLIB_BITS : RAW_BITS;
}

/* True while head can be the start of another member or frame. */
static bool may_go_on(const hf_codec *k) {
    static const uint8_t gzip[2] = {0x1f, 0x8b};
    static const uint8_t frame[4] = {0x28, 0xb5, 0x2f, 0xfd};
    static const uint8_t skipped[3] = {0x2a, 0x4d, 0x18}; /* behind 0x50..0x5f */
    if (k->kind == HF_CODEC_GZIP) {
        return memcmp(k->head, gzip, k->head_len) == 0;
    }
    return memcmp(k->head, frame, k->head_len) == 0 ||
           ((k->head[0] & 0xf0) == 0x50 &&
            memcmp(k->head + 1, skipped, (size_t)k->head_len - 1) == 0);
}

/* Takes one byte into head and decides once there is enough. */
static int look(hf_codec *k, uint8_t byte) {
    size_t enough = k->kind == HF_CODEC_ZSTD ? 4 : 2;
    k->head[k->head_len++] = byte;
    if (k->state == BETWEEN && !may_go_on(k)) {
        k->state = OVER;
        k->trailing = true;
        return 0;
    }
    if (k->state == FIRST && !may_go_on(k)) {
        return HF_EBAD;
    }
    if (k->head_len < enough) {
        return 0;
    }
    k->head_used = 0;
    int rc = 0;
    if (k->state == SNIFF) {
        rc = make_zlib(k, deflate_bits(k->head));
    } else if (k->kind == HF_CODEC_GZIP) {
        rc = make_zlib(k, GZIP_BITS);
    }
    k->state = BODY;
    return rc;
}

/* One call of the decoder, from head while that lasts. Sets *more when another call may
 * get further. */
static int step_body(hf_codec *k, const uint8_t **in, size_t *n, uint8_t *out,
                     size_t cap, size_t *made, bool *more) {
    bool replay = k->head_used < k->head_len;
    const uint8_t *from = replay ? k->head + k->head_used : *in;
    size_t len = replay ? (size_t)(k->head_len - k->head_used) : *n;
    size_t used = 0;
    size_t got = 0;
    *more = false;
    if ((len == 0 && !k->pending) || *made == cap) {
        return 0;
    }
    int rc = run(k, from, len, &used, out + *made, cap - *made, &got);
    if (replay) {
        k->head_used = (uint8_t)(k->head_used + used);
    } else {
        *in += used;
        *n -= used;
    }
    *made += got;
    k->produced += got;
    k->pending = *made == cap;
    *more = used > 0 || got > 0;
    if (rc == ENDED) {
        bool members = k->kind == HF_CODEC_GZIP || k->kind == HF_CODEC_ZSTD;
        k->state = members ? BETWEEN : OVER;
        k->head_len = 0;
        k->head_used = 0;
        k->pending = false;
        *more = true;
        rc = 0;
    }
    return rc;
}

int hf_codec_step(hf_codec *k, const uint8_t **in, size_t *n, uint8_t *out, size_t cap,
                  size_t *made) {
    int rc = 0;
    bool more = true;
    *made = 0;
    k->fed += *n;
    while (rc == 0 && more) {
        if (k->state == BODY) {
            rc = step_body(k, in, n, out, cap, made, &more);
        } else if (k->state == OVER) {
            k->trailing = k->trailing || *n > 0;
            *in += *n;
            *n = 0;
            more = false;
        } else if (*n > 0) {
            rc = look(k, **in);
            *in += 1;
            *n -= 1;
        } else {
            more = false;
        }
    }
    return rc;
}
