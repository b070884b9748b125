#include "decode.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "codec.h"

enum {
    SLICE = 64 * 1024,        /* bytes decoded between two looks at the caps */
    MIDDLE = 16 * 1024,       /* bytes that one stage hands to the next at a time */
    HELD_MAX = 64 * 1024,     /* wire bytes kept in case they turn out to be raw */
    RATIO_FROM = 1024 * 1024, /* decoded bytes below which any ratio is fine */
    KEEP = 16 * 1024          /* bytes of `held` that stay allocated between bodies */
};

struct hf_decoder {
    hf_decode_state state;
    int failed;   /* what write returned last, 0 while all is well */
    size_t base;  /* out->len when the body began */
    bool holding; /* held and the current input are all that came */
    bool text;    /* all that came looks like plain text */
    hf_buf held;
    uint64_t max_ratio;               /* 0 = any */
    hf_codec codec[HF_DECODE_CHAIN];  /* in the order of undoing */
    uint8_t *middle[HF_DECODE_CHAIN]; /* owned, MIDDLE bytes each; NULL until needed */
    const hf_curl *curl;
};

hf_decoder *hf_decoder_new(const hf_curl *c, int64_t max_ratio) {
    hf_decoder *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return NULL;
    }
    for (int i = 0; i < HF_DECODE_CHAIN; i++) {
        hf_codec_init(&d->codec[i], c);
    }
    d->curl = c;
    d->held = hf_buf_make(HELD_MAX);
    d->max_ratio = max_ratio > 0 ? (uint64_t)max_ratio : 0;
    return d;
}

void hf_decoder_free(hf_decoder *d) {
    if (d == NULL) {
        return;
    }
    for (int i = 0; i < HF_DECODE_CHAIN; i++) {
        hf_codec_free(&d->codec[i]);
        free(d->middle[i]);
    }
    hf_buf_free(&d->held);
    free(d);
}

const hf_decode_state *hf_decoder_state(const hf_decoder *d) {
    return &d->state;
}

/* ---- Content-Encoding ---- */

enum { NOTHING = -1, UNKNOWN = -2 };

static int kind_of(const hf_curl *c, const uint8_t *token, size_t n) {
    static const struct {
        const char *name;
        int kind;
    } known[] = {{"gzip", HF_CODEC_GZIP},
                 {"x-gzip", HF_CODEC_GZIP},
                 {"deflate", HF_CODEC_DEFLATE},
                 {"br", HF_CODEC_BROTLI},
                 {"zstd", HF_CODEC_ZSTD},
                 {"identity", NOTHING},
                 {"none", NOTHING},
                 {"", NOTHING}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == n &&
            (n == 0 || strncasecmp(known[i].name, (const char *)token, n) == 0)) {
            int kind = known[i].kind;
            bool lacking = (kind == HF_CODEC_BROTLI && !c->brotli) ||
                           (kind == HF_CODEC_ZSTD && !c->zstd);
            return lacking ? UNKNOWN : kind;
        }
    }
    return UNKNOWN;
}

/* Fills kinds in the order of application; returns the count, which may pass the cap,
 * or UNKNOWN. */
static int read_chain(const hf_curl *c, const uint8_t *p, size_t n,
                      hf_codec_kind kinds[HF_DECODE_CHAIN]) {
    int count = 0;
    bool unknown = false;
    for (size_t i = 0; i < n; i++) {
        size_t start = i;
        while (i < n && p[i] != ',') {
            i++;
        }
        size_t end = i;
        while (start < end && (p[start] == ' ' || p[start] == '\t')) {
            start++;
        }
        while (end > start && (p[end - 1] == ' ' || p[end - 1] == '\t')) {
            end--;
        }
        int kind = kind_of(c, p + start, end - start);
        unknown = unknown || kind == UNKNOWN;
        if (kind >= 0) {
            if (count < HF_DECODE_CHAIN) {
                kinds[count] = (hf_codec_kind)kind;
            }
            count++;
        }
    }
    return unknown ? UNKNOWN : count;
}

