#include "urlsafe.h"

#include <stdio.h>

static bool is_alpha(uint8_t c) {
    return (uint8_t)((c | 0x20) - 'a') < 26;
}

static bool is_digit(uint8_t c) {
    return (uint8_t)(c - '0') < 10;
}

static bool is_slash(uint8_t c) {
    return c == '/' || c == '\\';
}

/* Offset behind "scheme:", its slashes and blanks among them, or 0. A name before ':'
 * without a slash behind it counts as a user, as in `user:password@proxy`. */
static size_t authority_start(const uint8_t *in, size_t n) {
    size_t i = 0;
    while (i < n && (is_alpha(in[i]) || is_digit(in[i]) || in[i] == '+' ||
                     in[i] == '-' || in[i] == '.' || in[i] <= 0x20)) {
        i++;
    }
    if (i + 1 < n && in[i] == ':' && is_slash(in[i + 1])) {
        i++;
    } else {
        i = 0;
    }
    while (i < n && (is_slash(in[i]) || in[i] <= 0x20)) {
        i++;
    }
    return i;
}

static size_t last_at(const uint8_t *in, size_t from, size_t to) {
    for (size_t i = to; i > from; i--) {
        if (in[i - 1] == '@') {
            return i - 1;
        }
    }
    return to;
}

/* True when in[from..to) is no port, so that it may be a password's start. */
static bool not_a_port(const uint8_t *in, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (!is_digit(in[i])) {
            return true;
        }
    }
    return to == from || to - from > 5;
}

/* What may be user info in a text that is broken anyway, as `http//user:password@h`:
 * from the first ':' that no slash follows to the last '@'. */
static hf_userinfo maybe_userinfo(const uint8_t *in, size_t n) {
    size_t at = last_at(in, 0, n);
    size_t colon = 0;
    while (colon < at &&
           (in[colon] != ':' || (colon + 1 < n && is_slash(in[colon + 1])))) {
        colon++;
    }
    return (hf_userinfo){0, colon, at, at < n && colon < at};
}

hf_userinfo hf_url_userinfo(const uint8_t *in, size_t n) {
    hf_userinfo none = {0, 0, 0, false};
    size_t start = authority_start(in, n);
    size_t stop = start;
    while (stop < n && !is_slash(in[stop]) && in[stop] != '?' && in[stop] != '#') {
        stop++;
    }
    size_t colon = start;
    while (colon < stop && in[colon] != ':') {
        colon++;
    }
    size_t at = last_at(in, start, stop);
    if (at == stop) {
        /* A password with a raw '/', '?' or '#' ends the authority early: what follows
         * the colon is then no port, and the '@' comes later. */
        bool odd = colon < stop && in[start] != '[' && not_a_port(in, colon + 1, stop);
        at = odd ? last_at(in, stop, n) : n;
        if (at == n) {
            return start == 0 && colon == stop ? maybe_userinfo(in, n) : none;
        }
    }
    if (colon > at) {
        colon = at;
    }
    return (hf_userinfo){start, colon, at, true};
}

static int cut_out(const uint8_t *in, size_t n, size_t from, size_t to,
                   const char *with, hf_buf *out) {
    size_t with_len = strlen(with);
    int rc = hf_buf_reserve(out, n - (to - from) + with_len);
    if (rc == 0) {
        (void)hf_buf_append(out, in, from);
        (void)hf_buf_append(out, with, with_len);
        (void)hf_buf_append(out, in + to, n - to);
    }
    return rc;
}

int hf_url_redact(const uint8_t *in, size_t n, hf_buf *out) {
    hf_userinfo u = hf_url_userinfo(in, n);
    if (!u.found || u.colon + 1 >= u.end) {
        return hf_buf_append(out, in, n);
    }
    return cut_out(in, n, u.colon + 1, u.end, "***", out);
}

int hf_url_strip_userinfo(const uint8_t *in, size_t n, hf_buf *out) {
    hf_userinfo u = hf_url_userinfo(in, n);
    return u.found ? cut_out(in, n, u.start, u.end + 1, "", out)
                   : hf_buf_append(out, in, n);
}

const char *hf_url_excerpt(const uint8_t *in, size_t n, char text[HF_EXCERPT_CAP]) {
    static const char hex[] = "0123456789abcdef";
    enum { LONGEST = HF_EXCERPT_CAP - 8 }; /* room for one \xNN, "..." and the end */
    hf_userinfo u = hf_url_userinfo(in, n);
    if (!u.found) {
        u = maybe_userinfo(in, n); /* a message may hide too much */
    }
    size_t used = 0;
    size_t i = 0;
    for (; i < n && used < LONGEST; i++) {
        if (u.found && i == u.colon + 1 && i < u.end) {
            memcpy(text + used, "***", 3);
            used += 3;
            i = u.end - 1;
        } else if (in[i] >= 0x20 && in[i] < 0x7f) {
            text[used++] = (char)in[i];
        } else {
            text[used++] = '\\';
            text[used++] = 'x';
            text[used++] = hex[in[i] >> 4];
            text[used++] = hex[in[i] & 15];
        }
    }
    if (i < n) {
        memcpy(text + used, "...", 3);
        used += 3;
    }
    text[used] = '\0';
    return text;
}

bool hf_http_token_valid(const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t c = in[i];
        if (!is_alpha(c) && !is_digit(c) &&
            (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return n > 0;
}

bool hf_http_value_valid(const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((in[i] < 0x20 && in[i] != '\t') || in[i] == 0x7f) {
            return false;
        }
    }
    return true;
}
