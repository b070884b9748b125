#include "urlparts.h"

#include <stdlib.h>
#include <string.h>

#include "authority.h"

enum { ALL = HF_IN_PATH | HF_IN_QUERY | HF_IN_FRAGMENT | HF_IN_USER };

const uint8_t hf_urlparts_raw[256] = {
    ['!'] = ALL,
    ['"'] = 0,
    ['#'] = 0,
    ['$' ... '&'] = ALL,
    ['\''] = ALL - HF_IN_QUERY,
    ['(' ... '.'] = ALL,
    ['/'] = ALL - HF_IN_USER,
    ['0' ... '9'] = ALL,
    [':'] = ALL - HF_IN_USER,
    [';'] = ALL - HF_IN_USER,
    ['<'] = 0,
    ['='] = ALL - HF_IN_USER,
    ['>'] = 0,
    ['?'] = HF_IN_QUERY | HF_IN_FRAGMENT,
    ['@'] = ALL - HF_IN_USER,
    ['A' ... 'Z'] = ALL,
    ['['] = ALL - HF_IN_USER,
    ['\\'] = HF_IN_QUERY | HF_IN_FRAGMENT,
    [']'] = ALL - HF_IN_USER,
    ['^'] = HF_IN_QUERY | HF_IN_FRAGMENT,
    ['_'] = ALL,
    ['`'] = HF_IN_QUERY,
    ['a' ... 'z'] = ALL,
    ['{'] = HF_IN_QUERY | HF_IN_FRAGMENT,
    ['|'] = ALL - HF_IN_USER,
    ['}'] = HF_IN_QUERY | HF_IN_FRAGMENT,
    ['~'] = ALL,
};

void hf_urlparts_split_rest(hf_piece t, hf_urlparts *out) {
    size_t i = 0;
    while (i < t.n && t.p[i] != '?' && t.p[i] != '#') {
        i++;
    }
    out->path = (hf_piece){t.p, i};
    out->query = (hf_piece){NULL, 0};
    out->fragment = (hf_piece){NULL, 0};
    if (i < t.n && t.p[i] == '?') {
        size_t start = ++i;
        while (i < t.n && t.p[i] != '#') {
            i++;
        }
        out->query = (hf_piece){t.p + start, i - start};
    }
    if (i < t.n) {
        out->fragment = (hf_piece){t.p + i + 1, t.n - i - 1};
    }
}

void hf_urlparts_split(hf_piece t, hf_urlparts *out) {
    size_t i = 0;
    while (i < t.n && !hf_is_slash(t.p[i]) && t.p[i] != '?' && t.p[i] != '#') {
        i++;
    }
    out->authority = (hf_piece){t.p, i};
    hf_urlparts_split_rest((hf_piece){t.p + i, t.n - i}, out);
}

static void put_encoded(hf_buf *b, hf_piece t, int where) {
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < t.n; i++) {
        uint8_t c = t.p[i];
        if (hf_urlparts_raw[c] & where) {
            b->data[b->len++] = c;
        } else {
            uint8_t code[3] = {'%', (uint8_t)hex[c >> 4], (uint8_t)hex[c & 15]};
            hf_urlparts_put(b, code, 3);
        }
    }
}

/* Counts the dots when a segment is nothing but one or two, spelled '.' or %2e. */
static int dots(hf_piece s) {
    int count = 0;
    for (size_t i = 0; i < s.n; count++) {
        if (s.p[i] == '.') {
            i++;
        } else if (s.n - i >= 3 && s.p[i] == '%' && s.p[i + 1] == '2' &&
                   (s.p[i + 2] | 0x20) == 'e') {
            i += 3;
        } else {
            return 0;
        }
    }
    return count <= 2 ? count : 0;
}

/* Writes the path with its dot segments resolved; it always starts with '/'. */
static void put_path(hf_buf *b, hf_piece t) {
    size_t root = b->len;
    size_t i = t.n > 0 && hf_is_slash(t.p[0]) ? 1 : 0;
    do {
        size_t start = i;
        while (i < t.n && !hf_is_slash(t.p[i])) {
            i++;
        }
        hf_piece segment = {t.p + start, i - start};
        bool last = i >= t.n;
        int up = dots(segment);
        if (up == 2) {
            while (b->len > root && b->data[--b->len] != '/') {
            }
        }
        if (up == 0 || last) {
            hf_urlparts_put(b, "/", 1);
        }
        if (up == 0) {
            put_encoded(b, segment, HF_IN_PATH);
        }
        i++;
    } while (i <= t.n);
}

