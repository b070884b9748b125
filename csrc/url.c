#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostname.h"
#include "urlparts.h"
#include "urlsafe.h"

static bool is_digit(uint8_t c) {
    return (uint8_t)(c - '0') < 10;
}

static hf_piece trim(hf_piece t) {
    while (t.n > 0 && t.p[0] <= 0x20) {
        t.p++;
        t.n--;
    }
    while (t.n > 0 && t.p[t.n - 1] <= 0x20) {
        t.n--;
    }
    return t;
}

/* Length of "http:" or "https:" at the start in any case, else 0. */
static size_t http_scheme(hf_piece t, bool *tls) {
    static const char name[] = "https";
    size_t i = 0;
    while (i < t.n && i < 5 && (t.p[i] | 0x20) == name[i]) {
        i++;
    }
    *tls = i == 5;
    return i >= 4 && i < t.n && t.p[i] == ':' ? i + 1 : 0;
}

/* Length of a scheme with its ':' at the start, else 0. */
static size_t any_scheme(hf_piece t) {
    for (size_t i = 0; i < t.n; i++) {
        uint8_t c = t.p[i];
        bool alpha = (uint8_t)((c | 0x20) - 'a') < 26;
        if (i > 0 && c == ':') {
            return i + 1;
        }
        if (!alpha && (i == 0 || (!is_digit(c) && c != '+' && c != '-' && c != '.'))) {
            return 0;
        }
    }
    return 0;
}

/* ---- The usual URL, in one pass and one allocation ---- */

/* Checks path and query; returns false when the careful way must look. */
static bool plain_rest(const uint8_t *p, size_t n) {
    int where = HF_IN_PATH;
    for (size_t i = 0; i < n; i++) {
        if (hf_urlparts_raw[p[i]] & where) {
            /* A segment that starts with '.' or '%' may be a dot segment. */
            if (p[i] == '/' && where == HF_IN_PATH && i + 1 < n &&
                (p[i + 1] == '.' || p[i + 1] == '%')) {
                return false;
            }
        } else if (p[i] == '?' && where == HF_IN_PATH) {
            where = HF_IN_QUERY;
        } else {
            return false;
        }
    }
    return true;
}

/* Copies a host, or "http", in lower case: what was checked has letters only where
 * the bit 0x20 is theirs to set; '_' alone must keep its own. */
static void put_lower(hf_buf *b, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t c = p[i];
        b->data[b->len++] = (uint8_t)((uint8_t)(c - 'A') < 26 ? c | 0x20 : c);
    }
}

static bool parse_plain(hf_piece t, hf_url *out) {
    bool tls;
    size_t at = http_scheme(t, &tls);
    if (at == 0 || t.n - at < 3 || t.p[at] != '/' || t.p[at + 1] != '/') {
        return false;
    }
    at += 2;
    size_t host_len = hf_hostname_plain(t.p + at, t.n - at);
    size_t i = at + host_len;
    unsigned port = tls ? 443 : 80;
    if (host_len > 0 && i < t.n && t.p[i] == ':') {
        unsigned digits = 0;
        for (port = 0, i++; i < t.n && is_digit(t.p[i]) && digits < 5; i++, digits++) {
            port = port * 10 + (unsigned)(t.p[i] - '0');
        }
    }
    if (host_len == 0 || port == 0 || port > 65535 ||
        (i < t.n && t.p[i] != '/' && t.p[i] != '?') || !plain_rest(t.p + i, t.n - i)) {
        return false;
    }
    hf_buf b = hf_buf_make(SIZE_MAX / 2);
    b.cap = 8 + host_len + 7 + (t.n - i) + 1 + host_len + 8;
    b.data = malloc(b.cap);
    if (b.data == NULL) {
        return false; /* the careful way fails too, and says so */
    }
    put_lower(&b, t.p, at);
    put_lower(&b, t.p + at, host_len);
    if (port != (tls ? 443 : 80)) {
        hf_urlparts_put(&b, ":", 1);
        hf_urlparts_put_number(&b, port);
    }
    out->path_at = (uint32_t)b.len;
    if (i == t.n || t.p[i] == '?') {
        hf_urlparts_put(&b, "/", 1);
    }
    hf_urlparts_put(&b, t.p + i, t.n - i);
    out->len = (uint32_t)b.len;
    hf_urlparts_put(&b, "", 1);
    size_t hostport = b.len;
    put_lower(&b, t.p + at, host_len);
    hf_urlparts_put(&b, ":", 1);
    hf_urlparts_put_number(&b, port);
    out->hostport_len = (uint32_t)(b.len - hostport);
    hf_urlparts_put(&b, "", 1);
    out->shown_len = out->len;
    out->host_len = (uint32_t)host_len;
    out->port = (uint16_t)port;
    out->tls = tls;
    hf_urlparts_settle(out, (char *)b.data, 0, hostport, 0);
    return true;
}

