/* SHA-256 (FIPS 180-4), for names that must not tell what they were made of.
 *
 * libcurl's file does not export its own. Not for passwords at rest or large data.
 */
#ifndef HF_SHA256_H
#define HF_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { HF_SHA256_BYTES = 32 };

typedef struct hf_sha256 {
    uint32_t h[8];
    uint64_t n; /* bytes so far */
    uint8_t block[64];
} hf_sha256;

/* Any thread, one at a time for each struct; no allocation. */
void hf_sha256_init(hf_sha256 *s);
void hf_sha256_add(hf_sha256 *s, const void *p, size_t n);
void hf_sha256_end(hf_sha256 *s, uint8_t out[HF_SHA256_BYTES]);

#endif
