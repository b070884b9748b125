/* The authority of a URL, user:password@host:port, taken apart and checked.
 *
 * Invariant: after success the host is as hostname.h normalises it and the port is
 * 1..65535; user and password are slices of the input, still percent-encoded.
 */
#ifndef HF_AUTHORITY_H
#define HF_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "curlabi.h"
#include "err.h"
#include "hostname.h"

typedef struct hf_authority {
    const uint8_t *user;     /* slice of the input; NULL when there is none */
    const uint8_t *password; /* likewise; NULL without ':' in the user info */
    size_t user_len;
    size_t password_len;
    int host_len;           /* bytes of host */
    uint16_t port;          /* 1..65535 */
    char host[HF_HOST_CAP]; /* normalised, terminated */
} hf_authority;

/* Reads in[0..n). default_port stands in for a missing or empty port; 0: the port is
 * required. name is how error texts call the whole, as "URL 'http://h:0/'"; the caller
 * has hidden its password.
 * Thread: any.  Valid: user and password as long as in.
 * Returns 0, HF_EINVAL with a sentence in err, or HF_ENOMEM.
 */
int hf_authority_read(const hf_curl *c, const uint8_t *in, size_t n, int default_port,
                      const char *name, hf_authority *out, hf_errbuf err);

/* The value of a hexadecimal digit, or -1. */
int hf_hex_value(uint8_t c);

#endif
