/* Content decoding of one body after another: chains, caps, and an honest end.
 *
 * A decoder belongs to one loop and serves a body at a time: start, write…, finish.
 * Invariant: what is in the output is a prefix of the decoded body, or, where nothing
 * sensible could be decoded, the body as it came. Work and memory are bounded by the
 * output's maximum, also for bombs inside bombs. Not here: chunk framing (libcurl),
 * text.
 */
#ifndef HF_DECODE_H
#define HF_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "curlabi.h"
#include "lull.h"

enum { HF_DECODE_CHAIN = 5 }; /* encodings stacked on each other, at most */

/* What is known of the current body. */
typedef struct hf_decode_state {
    uint64_t wire;    /* bytes written in */
    uint64_t decoded; /* bytes that decoding put out; 0 while raw */
    int stages;       /* encodings to undo; 0: bytes pass as they are */
    bool unknown;     /* an encoding is none of ours: bytes pass as they are */
    bool raw;         /* it did not decode: the bytes as they came are the output */
    bool trailing;    /* bytes behind a complete body were passed over */
    bool size_hit;    /* HF_EFULL came from the output's maximum */
    bool ratio_hit;   /* HF_EFULL came from the ratio */
} hf_decode_state;

typedef struct hf_decoder hf_decoder;

/* A decoder that allocates its contexts as bodies need them and keeps them.
 * max_ratio: decoded over wire bytes that is allowed past 1 MiB decoded; 0 = any.
 * Thread: one at a time, as all of this. The result is the caller's. NULL: no memory.
 */
hf_decoder *hf_decoder_new(const hf_curl *c, int64_t max_ratio);

/* Begins a body. content_encoding is the field's value; several fields are joined by
 * commas. "identity" and "none" count as nothing. With a library that lacks decoders
 * all bytes pass as they are: libcurl is to decode then. Returns 0, HF_EFULL when more
 * than HF_DECODE_CHAIN are stacked (bytes then pass as they are, and finish returns
 * HF_EBAD), HF_ENOMEM.
 */
int hf_decoder_start(hf_decoder *d, const uint8_t *content_encoding, size_t n);

/* Decodes n wire bytes onto the end of out, the same one for the whole body, which no
 * one else touches meanwhile. out->max is the cap; what fits under it is kept. When
 * nothing was decoded, or all that came is plain text, bytes that do not decode are
 * handed through instead (state.raw): the call returns 0 and finish tells. Blocks: no;
 * the work is bounded by n and the room in out. Returns 0, HF_EFULL (see size_hit and
 * ratio_hit), HF_EBAD for a corrupt body whose prefix is kept, HF_ENOMEM. After a
 * failure each further call returns the same.
 */
int hf_decoder_write(hf_decoder *d, const uint8_t *in, size_t n, hf_buf *out);

/* Ends the body, also one that was cut. A body without a byte is complete.
 * Returns 0 when every stage came to its end, HF_EBAD when one was cut or corrupt or
 * the body was handed through as raw, else the failure that write returned. */
int hf_decoder_finish(hf_decoder *d, hf_buf *out);

/* Valid: until the next start. */
const hf_decode_state *hf_decoder_state(const hf_decoder *d);

/* Frees the decoder and its contexts; NULL is allowed. */
void hf_decoder_free(hf_decoder *d);

/* Decoders between two bodies; last in, first out. All zero is an empty one. */
enum { HF_SPARE_DECODERS = 64 };

typedef struct hf_decoders {
    hf_decoder *spare[HF_SPARE_DECODERS]; /* owned */
    int n;
    hf_lull lull;
} hf_decoders;

/* A spare decoder, or a new one, as hf_decoder_new makes it: the same for all of a
 * pool. */
hf_decoder *hf_decoders_take(hf_decoders *pool, const hf_curl *c, int64_t max_ratio);

/* Puts one back, or frees it; now and then those that nobody has needed too. */
void hf_decoders_give(hf_decoders *pool, hf_decoder *d);

/* Frees what is spare. */
void hf_decoders_free(hf_decoders *pool);

#endif
