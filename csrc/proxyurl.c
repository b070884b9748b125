#include "proxyurl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "authority.h"
#include "urlsafe.h"

enum { NAME_CAP = HF_EXCERPT_CAP + 16 };

static const struct {
    const char *name;
    int port; /* 0: has to be given */
} schemes[] = {
    [HF_PROXY_HTTP] = {"http", 0},        [HF_PROXY_HTTPS] = {"https", 443},
    [HF_PROXY_SOCKS4] = {"socks4", 1080}, [HF_PROXY_SOCKS4A] = {"socks4a", 1080},
    [HF_PROXY_SOCKS5] = {"socks5", 1080}, [HF_PROXY_SOCKS5H] = {"socks5h", 1080},
};

/* Finds the scheme; returns the offset behind "://", 0 without one, -1 if unknown. */
static int64_t read_scheme(const uint8_t *p, size_t n, hf_proxy_scheme *out) {
    size_t i = 0;
    while (i + 2 < n && memcmp(p + i, "://", 3) != 0) {
        i++;
    }
    *out = HF_PROXY_HTTP;
    if (i + 2 >= n) {
        return 0;
    }
    for (size_t k = 0; k < sizeof schemes / sizeof schemes[0]; k++) {
        if (strlen(schemes[k].name) == i &&
            strncasecmp((const char *)p, schemes[k].name, i) == 0) {
            *out = (hf_proxy_scheme)k;
            return (int64_t)i + 3;
        }
    }
    return -1;
}

/* Writes p decoded and terminated; returns where the next text goes. */
static char *put_decoded(char *to, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int high = i + 2 < n ? hf_hex_value(p[i + 1]) : -1;
        int low = i + 2 < n ? hf_hex_value(p[i + 2]) : -1;
        if (p[i] == '%' && high >= 0 && low >= 0) {
            *to++ = (char)(high * 16 + low);
            i += 2;
        } else {
            *to++ = (char)p[i];
        }
    }
    *to++ = '\0';
    return to;
}

static int keep(const hf_authority *a, hf_proxy_scheme scheme, hf_proxy *out) {
    size_t room = 32 + (size_t)a->host_len + a->user_len + 1 + a->password_len + 1;
    char *block = malloc(room);
    if (block == NULL) {
        return HF_ENOMEM;
    }
    int n = snprintf(block, room, "%s://%s:%u", schemes[scheme].name, a->host, a->port);
    char *next = block + n + 1;
    out->url = block;
    out->url_len = (uint32_t)n;
    out->port = a->port;
    out->scheme = scheme;
    if (a->user_len + a->password_len > 0) {
        out->user = next;
        next = put_decoded(next, a->user, a->user_len);
        if (a->password != NULL) {
            out->password = next;
            (void)put_decoded(next, a->password, a->password_len);
        }
    }
    return 0;
}

/* The path that may follow the server: none, or a lone '/'. */
static int end_of_server(const uint8_t *p, size_t n, size_t *end, const char *name,
                         hf_errbuf err) {
    size_t i = 0;
    while (i < n && p[i] != '/' && p[i] != '?' && p[i] != '#' && p[i] != '\\') {
        i++;
    }
    *end = i;
    if (i == n || (p[i] == '/' && i + 1 == n)) {
        return 0;
    }
    return hf_fail(
        err, HF_EINVAL,
        "%s has more than a server behind the scheme; escape '/', '?' and '#' "
        "in a password as %%2F, %%3F and %%23",
        name);
}

int hf_proxy_parse(const hf_curl *c, const uint8_t *text, size_t n, hf_proxy *out,
                   hf_errbuf err) {
    char excerpt[HF_EXCERPT_CAP];
    char name[NAME_CAP];
    hf_proxy_scheme scheme;
    hf_authority a;
    size_t end;
    *out = (hf_proxy){0};
    while (n > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        n--;
    }
    while (n > 0 && text[n - 1] <= 0x20) {
        n--;
    }
    if (n == 0) {
        return hf_fail(err, HF_EINVAL, "the proxy URL is empty");
    }
    if (n > HF_PROXY_MAX) {
        return hf_fail(err, HF_EINVAL,
                       "the proxy URL is %zu bytes long; at most %d are allowed", n,
                       HF_PROXY_MAX);
    }
    (void)snprintf(name, sizeof name, "proxy '%s'", hf_url_excerpt(text, n, excerpt));
    if (!hf_http_value_valid(text, n) || memchr(text, '\t', n) != NULL) {
        return hf_fail(err, HF_EINVAL, "%s holds a control character", name);
    }
    int64_t start = read_scheme(text, n, &scheme);
    if (start < 0) {
        return hf_fail(
            err, HF_EINVAL,
            "%s has an unknown scheme; http, https, socks4, socks4a, socks5 and "
            "socks5h are known",
            name);
    }
    text += start;
    n -= (size_t)start;
    int rc = end_of_server(text, n, &end, name, err);
    if (rc == 0) {
        rc = hf_authority_read(c, text, end, schemes[scheme].port, name, &a, err);
    }
    if (rc == 0) {
        rc = keep(&a, scheme, out);
        if (rc != 0) {
            return hf_fail(err, rc, "%s could not be kept: out of memory", name);
        }
    }
    return rc;
}

void hf_proxy_free(hf_proxy *p) {
    if (p != NULL) {
        free(p->url);
        *p = (hf_proxy){0};
    }
}
