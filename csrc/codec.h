/* One stage of content decoding: gzip, deflate, brotli or zstd, as a stream.
 *
 * Invariant: a stage's contexts are made once and used again, so that a body costs no
 * allocation in the steady state; what a hostile body could blow up (windows beyond 8
 * MiB in zstd and 16 MiB in brotli) is refused by the decoders or given back after use.
 * Not here: chains, caps and what to do with a bad body (decode.h).
 */
#ifndef HF_CODEC_H
#define HF_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "curlabi.h"

typedef enum hf_codec_kind {
    HF_CODEC_GZIP,    /* any number of members */
    HF_CODEC_DEFLATE, /* wrapped by zlib, raw, or gzip after all: by its first bytes */
    HF_CODEC_BROTLI,
    HF_CODEC_ZSTD /* any number of frames */
} hf_codec_kind;

enum { HF_CODEC_SPARE = 8 }; /* blocks kept for brotli's next stream */

typedef struct hf_codec {
    uint64_t fed;      /* bytes in since start */
    uint64_t produced; /* bytes out since start */
    hf_codec_kind kind;
    int state;       /* codec.c's */
    bool pending;    /* the last step filled its output: there may be more */
    bool trailing;   /* bytes behind the end were passed over */
    uint8_t head[4]; /* first bytes of a stream or member, while looked at */
    uint8_t head_len;
    uint8_t head_used; /* of them handed to the decoder */
    bool z_made;
    hf_z_stream z;
    void *brotli; /* owned; made anew for each stream, from spare blocks */
    void *zstd;   /* owned */
    void *spare[HF_CODEC_SPARE]; /* owned */
    const hf_curl *curl;
} hf_codec;

/* A codec that holds nothing yet; it must not move while in use. */
void hf_codec_init(hf_codec *k, const hf_curl *c);

/* Begins a stream. Thread: one at a time, as all of this.
 * Returns 0, or HF_ENOMEM. */
int hf_codec_start(hf_codec *k, hf_codec_kind kind);

/* Decodes from *in (n bytes left in *n, both moved on) into out, until the input is
 * used up or out is full. *made tells the bytes written. When it equals cap there may
 * be more without further input: call again. Returns 0, HF_EBAD for bytes that the
 * format does not allow (*made counts), HF_ENOMEM.
 */
int hf_codec_step(hf_codec *k, const uint8_t **in, size_t *n, uint8_t *out, size_t cap,
                  size_t *made);

/* Returns 0 when the stream ended where it should, or HF_EBAD when it was cut. */
int hf_codec_end(const hf_codec *k);

/* Frees all contexts; NULL fields are allowed. */
void hf_codec_free(hf_codec *k);

#endif
