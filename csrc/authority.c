#include "authority.h"

int hf_hex_value(uint8_t c) {
    if ((uint8_t)(c - '0') < 10) {
        return c - '0';
    }
    uint8_t letter = (uint8_t)((c | 0x20) - 'a');
    return letter < 6 ? letter + 10 : -1;
}

/* True for a control in a user or password, also an escaped one: libcurl decodes it and
 * hands the byte to a server or a proxy. */
static bool holds_control(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int c = p[i];
        if (c == '%' && n - i > 2 && hf_hex_value(p[i + 1]) >= 0 &&
            hf_hex_value(p[i + 2]) >= 0) {
            c = hf_hex_value(p[i + 1]) * 16 + hf_hex_value(p[i + 2]);
        }
        if (c < 0x20 || c == 0x7f) {
            return true;
        }
    }
    return false;
}

static int read_port(const uint8_t *digits, size_t n, int default_port,
                     const char *name, hf_authority *out, hf_errbuf err) {
    unsigned value = 0;
    if (n == 0 && default_port == 0) {
        return hf_fail(err, HF_EINVAL, "%s has no port; add one, as in host:3128",
                       name);
    }
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)digits[i] - '0';
        value = digit > 9 || value > 65535 ? 65536 : value * 10 + digit;
    }
    if (n == 0) {
        value = (unsigned)default_port;
    }
    if (value == 0 || value > 65535) {
        return hf_fail(err, HF_EINVAL, "the port of %s is not a number from 1 to 65535",
                       name);
    }
    out->port = (uint16_t)value;
    return 0;
}

static int read_host(const hf_curl *c, const uint8_t *host, size_t n, const char *name,
                     hf_authority *out, hf_errbuf err) {
    char reason[128] = "";
    if (n == 0) {
        return hf_fail(err, HF_EINVAL, "%s has no host", name);
    }
    for (size_t i = 0; i < n; i++) {
        if (host[i] == ':' && host[0] != '[') {
            return hf_fail(err, HF_EINVAL,
                           "the host of %s holds a second ':'; an IPv6 address needs "
                           "brackets, as in [::1]:80",
                           name);
        }
    }
    out->host_len = hf_hostname_normalise(c, host, n, out->host,
                                          (hf_errbuf){reason, sizeof reason});
    if (out->host_len < 0) {
        return hf_fail(err, out->host_len, "the host of %s %s", name, reason);
    }
    return 0;
}

/* Takes the user info off the front; returns the offset behind its '@'. */
static size_t read_user(const uint8_t *in, size_t n, hf_authority *out) {
    size_t at = n;
    while (at > 0 && in[at - 1] != '@') {
        at--;
    }
    if (at == 0) {
        return 0;
    }
    size_t colon = 0;
    while (colon < at - 1 && in[colon] != ':') {
        colon++;
    }
    out->user = in;
    out->user_len = colon;
    if (colon < at - 1) {
        out->password = in + colon + 1;
        out->password_len = at - colon - 2;
    }
    return at;
}

int hf_authority_read(const hf_curl *c, const uint8_t *in, size_t n, int default_port,
                      const char *name, hf_authority *out, hf_errbuf err) {
    out->user = NULL;
    out->password = NULL;
    out->user_len = 0;
    out->password_len = 0;
    out->host_len = 0;
    out->port = 0;
    size_t host = read_user(in, n, out);
    if (holds_control(out->user, out->user_len) ||
        holds_control(out->password, out->password_len)) {
        return hf_fail(err, HF_EINVAL, "the user info of %s holds a control character",
                       name);
    }
    /* The port stands behind the last colon, unless that one is inside brackets. */
    size_t colon = n;
    while (colon > host && in[colon - 1] != ':' && in[colon - 1] != ']') {
        colon--;
    }
    bool has_port = colon > host && in[colon - 1] == ':';
    size_t host_end = has_port ? colon - 1 : n;
    int rc = read_host(c, in + host, host_end - host, name, out, err);
    if (rc == 0) {
        rc = read_port(in + colon, has_port ? n - colon : 0, default_port, name, out,
                       err);
    }
    return rc;
}
