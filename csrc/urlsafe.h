/* Text of URLs and HTTP fields made safe to show and to send.
 *
 * Invariant: what redact, strip_userinfo and excerpt give holds no password that a
 * reader could take for one, also where the text is no URL at all; in doubt more is
 * hidden. Not here: parsing (url.h), host names (hostname.h).
 */
#ifndef HF_URLSAFE_H
#define HF_URLSAFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

enum { HF_EXCERPT_CAP = 128 }; /* bytes that hf_url_excerpt may fill */

/* Where user info stands in a text that may be a URL; all 0 when there is none. */
typedef struct hf_userinfo {
    size_t start; /* offset of its first byte */
    size_t colon; /* offset of the ':' before the password; end when there is none */
    size_t end;   /* offset of the '@' */
    bool found;
} hf_userinfo;

/* Finds the user info of in[0..n), which may lack a scheme or be broken. */
hf_userinfo hf_url_userinfo(const uint8_t *in, size_t n);

/* Appends in with the password of its user info replaced by ***.
 * Thread: any.  Returns 0, HF_EFULL or HF_ENOMEM (then nothing whole is appended).
 */
int hf_url_redact(const uint8_t *in, size_t n, hf_buf *out);

/* Appends in without its user info. Returns as hf_url_redact. */
int hf_url_strip_userinfo(const uint8_t *in, size_t n, hf_buf *out);

/* Fills text with the start of in for an error message: password hidden, bytes that do
 * not print as \xNN, "..." where it was cut. Returns text. */
const char *hf_url_excerpt(const uint8_t *in, size_t n, char text[HF_EXCERPT_CAP]);

/* True when in is a token of RFC 9110 (a method, a header's name): not empty. */
bool hf_http_token_valid(const uint8_t *in, size_t n);

/* True when in may stand as a header's value: no control other than tab. */
bool hf_http_value_valid(const uint8_t *in, size_t n);

#endif
