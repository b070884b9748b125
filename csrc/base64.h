/* Base64 of RFC 4648 section 4: standard alphabet, with padding, no line breaks.
 *
 * Bytes in, bytes out: no state, no allocation, any thread. The functions named after
 * an instruction set are the kernels behind the plain one; they exist for tests.
 */
#ifndef HF_BASE64_H
#define HF_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that encoding n bytes takes. n is at most SIZE_MAX / 2. */
static inline size_t hf_base64_size(size_t n) {
    return (n + 2) / 3 * 4;
}

/* Encodes. out holds hf_base64_size(n) bytes, none past them is touched, and does not
 * overlap s. Returns the count written. */
size_t hf_base64_encode(uint8_t *out, const uint8_t *s, size_t n);

size_t hf_base64_encode_scalar(uint8_t *out, const uint8_t *s, size_t n);
#if defined(__x86_64__)
size_t hf_base64_encode_avx2(uint8_t *out, const uint8_t *s, size_t n);
#elif defined(__aarch64__)
size_t hf_base64_encode_neon(uint8_t *out, const uint8_t *s, size_t n);
#endif

#endif
