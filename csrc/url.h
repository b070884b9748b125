/* URLs: what a line, a caller or a redirect gave, checked by length and normalised.
 *
 * Invariant: an hf_url that was filled holds an absolute http or https URL in printable
 * ASCII without fragment, its host resolvable as it stands, dot segments gone, and
 * every byte that must not stand raw percent-encoded (the sets are WHATWG's). libcurl
 * is asked about unusual hosts only. Not here: showing passwords safely (urlsafe.h),
 * proxies (proxyurl.h), and which addresses may be connected to.
 */
#ifndef HF_URL_H
#define HF_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "curlabi.h"
#include "err.h"

enum {
    HF_URL_MAX = 131072
}; /* bytes of a URL as given, blanks around it not counted */

/* One allocation: text is its start, the other pointers lie in it. All terminated. */
typedef struct hf_url {
    char *text;           /* owned: what to fetch, user info included */
    const char *shown;    /* the same without user info; text itself if there is none */
    const char *hostport; /* "host:port" in lower case, IPv6 in brackets */
    const char *fragment; /* what stood behind '#'; NULL when there was no '#' */
    uint32_t len;         /* bytes of text */
    uint32_t shown_len;
    uint32_t hostport_len;
    uint32_t host_len; /* bytes of hostport in front of its last ':' */
    uint32_t path_at;  /* offset of the path's '/' in shown */
    uint16_t port;     /* 1..65535 */
    bool tls;          /* https */
    bool has_user;
    bool has_password;
} hf_url;

/* Reads one URL as given in the input. Blanks around it are passed over; a control
 * inside it, also CR, LF, tab or NUL, is refused.
 * Thread: any.  Blocks: no.
 * Owns:   on success out is the caller's, who ends it with hf_url_free; on failure it
 *         is zeroed.
 * Returns 0, HF_EINVAL with a sentence in err (never the password), or HF_ENOMEM.
 */
int hf_url_parse(const hf_curl *c, const uint8_t *text, size_t n, hf_url *out,
                 hf_errbuf err);

/* Reads a Location as a browser would: relative to base, tabs and line ends dropped,
 * blanks, backslashes and raw bytes repaired. Without a fragment of its own it inherits
 * base's (RFC 9110, 10.2.2). http and https only. Otherwise as hf_url_parse.
 */
int hf_url_resolve(const hf_curl *c, const hf_url *base, const uint8_t *location,
                   size_t n, hf_url *out, hf_errbuf err);

/* True when scheme, host and port are the same. */
bool hf_url_same_origin(const hf_url *a, const hf_url *b);

/* Frees the text and zeroes the struct; NULL and zeroed ones are allowed. */
void hf_url_free(hf_url *u);

#endif