int hf_decoder_start(hf_decoder *d, const uint8_t *content_encoding, size_t n) {
    hf_codec_kind kinds[HF_DECODE_CHAIN];
    d->state = (hf_decode_state){0};
    d->failed = 0;
    d->base = 0;
    d->holding = true;
    d->text = true;
    hf_buf_reset(&d->held, KEEP);
    int count = read_chain(d->curl, content_encoding, n, kinds);
    if (count == UNKNOWN) {
        d->state.unknown = true;
        return 0;
    }
    if (!d->curl->decodes) {
        return 0;
    }
    if (count > HF_DECODE_CHAIN) {
        d->state.raw = true;
        return HF_EFULL;
    }
    for (int i = 0; i < count; i++) {
        int rc = hf_codec_start(&d->codec[i], kinds[count - 1 - i]);
        if (rc == 0 && i + 1 < count && d->middle[i] == NULL) {
            d->middle[i] = malloc(MIDDLE);
            rc = d->middle[i] != NULL ? 0 : HF_ENOMEM;
        }
        if (rc != 0) {
            d->failed = rc;
            return rc;
        }
    }
    d->state.stages = count;
    return 0;
}

/* ---- Decoding ---- */

/* Makes room for the next slice; 0 bytes of it when the maximum is reached. */
static int next_slice(hf_buf *out, size_t input, size_t *room) {
    size_t left = out->max - out->len;
    size_t spare = out->cap - out->len;
    if (spare < 1024 && spare < left) {
        /* Text shrinks to a quarter or so: guess that, and let doubling do the rest. */
        size_t guess = input < SLICE / 4 ? input * 4 + 1024 : SLICE;
        int rc = hf_buf_reserve(out, guess < left ? guess : left);
        if (rc != 0) {
            return rc;
        }
        spare = out->cap - out->len;
    }
    *room = spare < SLICE ? spare : SLICE;
    return 0;
}

/* Holds what stage i has put out so far against the caps. What one stage hands to the
 * next is capped too: a bomb may hide in the middle. */
static int check_caps(hf_decoder *d, int i, const hf_buf *out) {
    uint64_t produced = d->codec[i].produced;
    if (i + 1 < d->state.stages && produced > RATIO_FROM &&
        produced - RATIO_FROM > out->max) {
        d->state.size_hit = true;
        return HF_EFULL;
    }
    if (d->max_ratio > 0 && produced > RATIO_FROM &&
        produced / d->max_ratio > d->state.wire) {
        d->state.ratio_hit = true;
        return HF_EFULL;
    }
    return 0;
}

/* The last stage's step, straight into out. */
static int step_last(hf_decoder *d, hf_codec *k, const uint8_t **in, size_t *n,
                     hf_buf *out, bool *full) {
    uint8_t beyond; /* past the maximum: is there one byte more, or is that all? */
    size_t room = 0;
    size_t made = 0;
    int rc = next_slice(out, *n, &room);
    if (rc != 0) {
        return rc;
    }
    if (room == 0) {
        rc = hf_codec_step(k, in, n, &beyond, 1, &made);
        d->state.size_hit = made > 0;
        return made > 0 ? HF_EFULL : rc;
    }
    rc = hf_codec_step(k, in, n, out->data + out->len, room, &made);
    out->len += made;
    d->state.decoded += made;
    *full = made == room;
    return rc;
}

static int push(hf_decoder *d, int i, const uint8_t *in, size_t n, hf_buf *out) {
    hf_codec *k = &d->codec[i];
    bool last = i + 1 == d->state.stages;
    bool full;
    int rc;
    do {
        full = false;
        if (last) {
            rc = step_last(d, k, &in, &n, out, &full);
        } else {
            size_t made = 0;
            rc = hf_codec_step(k, &in, &n, d->middle[i], MIDDLE, &made);
            full = made == MIDDLE;
            int next = made > 0 ? push(d, i + 1, d->middle[i], made, out) : 0;
            rc = next != 0 ? next : rc;
        }
        d->state.trailing = d->state.trailing || k->trailing;
        if (rc == 0) {
            rc = check_caps(d, i, out);
        }
    } while (rc == 0 && (n > 0 || full));
    return rc;
}

