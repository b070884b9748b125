/* A strict reader of JSON for checking what we write: RFC 8259 and nothing besides, in
 * valid UTF-8, without control bytes. It builds nothing; fields are found as raw text.
 */
#ifndef STRICT_JSON_H
#define STRICT_JSON_H

#include <stdint.h>
#include <string.h>

typedef struct json_cursor {
    const uint8_t *p;
    const uint8_t *end;
} json_cursor;

static inline int json_value(json_cursor *c, int depth);

static inline void json_blanks(json_cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t')) {
        c->p++;
    }
}

static inline int json_is(json_cursor *c, char byte) {
    json_blanks(c);
    if (c->p < c->end && *c->p == (uint8_t)byte) {
        c->p++;
        return 1;
    }
    return 0;
}

/* One UTF-8 sequence past ASCII: shortest form, no surrogates, up to U+10FFFF. */
static inline int json_sequence(json_cursor *c) {
    uint8_t b = *c->p;
    int more = b >= 0xc2 && b <= 0xdf   ? 1
               : b >= 0xe0 && b <= 0xef ? 2
               : b >= 0xf0 && b <= 0xf4 ? 3
                                        : 0;
    if (more == 0 || c->end - c->p <= more) {
        return 0;
    }
    uint32_t v = b & (0x3fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((c->p[i] & 0xc0) != 0x80) {
            return 0;
        }
        v = v << 6 | (c->p[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    c->p += more + 1;
    return v >= least[more] && v <= 0x10ffff && (v < 0xd800 || v > 0xdfff);
}

static inline int json_hex4(json_cursor *c, uint32_t *v) {
    *v = 0;
    if (c->end - c->p < 4) {
        return 0;
    }
    for (int i = 0; i < 4; i++, c->p++) {
        uint8_t b = *c->p;
        int digit = b >= '0' && b <= '9'   ? b - '0'
                    : b >= 'a' && b <= 'f' ? b - 'a' + 10
                    : b >= 'A' && b <= 'F' ? b - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return 0;
        }
        *v = *v << 4 | (uint32_t)digit;
    }
    return 1;
}

static inline int json_escape(json_cursor *c) {
    if (c->p >= c->end) {
        return 0;
    }
    uint8_t b = *c->p++;
    uint32_t v;
    if (b != 'u') {
        return memchr("\"\\/bfnrt", b, 8) != NULL;
    }
    if (!json_hex4(c, &v) || (v >= 0xdc00 && v <= 0xdfff)) {
        return 0;
    }
    if (v < 0xd800 || v > 0xdbff) {
        return 1;
    }
    if (c->end - c->p < 6 || c->p[0] != '\\' || c->p[1] != 'u') {
        return 0;
    }
    c->p += 2;
    return json_hex4(c, &v) && v >= 0xdc00 && v <= 0xdfff;
}

static inline int json_text(json_cursor *c) {
    if (!json_is(c, '"')) {
        return 0;
    }
    while (c->p < c->end) {
        uint8_t b = *c->p;
        if (b == '"') {
            c->p++;
            return 1;
        }
        if (b < 0x20) {
            return 0;
        }
        if (b == '\\') {
            c->p++;
            if (!json_escape(c)) {
                return 0;
            }
        } else if (b < 0x80) {
            c->p++;
        } else if (!json_sequence(c)) {
            return 0;
        }
    }
    return 0;
}

static inline int json_digits(json_cursor *c) {
    const uint8_t *from = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9') {
        c->p++;
    }
    return c->p > from;
}

static inline int json_number(json_cursor *c) {
    json_is(c, '-');
    const uint8_t *from = c->p;
    if (!json_digits(c) || (*from == '0' && c->p - from > 1)) {
        return 0;
    }
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (!json_digits(c)) {
            return 0;
        }
    }
    if (c->p < c->end && (*c->p | 0x20) == 'e') {
        c->p++;
        if (c->p < c->end && (*c->p == '+' || *c->p == '-')) {
            c->p++;
        }
        return json_digits(c);
    }
    return 1;
}

static inline int json_list(json_cursor *c, char close, int depth) {
    if (json_is(c, close)) {
        return 1;
    }
    do {
        if (close == '}' && (!json_text(c) || !json_is(c, ':'))) {
            return 0;
        }
        if (!json_value(c, depth + 1)) {
            return 0;
        }
    } while (json_is(c, ','));
    return json_is(c, close);
}

static inline int json_word(json_cursor *c, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0) {
        return 0;
    }
    c->p += n;
    return 1;
}

static inline int json_value(json_cursor *c, int depth) {
    json_blanks(c);
    if (c->p >= c->end || depth > 32) {
        return 0;
    }
    switch (*c->p) {
    case '{':
        c->p++;
        return json_list(c, '}', depth);
    case '[':
        c->p++;
        return json_list(c, ']', depth);
    case '"':
        return json_text(c);
    case 't':
        return json_word(c, "true");
    case 'f':
        return json_word(c, "false");
    case 'n':
        return json_word(c, "null");
    default:
        return json_number(c);
    }
}

/* True when these bytes are one JSON object and nothing else. */
static inline int json_object(const uint8_t *s, size_t n) {
    json_cursor c = {s, s + n};
    return n > 0 && *s == '{' && json_value(&c, 0) && c.p == c.end;
}

/* The raw value of a field of the outermost object; NULL when it has none. A path like
 * "error.type" goes further down. The object must have been checked before. */
static inline const uint8_t *json_find(const uint8_t *s, size_t n, const char *path,
                                       size_t *len) {
    json_cursor c = {s, s + n};
    const char *dot = strchr(path, '.');
    size_t name = dot != NULL ? (size_t)(dot - path) : strlen(path);
    *len = 0;
    if (!json_is(&c, '{') || json_is(&c, '}')) {
        return NULL;
    }
    do {
        json_blanks(&c);
        const uint8_t *key = c.p + 1;
        json_text(&c);
        size_t key_len = (size_t)(c.p - key) - 1;
        json_is(&c, ':');
        json_blanks(&c);
        const uint8_t *from = c.p;
        if (!json_value(&c, 0)) {
            return NULL;
        }
        if (key_len == name && memcmp(key, path, name) == 0) {
            *len = (size_t)(c.p - from);
            return dot != NULL ? json_find(from, *len, dot + 1, len) : from;
        }
    } while (json_is(&c, ','));
    return NULL;
}

/* True when the field's raw value is exactly this text. */
static inline int json_has(const uint8_t *s, size_t n, const char *path,
                           const char *raw) {
    size_t len;
    const uint8_t *v = json_find(s, n, path, &len);
    return v != NULL && len == strlen(raw) && memcmp(v, raw, len) == 0;
}

#endif
