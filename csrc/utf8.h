/* UTF-8 checks: strict, so no surrogates, no overlong forms, nothing past U+10FFFF.
 *
 * Bytes in, an answer out: no state, no allocation, any thread. The functions named
 * after an instruction set are the kernels behind the plain ones; they exist for tests
 * and read no byte outside [s, s + n).
 */
#ifndef HF_UTF8_H
#define HF_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 1 when all n bytes are valid UTF-8 (also for n = 0), else 0. */
int hf_utf8_valid(const uint8_t *s, size_t n);

/* Bytes at the start of s that are whole, valid sequences: n when all are. */
size_t hf_utf8_valid_prefix(const uint8_t *s, size_t n);

/* Bytes at the start of s below 0x80. */
size_t hf_utf8_ascii_prefix(const uint8_t *s, size_t n);

/* Copies the bytes at the start of s that are below 0x80. out holds n bytes and does
 * not overlap s. Returns the count. */
static inline size_t hf_utf8_copy_ascii(uint8_t *out, const uint8_t *s, size_t n) {
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, s + i, 8);
        if ((word & 0x8080808080808080u) != 0)
            break;
        memcpy(out + i, &word, 8);
    }
    for (; i < n && s[i] < 0x80; i++)
        out[i] = s[i];
    return i;
}

/* Writes code point cp, below 0x110000 and no surrogate, as one to four bytes.
 * out holds four; bytes past the count may be overwritten. Returns the count. */
static inline size_t hf_utf8_put(uint8_t *out, uint32_t cp) {
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xc0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xe0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (cp & 0x3f));
    return 4;
}

int hf_utf8_valid_scalar(const uint8_t *s, size_t n);
#if defined(__x86_64__)
int hf_utf8_valid_sse2(const uint8_t *s, size_t n);
/* These need a CPU that has it. */
int hf_utf8_valid_avx2(const uint8_t *s, size_t n);
int hf_utf8_valid_vbmi2(const uint8_t *s, size_t n);
#elif defined(__aarch64__)
int hf_utf8_valid_neon(const uint8_t *s, size_t n);
#endif

#endif
