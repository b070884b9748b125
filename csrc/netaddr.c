#include "netaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* The nets of IPv4 that are not globally reachable: RFC 6890 and IANA's registry. */
static const struct {
    uint8_t net[4];
    int bits;
} private4[] = {
    {{0, 0, 0, 0}, 8},       /* this network; 0.0.0.0 reaches the own host */
    {{10, 0, 0, 0}, 8},      /* private */
    {{100, 64, 0, 0}, 10},   /* carrier-grade NAT */
    {{127, 0, 0, 0}, 8},     /* loopback */
    {{169, 254, 0, 0}, 16},  /* link-local; clouds serve credentials here */
    {{172, 16, 0, 0}, 12},   /* private */
    {{192, 0, 0, 0}, 24},    /* protocol assignments */
    {{192, 0, 2, 0}, 24},    /* documentation */
    {{192, 88, 99, 0}, 24},  /* 6to4 relays, given up */
    {{192, 168, 0, 0}, 16},  /* private */
    {{198, 18, 0, 0}, 15},   /* benchmarks */
    {{198, 51, 100, 0}, 24}, /* documentation */
    {{203, 0, 113, 0}, 24},  /* documentation */
    {{224, 0, 0, 0}, 4},     /* multicast */
    {{240, 0, 0, 0}, 4},     /* reserved, broadcast */
};

/* Those inside 2000::/3, the only part of IPv6 given out to the public. */
static const struct {
    uint8_t net[4];
    int bits;
} private6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23}, /* protocol assignments, Teredo, ORCHID */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
    {{0x3f, 0xff, 0x00, 0x00}, 20}, /* documentation */
};

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
static const uint8_t sixtofour[2] = {0x20, 0x02};

static bool in_net(const uint8_t *address, const uint8_t *net, int bits) {
    size_t whole = (size_t)bits / 8;
    uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));
    return memcmp(address, net, whole) == 0 &&
           (bits % 8 == 0 || ((address[whole] ^ net[whole]) & mask) == 0);
}

static bool public4(const uint8_t a[4]) {
    for (size_t i = 0; i < sizeof private4 / sizeof private4[0]; i++) {
        if (in_net(a, private4[i].net, private4[i].bits)) {
            return false;
        }
    }
    return true;
}

/* The IPv4 address that packets to a really reach, or NULL. */
static const uint8_t *carried4(const uint8_t a[16]) {
    if (memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0) {
        return a + 12;
    }
    return memcmp(a, sixtofour, 2) == 0 ? a + 2 : NULL;
}

static bool public6(const uint8_t a[16]) {
    if ((a[0] & 0xe0) != 0x20) {
        return false;
    }
    for (size_t i = 0; i < sizeof private6 / sizeof private6[0]; i++) {
        if (in_net(a, private6[i].net, private6[i].bits)) {
            return false;
        }
    }
    return true;
}

static bool allowed(const uint8_t a[16], const hf_nets *allow) {
    for (size_t i = 0; allow != NULL && i < allow->count; i++) {
        if (in_net(a, allow->list[i].address, allow->list[i].bits)) {
            return true;
        }
    }
    return false;
}

/* The address in 16 bytes; false for other families. */
static bool bytes_of(const struct sockaddr *address, uint8_t out[16]) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        memcpy(out, mapped, 12);
        memcpy(out + 12, &in.sin_addr, 4);
        return true;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        memcpy(out, &in6.sin6_addr, 16);
        return true;
    }
    return false;
}

bool hf_addr_public(const struct sockaddr *address, const hf_nets *allow) {
    uint8_t a[16];
    if (!bytes_of(address, a)) {
        return false;
    }
    if (allowed(a, allow)) {
        return true;
    }
    const uint8_t *inner = carried4(a);
    if (inner == NULL) {
        return public6(a);
    }
    uint8_t as_mapped[16];
    memcpy(as_mapped, mapped, 12);
    memcpy(as_mapped + 12, inner, 4);
    return public4(inner) || allowed(as_mapped, allow);
}

/* ---- Nets ---- */

/* Clears what stands behind the prefix; returns whether anything did. */
static bool clear_host(hf_net *net) {
    bool any = false;
    for (int bit = net->bits; bit < 128; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> (bit % 8));
        any = any || (net->address[bit / 8] & mask) != 0;
        net->address[bit / 8] &= (uint8_t)~mask;
    }
    return any;
}

/* Reads a decimal number up to most; -1 for anything else. */
static int read_bits(const char *text, int most) {
    int value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value <= most; p++) {
        value = value * 10 + (*p - '0');
    }
    return p == text || *p != '\0' || value > most ? -1 : value;
}

static int parse_net(const char *text, hf_net *out, hf_errbuf err) {
    char address[INET6_ADDRSTRLEN];
    size_t n = strcspn(text, "/");
    bool six = memchr(text, ':', n) != NULL;
    int most = six ? 128 : 32;
    uint8_t *at = six ? out->address : out->address + 12;
    if (n >= sizeof address) {
        n = 0;
    }
    memcpy(address, text, n);
    address[n] = '\0';
    memcpy(out->address, mapped, 12);
    if (inet_pton(six ? AF_INET6 : AF_INET, address, at) != 1) {
        return hf_fail(err, HF_EINVAL,
                       "'%.64s' is not a net; write one as 10.0.0.0/8, 127.0.0.1 or "
                       "fd00::/8",
                       text);
    }
    int bits = text[n] == '/' ? read_bits(text + n + 1, most) : most;
    if (bits < 0) {
        return hf_fail(err, HF_EINVAL, "the prefix of net '%.64s' is not from 0 to %d",
                       text, most);
    }
    out->bits = six ? bits : bits + 96;
    if (clear_host(out)) {
        (void)inet_ntop(six ? AF_INET6 : AF_INET, at, address, sizeof address);
        return hf_fail(err, HF_EINVAL,
                       "net '%.64s' has bits set behind its prefix; write %s/%d", text,
                       address, bits);
    }
    return 0;
}

int hf_nets_parse(const char *const *texts, hf_nets *out, hf_errbuf err) {
    size_t count = 0;
    *out = (hf_nets){NULL, 0};
    while (texts != NULL && texts[count] != NULL) {
        count++;
    }
    if (count == 0) {
        return 0;
    }
    out->list = calloc(count, sizeof *out->list);
    if (out->list == NULL) {
        return hf_fail(err, HF_ENOMEM, "%zu nets could not be kept: out of memory",
                       count);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = parse_net(texts[i], &out->list[i], err);
        if (rc != 0) {
            hf_nets_free(out);
            return rc;
        }
    }
    out->count = count;
    return 0;
}

void hf_nets_free(hf_nets *nets) {
    free(nets->list);
    *nets = (hf_nets){NULL, 0};
}
