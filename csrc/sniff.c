#include "sniff.h"

#include <string.h>

/* A piece of the input. */
typedef struct span {
    const uint8_t *s;
    size_t n;
} span;

static uint8_t lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 32) : c;
}

static int is_letter(uint8_t c) {
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static int is_blank(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

static span trim(span v) {
    while (v.n > 0 && is_blank(v.s[0])) {
        v.s++;
        v.n--;
    }
    while (v.n > 0 && is_blank(v.s[v.n - 1]))
        v.n--;
    return v;
}

/* word is lower case. */
static int starts(span v, const char *word) {
    size_t n = strlen(word);
    if (v.n < n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (lower(v.s[i]) != (uint8_t)word[i])
            return 0;
    return 1;
}

static int equals(span v, const char *word) {
    return v.n == strlen(word) && starts(v, word);
}

static int contains(span v, const char *word) {
    for (; v.n > 0; v.s++, v.n--)
        if (starts(v, word))
            return 1;
    return 0;
}

static int ends(span v, const char *word) {
    size_t n = strlen(word);
    return v.n >= n && starts((span){v.s + v.n - n, n}, word);
}

/* Types whose bytes are no text, whatever they look like. */
static int is_binary(span type) {
    static const char *const families[] = {
        "image/",
        "audio/",
        "video/",
        "font/",
        "model/",
        "application/font",
        "application/x-font",
        "application/vnd.ms-",
        "application/vnd.openxmlformats",
        "application/vnd.oasis.opendocument",
        "application/vnd.android",
        "application/x-msdos",
        "application/x-msdownload",
        "application/x-7z",
        "application/x-rar",
        "application/x-bzip",
        "application/grpc",
    };
    static const char *const types[] = {
        "octet-stream",
        "pdf",
        "zip",
        "gzip",
        "x-gzip",
        "x-zip",
        "zstd",
        "x-xz",
        "x-tar",
        "x-compress",
        "vnd.rar",
        "java-archive",
        "wasm",
        "protobuf",
        "x-protobuf",
        "cbor",
        "msgpack",
        "x-msgpack",
        "msword",
        "ogg",
        "epub+zip",
        "x-executable",
        "x-shockwave-flash",
        "x-zip-compressed",
        "x-iso9660-image",
        "x-sqlite3",
        "vnd.sqlite3",
        "x-apple-diskimage",
        "x-binary",
        "binary",
        "force-download",
        "x-download",
    };
    if (ends(type, "+xml") || ends(type, "+json"))
        return 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (starts(type, families[i]))
            return 1;
    if (!starts(type, "application/"))
        return equals(type, "binary/octet-stream");
    span rest = {type.s + 12, type.n - 12};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (equals(rest, types[i]))
            return 1;
    return 0;
}

/* The piece of v up to the next ';' outside of double quotes; takes it off v. */
static span next_part(span *v) {
    size_t i = 0;
    int quoted = 0;
    for (; i < v->n && (quoted || v->s[i] != ';'); i++) {
        if (v->s[i] == '"')
            quoted = !quoted;
        else if (quoted && v->s[i] == '\\' && i + 1 < v->n)
            i++;
    }
    span part = {v->s, i};
    size_t taken = i < v->n ? i + 1 : i;
    v->s += taken;
    v->n -= taken;
    return trim(part);
}

/* The value of a parameter `charset=…`, freed of quotes of either kind. */
static span charset_value(span part) {
    if (!starts(part, "charset"))
        return (span){NULL, 0};
    span v = trim((span){part.s + 7, part.n - 7});
    if (v.n == 0 || v.s[0] != '=')
        return (span){NULL, 0};
    v = trim((span){v.s + 1, v.n - 1});
    if (v.n > 0 && (v.s[0] == '"' || v.s[0] == '\'')) {
        uint8_t quote = v.s[0];
        v = (span){v.s + 1, v.n - 1};
        const uint8_t *end = v.n > 0 ? memchr(v.s, quote, v.n) : NULL;
        if (end != NULL)
            v.n = (size_t)(end - v.s);
    }
    return trim(v);
}

hf_content_type hf_sniff_content_type(const uint8_t *s, size_t n) {
    hf_content_type out = {NULL, 0, 0};
    span rest = {s, n};
    span type = n > 0 ? next_part(&rest) : rest;
    out.binary = is_binary(type);
    out.markup = type.n == 0 || memchr(type.s, '/', type.n) == NULL ||
                 contains(type, "html") || contains(type, "xml");
    while (rest.n > 0 && out.charset == NULL) {
        span label = charset_value(next_part(&rest));
        if (label.n > 0)
            out.charset = hf_charset_find(label.s, label.n);
    }
    return out;
}

static const hf_charset *named(const char *label) {
    return hf_charset_find((const uint8_t *)label, strlen(label));
}

const hf_charset *hf_sniff_bom(const uint8_t *s, size_t n, size_t *len) {
    *len = 0;
    if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) {
        *len = 3;
        return named("utf-8");
    }
    if (n < 2 || (memcmp(s, "\xff\xfe", 2) != 0 && memcmp(s, "\xfe\xff", 2) != 0))
        return NULL;
    *len = 2;
    return named(s[0] == 0xff ? "utf-16le" : "utf-16be");
}

const char *hf_sniff_utf32(const uint8_t *s, size_t n) {
    if (n < 4 || n % 4 != 0)
        return NULL;
    if (memcmp(s, "\xff\xfe\0\0", 4) == 0)
        return "utf-32le";
    return memcmp(s, "\0\0\xfe\xff", 4) == 0 ? "utf-32be" : NULL;
}

/* The prescan proper. Names of steps are those of the HTML standard, section 13.2.3.2
 * "Determining the character encoding". */

typedef struct attribute {
    span name;
    span value;
} attribute;

static void skip(span *v, size_t n) {
    n = n < v->n ? n : v->n;
    v->s += n;
    v->n -= n;
}

static void skip_blanks(span *v, int slashes) {
    while (v->n > 0 && (is_blank(v->s[0]) || (slashes && v->s[0] == '/')))
        skip(v, 1);
}

static span unquoted_value(span *v) {
    size_t n = 0;
    while (n < v->n && !is_blank(v->s[n]) && v->s[n] != '>')
        n++;
    span value = {v->s, n};
    skip(v, n);
    return value;
}

/* "Get an attribute". Returns 0 when there is none, or the input ends within it, with
 * nothing left then. */
static int get_attribute(span *v, attribute *a) {
    skip_blanks(v, 1);
    if (v->n == 0 || v->s[0] == '>')
        return 0;
    size_t n = 0; /* a '=' in front belongs to the name */
    while (n < v->n && (v->s[n] != '=' || n == 0) && !is_blank(v->s[n]) &&
           v->s[n] != '/' && v->s[n] != '>')
        n++;
    a->name = (span){v->s, n};
    a->value = (span){v->s, 0};
    skip(v, n);
    skip_blanks(v, 0);
    if (v->n == 0 || v->s[0] != '=')
        return v->n > 0;
    skip(v, 1);
    skip_blanks(v, 0);
    if (v->n > 0 && (v->s[0] == '"' || v->s[0] == '\'')) {
        const uint8_t *from = v->s + 1;
        const uint8_t *end = v->n > 1 ? memchr(from, v->s[0], v->n - 1) : NULL;
        if (end == NULL) {
            skip(v, v->n);
            return 0;
        }
        a->value = (span){from, (size_t)(end - from)};
        skip(v, (size_t)(end + 1 - v->s));
        return 1;
    }
    a->value = unquoted_value(v);
    return v->n > 0;
}

/* "Extracting a character encoding from a meta element": of a content attribute. */
static const hf_charset *charset_of_content(span v) {
    while (v.n > 0) {
        if (!starts(v, "charset")) {
            skip(&v, 1);
            continue;
        }
        skip(&v, 7);
        skip_blanks(&v, 0);
        if (v.n == 0 || v.s[0] != '=')
            continue;
        skip(&v, 1);
        skip_blanks(&v, 0);
        size_t n = 0;
        if (v.n > 0 && (v.s[0] == '"' || v.s[0] == '\'')) {
            const uint8_t *end = v.n > 1 ? memchr(v.s + 1, v.s[0], v.n - 1) : NULL;
            return end == NULL ? NULL
                               : hf_charset_find(v.s + 1, (size_t)(end - v.s - 1));
        }
        while (n < v.n && !is_blank(v.s[n]) && v.s[n] != ';')
            n++;
        return hf_charset_find(v.s, n);
    }
    return NULL;
}

/* A charset read as ASCII cannot be UTF-16. */
static const hf_charset *as_found(const hf_charset *cs) {
    if (cs == NULL)
        return NULL;
    if (hf_charset_is_utf16(cs))
        return named("utf-8");
    return strcmp(hf_charset_name(cs), "x-user-defined") == 0 ? named("windows-1252")
                                                              : cs;
}

/* The charset of a <meta>, v standing behind its name. */
static const hf_charset *charset_of_meta(span *v) {
    int seen_equiv = 0;
    int seen_content = 0;
    int seen_charset = 0;
    int pragma = 0;
    int need_pragma = 0; /* the charset comes from content, so http-equiv must say so */
    const hf_charset *found = NULL;
    attribute a;
    while (get_attribute(v, &a)) {
        if (equals(a.name, "http-equiv") && !seen_equiv) {
            seen_equiv = 1;
            pragma = equals(a.value, "content-type");
        } else if (equals(a.name, "content") && !seen_content) {
            seen_content = 1;
            const hf_charset *cs = charset_of_content(a.value);
            if (cs != NULL && !seen_charset && found == NULL) {
                found = cs;
                need_pragma = 1;
            }
        } else if (equals(a.name, "charset") && !seen_charset) {
            seen_charset = 1;
            found = hf_charset_find(a.value.s, a.value.n);
            need_pragma = 0;
        }
    }
    if (v->n == 0) /* cut within the tag: the standard gives up, too */
        return NULL;
    return need_pragma && !pragma ? NULL : as_found(found);
}

static void skip_past(span *v, const char *end) {
    while (v->n > 0 && !starts(*v, end))
        skip(v, 1);
    skip(v, strlen(end));
}

/* The encoding of an XML declaration at the very start. */
static const hf_charset *charset_of_xml(span v) {
    if (!starts(v, "<?xml") || v.n < 6 || !is_blank(v.s[5]))
        return NULL;
    const uint8_t *end = memchr(v.s, '>', v.n);
    if (end == NULL)
        return NULL;
    v.n = (size_t)(end - v.s);
    while (v.n > 0 && !starts(v, "encoding"))
        skip(&v, 1);
    skip(&v, 8);
    skip_blanks(&v, 0);
    if (v.n == 0 || v.s[0] != '=')
        return NULL;
    skip(&v, 1);
    skip_blanks(&v, 0);
    if (v.n < 2 || (v.s[0] != '"' && v.s[0] != '\''))
        return NULL;
    end = memchr(v.s + 1, v.s[0], v.n - 1);
    if (end == NULL)
        return NULL;
    return as_found(hf_charset_find(v.s + 1, (size_t)(end - v.s - 1)));
}

/* Passes over one tag with its attributes. */
static void skip_tag(span *v) {
    while (v->n > 0 && !is_blank(v->s[0]) && v->s[0] != '>')
        skip(v, 1);
    attribute a;
    while (get_attribute(v, &a)) {
    }
}

static int is_meta(span v) {
    return starts(v, "<meta") && v.n > 5 && (is_blank(v.s[5]) || v.s[5] == '/');
}

const hf_charset *hf_sniff_markup(const uint8_t *s, size_t n) {
    span v = {s, n < 1024 ? n : 1024};
    if (n >= 6 && memcmp(s, "<\0?\0x", 6) == 0)
        return named("utf-16le");
    if (n >= 6 && memcmp(s, "\0<\0?\0x", 6) == 0)
        return named("utf-16be");
    const hf_charset *xml = charset_of_xml(v);
    while (v.n > 1) {
        const uint8_t *open = memchr(v.s, '<', v.n);
        if (open == NULL)
            break;
        skip(&v, (size_t)(open - v.s));
        if (starts(v, "<!--")) {
            skip(&v, 2); /* so that <!--> is a whole comment */
            skip_past(&v, "-->");
        } else if (is_meta(v)) {
            skip(&v, 6);
            const hf_charset *cs = charset_of_meta(&v);
            if (cs != NULL)
                return cs;
        } else if (v.n > 1 && (is_letter(v.s[1]) ||
                               (v.s[1] == '/' && v.n > 2 && is_letter(v.s[2])))) {
            skip_tag(&v);
        } else if (starts(v, "<!") || starts(v, "</") || starts(v, "<?")) {
            skip_past(&v, ">");
        } else {
            skip(&v, 1);
        }
    }
    return xml;
}
