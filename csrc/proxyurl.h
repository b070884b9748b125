/* Proxy URLs: scheme, server and credentials, checked and taken apart for libcurl.
 *
 * Invariant: url and shown hold no credentials; user and password are decoded and hold
 * no control, so that they are fit for CURLOPT_PROXYUSERNAME and for headers. Not here:
 * health, choice and identity of proxies.
 */
#ifndef HF_PROXYURL_H
#define HF_PROXYURL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "curlabi.h"
#include "err.h"

enum { HF_PROXY_MAX = 4096 }; /* bytes of a proxy URL as given */

typedef enum hf_proxy_scheme {
    HF_PROXY_HTTP,
    HF_PROXY_HTTPS,
    HF_PROXY_SOCKS4,
    HF_PROXY_SOCKS4A,
    HF_PROXY_SOCKS5,
    HF_PROXY_SOCKS5H
} hf_proxy_scheme;

/* One allocation: url is its start, the other pointers lie in it. All terminated. */
typedef struct hf_proxy {
    char *url;            /* owned: "scheme://host:port", for libcurl and for showing */
    const char *user;     /* decoded; NULL without credentials */
    const char *password; /* decoded; NULL without ':' in the user info */
    uint32_t url_len;
    uint16_t port; /* 1..65535 */
    hf_proxy_scheme scheme;
} hf_proxy;

/* Reads a proxy URL. Without a scheme it is http. An http proxy needs its port (tools
 * disagree on what to assume); https stands for 443 and socks for 1080.
 * Thread: any.  Blocks: no.
 * Owns:   on success out is the caller's, who ends it with hf_proxy_free; on failure it
 *         is zeroed.
 * Returns 0, HF_EINVAL with a sentence in err (never the password), or HF_ENOMEM.
 */
int hf_proxy_parse(const hf_curl *c, const uint8_t *text, size_t n, hf_proxy *out,
                   hf_errbuf err);

/* Frees the text and zeroes the struct; NULL and zeroed ones are allowed. */
void hf_proxy_free(hf_proxy *p);

#endif