/* ---- What callers see ---- */

/* "URL 'http://...'" for error texts. */
enum { NAME_CAP = HF_EXCERPT_CAP + 16 };
static const char *name_of(const char *what, hf_piece t, char name[NAME_CAP]) {
    char excerpt[HF_EXCERPT_CAP];
    (void)snprintf(name, NAME_CAP, "%s '%s'", what, hf_url_excerpt(t.p, t.n, excerpt));
    return name;
}

int hf_url_parse(const hf_curl *c, const uint8_t *text, size_t n, hf_url *out,
                 hf_errbuf err) {
    char name[NAME_CAP];
    hf_urlparts u;
    hf_piece t = trim((hf_piece){text, n});
    *out = (hf_url){0};
    if (t.n == 0) {
        return hf_fail(err, HF_EINVAL, "the URL is empty");
    }
    if (t.n > HF_URL_MAX) {
        return hf_fail(err, HF_EINVAL,
                       "the URL is %zu bytes long; at most %d are allowed", t.n,
                       HF_URL_MAX);
    }
    if (parse_plain(t, out)) {
        return 0;
    }
    name_of("URL", t, name);
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] < 0x20 || t.p[i] == 0x7f) {
            return hf_fail(err, HF_EINVAL,
                           "%s holds the control character 0x%02x; remove or escape it",
                           name, t.p[i]);
        }
    }
    size_t scheme = http_scheme(t, &u.tls);
    size_t other = any_scheme(t);
    size_t slashes = scheme;
    while (slashes < t.n && hf_is_slash(t.p[slashes])) {
        slashes++;
    }
    if (scheme == 0 && other > 0 && t.n - other >= 2 && hf_is_slash(t.p[other])) {
        return hf_fail(err, HF_EINVAL, "%s has a scheme other than http and https",
                       name);
    }
    if (scheme == 0) {
        return hf_fail(err, HF_EINVAL,
                       "%s has no scheme; put http:// or https:// in front", name);
    }
    if (slashes - scheme != 2) {
        return hf_fail(err, HF_EINVAL, "%s needs //HOST behind %s", name,
                       u.tls ? "https:" : "http:");
    }
    hf_urlparts_split((hf_piece){t.p + slashes, t.n - slashes}, &u);
    int rc = hf_urlparts_build(c, &u, name, out, err);
    if (rc != 0) {
        *out = (hf_url){0};
    }
    return rc;
}

/* The parts of an URL that was built before. */
static void parts_of(const hf_url *base, hf_urlparts *out) {
    const uint8_t *text = (const uint8_t *)base->text;
    size_t skip = base->tls ? 8 : 7;
    hf_urlparts_split((hf_piece){text + skip, base->len - skip}, out);
    out->tls = base->tls;
    if (base->fragment != NULL) {
        out->fragment =
            (hf_piece){(const uint8_t *)base->fragment, strlen(base->fragment)};
    }
}

/* Appends l without tabs and line ends, as browsers drop them. */
static int squeeze(hf_piece l, hf_buf *b) {
    int rc = hf_buf_reserve(b, l.n + 1);
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        if (l.p[i] != '\t' && l.p[i] != '\r' && l.p[i] != '\n') {
            hf_urlparts_put(b, l.p + i, 1);
        }
    }
    return rc;
}

