#include "hostname.h"

#include <locale.h>
#include <stdbool.h>
#include <string.h>

#include "utf8.h"

enum {
    LONGEST_NAME = 253, /* RFC 1035 without the root's dot */
    LONGEST_LABEL = 63,
    LONGEST_ZONE = 15,   /* IFNAMSIZ without the terminator */
    LONGEST_INPUT = 4096 /* a name of 253 code points, all escaped as %F0%9F... */
};

static bool is_digit(uint8_t c) {
    return (uint8_t)(c - '0') < 10;
}

/* The bytes of a plain name: letters, digits, hyphen, and the underscore that real
 * hosts have. 2 stands for upper case. */
static const uint8_t name_byte[256] = {
    ['a' ... 'z'] = 1, ['0' ... '9'] = 1, ['-'] = 1, ['_'] = 1, ['A' ... 'Z'] = 2};

/* True for four decimal numbers up to 255 without leading zeros. */
static bool is_quad(const uint8_t *in, size_t n) {
    int parts = 0;
    size_t i = 0;
    while (i < n && parts < 4) {
        size_t start = i;
        unsigned value = 0;
        while (i < n && is_digit(in[i]) && i - start < 3) {
            value = value * 10 + (unsigned)(in[i++] - '0');
        }
        if (i == start || value > 255 || (i - start > 1 && in[start] == '0')) {
            return false;
        }
        parts++;
        if (i < n && (in[i] != '.' || ++i == n)) {
            return false;
        }
    }
    return parts == 4 && i == n;
}

size_t hf_hostname_plain(const uint8_t *in, size_t n) {
    size_t i = 0;
    size_t label = 0; /* where the current label starts */
    for (; i < n; i++) {
        if (name_byte[in[i]] != 0) {
            continue;
        }
        if (in[i] != '.') {
            break;
        }
        if (i == label || i - label > LONGEST_LABEL) {
            return 0;
        }
        label = i + 1;
    }
    /* A trailing dot leaves an empty last label: rare, so left to the careful way. */
    if (i == label || i - label > LONGEST_LABEL || i > LONGEST_NAME) {
        return 0;
    }
    /* A last label that starts with a digit may be an odd spelling of an address. */
    return is_digit(in[label]) && !is_quad(in, i) ? 0 : i;
}

/* libidn2 inside libcurl reads its input in the encoding of the locale, which may well
 * be C in a container: this thread gets a UTF-8 one for the time of the call. */
static locale_t utf8_locale(void) {
    static const char *const names[] = {"C.UTF-8", "C.utf8", "en_US.UTF-8"};
    locale_t l = (locale_t)0;
    for (size_t i = 0; l == (locale_t)0 && i < sizeof names / sizeof names[0]; i++) {
        l = newlocale(LC_CTYPE_MASK, names[i], (locale_t)0);
    }
    return l;
}

/* Asks libcurl what host "http://<in>/" has; copies it and its zone id. */
static int ask_curl(const hf_curl *c, const char *url, bool international,
                    char host[HF_HOST_CAP], char zone[LONGEST_ZONE + 1],
                    hf_errbuf err) {
    char *text = NULL;
    char *zone_text = NULL;
    int rc = HF_ENOMEM;
    int code;
    locale_t utf8 = (locale_t)0;
    locale_t before = (locale_t)0;
    CURLU *u = c->curl_url();
    if (u == NULL) {
        return hf_fail(err, HF_ENOMEM, "could not be parsed: out of memory");
    }
    if (international) {
        utf8 = utf8_locale();
        before = utf8 != (locale_t)0 ? uselocale(utf8) : (locale_t)0;
    }
    code = c->curl_url_set(u, CURLUPART_URL, url, 0);
    if (code == 0) {
        code = c->curl_url_get(u, CURLUPART_HOST, &text, CURLU_PUNYCODE);
    }
    if (code != 0 || text == NULL) {
        bool blind = international && utf8 == (locale_t)0;
        rc = hf_fail(err, HF_EINVAL, "is not valid: %s%s", c->curl_url_strerror(code),
                     blind ? " (this system has no UTF-8 locale to read it with)" : "");
        goto done;
    }
    if (strlen(text) > LONGEST_NAME + 1) {
        rc = hf_fail(err, HF_EINVAL, "is longer than %d bytes", LONGEST_NAME);
        goto done;
    }
    memcpy(host, text, strlen(text) + 1);
    zone[0] = '\0';
    rc = 0;
    if (c->curl_url_get(u, CURLUPART_ZONEID, &zone_text, 0) == 0 && zone_text != NULL) {
        if (strlen(zone_text) > LONGEST_ZONE) {
            rc = hf_fail(err, HF_EINVAL, "has a zone longer than %d bytes",
                         LONGEST_ZONE);
            goto done;
        }
        memcpy(zone, zone_text, strlen(zone_text) + 1);
    }
done:
    c->curl_free(zone_text);
    c->curl_free(text);
    if (utf8 != (locale_t)0) {
        uselocale(before);
        freelocale(utf8);
    }
    c->curl_url_cleanup(u);
    return rc;
}