/* ---- When it does not decode ---- */

static bool is_text(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] < 0x20 && p[i] != '\t' && p[i] != '\n' && p[i] != '\r') {
            return false;
        }
    }
    return true;
}

static int pass(hf_decoder *d, const uint8_t *in, size_t n, hf_buf *out) {
    int64_t kept = hf_buf_append_some(out, in, n);
    if (kept < 0) {
        return (int)kept;
    }
    if ((size_t)kept < n) {
        d->state.size_hit = true;
        return HF_EFULL;
    }
    return 0;
}

/* True when the bytes as they came serve better than what was made of them. Brotli and
 * raw deflate can make a few bytes of junk from a plain page before they notice. */
static bool better_raw(const hf_decoder *d) {
    return d->holding && (d->state.decoded == 0 || d->text);
}

static int fall_back(hf_decoder *d, const uint8_t *in, size_t n, hf_buf *out) {
    out->len = d->base;
    d->state.raw = true;
    d->state.decoded = 0;
    int rc = pass(d, d->held.data, d->held.len, out);
    return rc == 0 ? pass(d, in, n, out) : rc;
}

/* Keeps wire bytes as long as they might be wanted raw. */
static void hold(hf_decoder *d, const uint8_t *in, size_t n) {
    d->holding = better_raw(d) && hf_buf_append(&d->held, in, n) == 0;
}

int hf_decoder_write(hf_decoder *d, const uint8_t *in, size_t n, hf_buf *out) {
    if (d->failed != 0 || n == 0) {
        return d->failed;
    }
    if (d->state.wire == 0) {
        d->base = out->len;
    }
    d->state.wire += n;
    int rc;
    if (d->state.stages == 0 || d->state.raw) {
        rc = pass(d, in, n, out);
    } else {
        d->text = d->text && is_text(in, n);
        rc = push(d, 0, in, n, out);
        if (rc == HF_EBAD && better_raw(d)) {
            rc = fall_back(d, in, n, out);
        } else if (rc == 0 && d->holding) {
            hold(d, in, n);
        }
    }
    d->failed = rc;
    return rc;
}

int hf_decoder_finish(hf_decoder *d, hf_buf *out) {
    if (d->failed != 0) {
        return d->failed;
    }
    if (d->state.raw) {
        return HF_EBAD;
    }
    if (d->state.wire == 0) {
        return 0;
    }
    for (int i = 0; i < d->state.stages; i++) {
        /* An inner stage that got nothing had an empty body to decode. */
        if (d->codec[i].fed > 0 && hf_codec_end(&d->codec[i]) != 0) {
            if (better_raw(d)) {
                (void)fall_back(d, NULL, 0, out);
            }
            d->failed = HF_EBAD;
            return HF_EBAD;
        }
    }
    return 0;
}

/* ---- Spare ones ---- */

hf_decoder *hf_decoders_take(hf_decoders *pool, const hf_curl *c, int64_t max_ratio) {
    if (pool->n == 0) {
        return hf_decoder_new(c, max_ratio);
    }
    pool->n--;
    hf_lull_took(&pool->lull, pool->n);
    return pool->spare[pool->n];
}

static void free_first(hf_decoders *pool, int n) {
    for (int i = 0; i < n; i++) {
        hf_decoder_free(pool->spare[i]);
    }
    pool->n -= n;
    memmove(pool->spare, pool->spare + n, (size_t)pool->n * sizeof pool->spare[0]);
}

void hf_decoders_give(hf_decoders *pool, hf_decoder *d) {
    if (pool->n == HF_SPARE_DECODERS) {
        hf_decoder_free(d);
        return;
    }
    pool->spare[pool->n++] = d;
    int unused = hf_lull_gave(&pool->lull, pool->n);
    if (unused > 0) {
        free_first(pool, unused);
    }
}

void hf_decoders_free(hf_decoders *pool) {
    free_first(pool, pool->n);
}
