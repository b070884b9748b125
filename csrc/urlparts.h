/* A URL taken apart into slices, and put together again in its normal form.
 *
 * Invariant: taking apart copies and decodes nothing; putting together encodes what may
 * not stand raw, resolves dot segments, drops default ports, and makes one allocation.
 * What is inside url.c's reach only: everyone else uses url.h.
 */
#ifndef HF_URLPARTS_H
#define HF_URLPARTS_H

#include "buf.h"
#include "url.h"

/* Where a byte may stand raw; elsewhere it is percent-encoded (WHATWG's sets). */
enum { HF_IN_PATH = 1, HF_IN_QUERY = 2, HF_IN_FRAGMENT = 4, HF_IN_USER = 8 };
extern const uint8_t hf_urlparts_raw[256];

/* A slice of text that someone else owns. */
typedef struct hf_piece {
    const uint8_t *p; /* NULL: not there at all */
    size_t n;
} hf_piece;

/* An absolute URL taken apart, nothing decoded yet. */
typedef struct hf_urlparts {
    bool tls;
    hf_piece authority;
    hf_piece path;
    hf_piece query;    /* without '?' */
    hf_piece fragment; /* without '#' */
} hf_urlparts;

static inline bool hf_is_slash(uint8_t c) {
    return c == '/' || c == '\\';
}

/* Appends to a buffer in which the room was reserved before. */
static inline void hf_urlparts_put(hf_buf *b, const void *p, size_t n) {
    memcpy(b->data + b->len, p, n);
    b->len += n;
}

/* The same for a number in decimals, at most 10 bytes. */
void hf_urlparts_put_number(hf_buf *b, unsigned value);

/* Splits what stands behind "scheme://"; tls is left alone. */
void hf_urlparts_split(hf_piece t, hf_urlparts *out);

/* Splits what stands behind the authority into path, query and fragment. */
void hf_urlparts_split_rest(hf_piece t, hf_urlparts *out);

/* Points out's fields into a finished block; offset 0 of fragment: there is none. */
void hf_urlparts_settle(hf_url *out, char *block, size_t shown, size_t hostport,
                        size_t fragment);

/* Fills out, which the caller zeroed. name is what error texts call the URL.
 * Returns 0, HF_EINVAL or HF_ENOMEM with err set; out->text is then NULL. */
int hf_urlparts_build(const hf_curl *c, const hf_urlparts *u, const char *name,
                      hf_url *out, hf_errbuf err);

#endif