/* Puts the base's folder in front of a relative path. */
static int merge(hf_piece base, hf_piece relative, hf_buf *b, hf_piece *out) {
    while (base.n > 0 && base.p[base.n - 1] != '/') {
        base.n--;
    }
    int rc = hf_buf_append(b, base.p, base.n);
    if (rc == 0) {
        rc = hf_buf_append(b, relative.p, relative.n);
    }
    *out = (hf_piece){b->data, b->len};
    return rc;
}

/* Reads a cleaned Location t into u, which holds the base's parts. WHATWG's rules: the
 * scheme of the base without two slashes is no scheme ("http:/x" is "/x"), any number
 * of slashes behind another one will do. */
static int refer(hf_piece t, hf_urlparts *u, const char *name, hf_buf *merged,
                 hf_errbuf err) {
    bool tls;
    size_t scheme = http_scheme(t, &tls);
    if (scheme == 0 && any_scheme(t) > 0) {
        return hf_fail(err, HF_EINVAL, "%s leads to a scheme other than http and https",
                       name);
    }
    t.p += scheme;
    t.n -= scheme;
    size_t slashes = 0;
    while (slashes < t.n && hf_is_slash(t.p[slashes])) {
        slashes++;
    }
    if (slashes >= 2 || (scheme > 0 && tls != u->tls)) {
        u->tls = scheme > 0 ? tls : u->tls;
        hf_piece inherited = u->fragment;
        hf_urlparts_split((hf_piece){t.p + slashes, t.n - slashes}, u);
        u->fragment = u->fragment.p != NULL ? u->fragment : inherited;
        return 0;
    }
    hf_urlparts r;
    hf_urlparts_split_rest(t, &r);
    if (slashes == 1) {
        u->path = r.path;
    } else if (r.path.n > 0) {
        int rc = merge(u->path, r.path, merged, &u->path);
        if (rc != 0) {
            return hf_fail(err, rc == HF_EFULL ? HF_EINVAL : rc, "%s %s", name,
                           rc == HF_EFULL
                               ? "makes too long a URL with what it relates to"
                               : "could not be read: out of memory");
        }
    }
    if (r.path.n > 0 || r.query.p != NULL) {
        u->query = r.query;
    }
    u->fragment = r.fragment.p != NULL ? r.fragment : u->fragment;
    return 0;
}

int hf_url_resolve(const hf_curl *c, const hf_url *base, const uint8_t *location,
                   size_t n, hf_url *out, hf_errbuf err) {
    char name[NAME_CAP];
    hf_urlparts u;
    hf_buf clean = hf_buf_make(HF_URL_MAX + 1);
    hf_buf merged = hf_buf_make(4 * HF_URL_MAX);
    hf_piece t = trim((hf_piece){location, n});
    int rc;
    *out = (hf_url){0};
    if (t.n == 0) {
        return hf_fail(err, HF_EINVAL, "the Location is empty");
    }
    if (t.n > HF_URL_MAX) {
        return hf_fail(err, HF_EINVAL,
                       "the Location is %zu bytes long; at most %d are allowed", t.n,
                       HF_URL_MAX);
    }
    name_of("Location", t, name);
    rc = squeeze(t, &clean);
    if (rc != 0) {
        rc = hf_fail(err, HF_ENOMEM, "%s could not be read: out of memory", name);
        goto done;
    }
    parts_of(base, &u);
    rc = refer((hf_piece){clean.data, clean.len}, &u, name, &merged, err);
    if (rc == 0) {
        rc = hf_urlparts_build(c, &u, name, out, err);
    }
    if (rc != 0) {
        *out = (hf_url){0};
    }
done:
    hf_buf_free(&merged);
    hf_buf_free(&clean);
    return rc;
}

bool hf_url_same_origin(const hf_url *a, const hf_url *b) {
    return a->tls == b->tls && a->hostport_len == b->hostport_len &&
           memcmp(a->hostport, b->hostport, a->hostport_len) == 0;
}

void hf_url_free(hf_url *u) {
    if (u != NULL) {
        free(u->text);
        *u = (hf_url){0};
    }
}