/* Worst case of the text: each byte of the pieces becomes three. */
static size_t worst(const hf_urlparts *u) {
    return 3 * (u->authority.n + u->path.n + u->query.n + u->fragment.n) +
           2 * HF_HOST_CAP + 64;
}

void hf_urlparts_put_number(hf_buf *b, unsigned value) {
    uint8_t digits[10];
    size_t n = sizeof digits;
    do {
        digits[--n] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    hf_urlparts_put(b, digits + n, sizeof digits - n);
}

/* Writes "user:password@" where there is any. */
static void put_user(hf_buf *b, const hf_authority *a, hf_url *out) {
    out->has_user = a->user_len > 0;
    out->has_password = a->password_len > 0;
    if (!out->has_user && !out->has_password) {
        return;
    }
    put_encoded(b, (hf_piece){a->user, a->user_len}, HF_IN_USER);
    if (out->has_password) {
        hf_urlparts_put(b, ":", 1);
        put_encoded(b, (hf_piece){a->password, a->password_len}, HF_IN_USER);
    }
    hf_urlparts_put(b, "@", 1);
}

/* Writes scheme, host, port and path of the text; returns where the path starts. */
static size_t put_url(hf_buf *b, const hf_urlparts *u, const hf_authority *a,
                      hf_url *out, bool with_user) {
    hf_urlparts_put(b, "https://", u->tls ? 8 : 5);
    if (!u->tls) {
        b->data[b->len - 1] = ':';
        hf_urlparts_put(b, "//", 2);
    }
    if (with_user) {
        put_user(b, a, out);
    }
    hf_urlparts_put(b, a->host, (size_t)a->host_len);
    if (a->port != (u->tls ? 443 : 80)) {
        hf_urlparts_put(b, ":", 1);
        hf_urlparts_put_number(b, a->port);
    }
    return b->len;
}

void hf_urlparts_settle(hf_url *out, char *block, size_t shown, size_t hostport,
                        size_t fragment) {
    out->text = block;
    out->shown = block + shown;
    out->hostport = block + hostport;
    out->fragment = fragment > 0 ? block + fragment : NULL;
}

int hf_urlparts_build(const hf_curl *c, const hf_urlparts *u, const char *name,
                      hf_url *out, hf_errbuf err) {
    hf_authority a;
    size_t shown = 0;
    size_t fragment = 0;
    int rc = hf_authority_read(c, u->authority.p, u->authority.n, u->tls ? 443 : 80,
                               name, &a, err);
    if (rc != 0) {
        return rc;
    }
    hf_buf b = hf_buf_make(SIZE_MAX / 2);
    rc = hf_buf_reserve(&b, 2 * worst(u));
    if (rc != 0) {
        return hf_fail(err, HF_ENOMEM, "%s could not be kept: out of memory", name);
    }
    size_t path = put_url(&b, u, &a, out, true);
    size_t tail = path;
    put_path(&b, u->path);
    if (u->query.p != NULL) {
        hf_urlparts_put(&b, "?", 1);
        put_encoded(&b, u->query, HF_IN_QUERY);
    }
    out->len = (uint32_t)b.len;
    out->shown_len = out->len;
    hf_urlparts_put(&b, "", 1);
    if (out->has_user || out->has_password) {
        shown = b.len;
        path = put_url(&b, u, &a, out, false) - shown;
        hf_urlparts_put(&b, b.data + tail, out->len - tail + 1);
        out->shown_len = (uint32_t)(b.len - shown - 1);
    }
    size_t hostport = b.len;
    hf_urlparts_put(&b, a.host, (size_t)a.host_len);
    hf_urlparts_put(&b, ":", 1);
    hf_urlparts_put_number(&b, a.port);
    out->hostport_len = (uint32_t)(b.len - hostport);
    hf_urlparts_put(&b, "", 1);
    if (u->fragment.p != NULL) {
        fragment = b.len;
        put_encoded(&b, u->fragment, HF_IN_FRAGMENT);
        hf_urlparts_put(&b, "", 1);
    }
    out->host_len = (uint32_t)a.host_len;
    out->path_at = (uint32_t)path;
    out->port = a.port;
    out->tls = u->tls;
    /* Give back what the worst case did not need: URLs wait in the backlog. */
    char *block = realloc(b.data, b.len);
    hf_urlparts_settle(out, block != NULL ? block : (char *)b.data, shown, hostport,
                       fragment);
    return 0;
}