static void lower(char *text) {
    for (; *text != '\0'; text++) {
        if (name_byte[(uint8_t)*text] == 2) {
            *text = (char)(*text | 0x20);
        }
    }
}

/* Whether a last label is a number, which no top-level domain is: such a host can only
 * be an address (URL standard, "ends in a number"). */
static bool is_number(const char *label, size_t n) {
    size_t hex = n >= 2 && label[0] == '0' && label[1] == 'x' ? 2 : 0;
    static const char digits[] = "0123456789abcdef";
    return strspn(label + hex, digits) >= n - hex &&
           (hex != 0 || strspn(label, "0123456789") >= n);
}

/* Checks the labels of an ASCII name, which may end in a dot. */
static int check_name(const char *host, hf_errbuf err) {
    size_t n = strlen(host);
    size_t label = 0;
    if (n > 0 && host[n - 1] == '.') {
        n--;
    }
    if (n > LONGEST_NAME) {
        return hf_fail(err, HF_EINVAL, "is longer than %d bytes", LONGEST_NAME);
    }
    for (size_t i = 0; i <= n; i++) {
        if (i < n && host[i] != '.') {
            uint8_t b = (uint8_t)host[i];
            if (b <= 0x20 || b >= 0x7f || strchr("#%/:<>?@[\\]^|\"`{}", b) != NULL) {
                return hf_fail(err, HF_EINVAL, "holds the byte 0x%02x", b);
            }
            continue;
        }
        if (i == label) {
            return hf_fail(err, HF_EINVAL, "has an empty label");
        }
        if (i - label > LONGEST_LABEL) {
            return hf_fail(err, HF_EINVAL,
                           "has a label of %zu bytes; at most %d are allowed",
                           i - label, LONGEST_LABEL);
        }
        if (i == n && is_number(host + label, i - label) &&
            !is_quad((const uint8_t *)host, n)) {
            return hf_fail(err, HF_EINVAL, "ends in a number but is no IPv4 address");
        }
        label = i + 1;
    }
    return (int)strlen(host);
}

/* Puts a zone back in front of the closing bracket. */
static int add_zone(char host[HF_HOST_CAP], const char *zone, hf_errbuf err) {
    size_t n = strlen(host);
    for (const char *z = zone; *z != '\0'; z++) {
        if (name_byte[(uint8_t)*z] == 0 && *z != '.' && *z != '~') {
            return hf_fail(err, HF_EINVAL, "has a zone that names no interface");
        }
    }
    if (zone[0] != '\0') {
        size_t zone_len = strlen(zone);
        memcpy(host + n - 1, "%25", 3);
        memcpy(host + n + 2, zone, zone_len);
        memcpy(host + n + 2 + zone_len, "]", 2);
        n += 3 + zone_len;
    }
    return (int)n;
}

int hf_hostname_normalise(const hf_curl *c, const uint8_t *in, size_t n,
                          char out[HF_HOST_CAP], hf_errbuf err) {
    char url[LONGEST_INPUT + 16];
    char zone[LONGEST_ZONE + 1] = "";
    bool international = false;
    out[0] = '\0';
    if (n == 0) {
        return hf_fail(err, HF_EINVAL, "is empty");
    }
    if (n > LONGEST_INPUT) {
        return hf_fail(err, HF_EINVAL, "is longer than %d bytes", LONGEST_NAME);
    }
    if (hf_hostname_plain(in, n) == n) {
        memcpy(out, in, n);
        out[n] = '\0';
        lower(out);
        return (int)n;
    }
    for (size_t i = 0; i < n; i++) {
        if (in[i] <= 0x20 || in[i] == 0x7f || strchr("/?#@\\", in[i]) != NULL ||
            (in[i] == ':' && in[0] != '[')) {
            return hf_fail(err, HF_EINVAL, "holds the byte 0x%02x", in[i]);
        }
        international = international || in[i] >= 0x80 || in[i] == '%';
    }
    if (!hf_utf8_valid(in, n)) {
        return hf_fail(err, HF_EINVAL, "holds bytes that are not UTF-8");
    }
    size_t len = n;
    memcpy(url, "http://", 7);
    memcpy(url + 7, in, n);
    memcpy(url + 7 + n, "/", 2);
    int rc = ask_curl(c, url, international, out, zone, err);
    if (rc == 0 && international && out[0] != '[') {
        /* Full-width digits become an address only after the mapping: look again. */
        len = strlen(out);
        memcpy(url + 7, out, len);
        memcpy(url + 7 + len, "/", 2);
        rc = ask_curl(c, url, false, out, zone, err);
    }
    if (rc != 0) {
        return rc;
    }
    lower(out);
    return out[0] == '[' ? add_zone(out, zone, err) : check_name(out, err);
}
