#include "base64.h"

#include "cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static const char alphabet[65] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static inline uint8_t letter(uint32_t six) {
    return (uint8_t)alphabet[six & 63];
}

size_t hf_base64_encode_scalar(uint8_t *out, const uint8_t *s, size_t n) {
    uint8_t *o = out;
    size_t i = 0;
    for (; n - i >= 3; i += 3, o += 4) {
        uint32_t v = (uint32_t)s[i] << 16 | (uint32_t)s[i + 1] << 8 | s[i + 2];
        o[0] = letter(v >> 18);
        o[1] = letter(v >> 12);
        o[2] = letter(v >> 6);
        o[3] = letter(v);
    }
    if (i < n) {
        uint32_t v = (uint32_t)s[i] << 16;
        if (n - i == 2)
            v |= (uint32_t)s[i + 1] << 8;
        o[0] = letter(v >> 18);
        o[1] = letter(v >> 12);
        o[2] = n - i == 2 ? letter(v >> 6) : '=';
        o[3] = '=';
        o += 4;
    }
    return (size_t)(o - out);
}

#if defined(__x86_64__)

/* 24 bytes to 32 letters a step, after Muła and Lemire, "Faster Base64 Encoding and
 * Decoding using AVX2 Instructions" (2018). */
__attribute__((target("avx2"))) size_t
hf_base64_encode_avx2(uint8_t *out, const uint8_t *s, size_t n) {
    const __m256i spread =
        _mm256_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10, 1, 0, 2, 1,
                         4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* What to add to a six-bit value, by its range: a-z, 0-9 (ten times), +, /, A-Z. */
    const __m256i shift = _mm256_setr_epi8(71, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4,
                                           -19, -16, 65, 0, 0, 71, -4, -4, -4, -4, -4,
                                           -4, -4, -4, -4, -4, -19, -16, 65, 0, 0);
    uint8_t *o = out;
    size_t i = 0;
    for (; n - i >= 28; i += 24, o += 32) {
        __m128i lo = _mm_loadu_si128((const __m128i *)(const void *)(s + i));
        __m128i hi = _mm_loadu_si128((const __m128i *)(const void *)(s + i + 12));
        __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1);
        v = _mm256_shuffle_epi8(v, spread);
        __m256i ac =
            _mm256_mulhi_epu16(_mm256_and_si256(v, _mm256_set1_epi32(0x0fc0fc00)),
                               _mm256_set1_epi32(0x04000040));
        __m256i bd =
            _mm256_mullo_epi16(_mm256_and_si256(v, _mm256_set1_epi32(0x003f03f0)),
                               _mm256_set1_epi32(0x01000010));
        __m256i six = _mm256_or_si256(ac, bd);
        __m256i range = _mm256_subs_epu8(six, _mm256_set1_epi8(51));
        __m256i upper = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), six);
        range = _mm256_or_si256(range, _mm256_and_si256(upper, _mm256_set1_epi8(13)));
        six = _mm256_add_epi8(six, _mm256_shuffle_epi8(shift, range));
        _mm256_storeu_si256((__m256i *)(void *)o, six);
    }
    return (size_t)(o - out) + hf_base64_encode_scalar(o, s + i, n - i);
}

size_t hf_base64_encode(uint8_t *out, const uint8_t *s, size_t n) {
    if (n >= 28 && hf_cpu_has_avx2())
        return hf_base64_encode_avx2(out, s, n);
    return hf_base64_encode_scalar(out, s, n);
}

#elif defined(__aarch64__)

size_t hf_base64_encode_neon(uint8_t *out, const uint8_t *s, size_t n) {
    const uint8x16x4_t letters = vld1q_u8_x4((const uint8_t *)alphabet);
    const uint8x16_t low = vdupq_n_u8(63);
    uint8_t *o = out;
    size_t i = 0;
    for (; n - i >= 48; i += 48, o += 64) {
        uint8x16x3_t v = vld3q_u8(s + i);
        uint8x16x4_t six;
        six.val[0] = vshrq_n_u8(v.val[0], 2);
        six.val[1] =
            vandq_u8(vorrq_u8(vshlq_n_u8(v.val[0], 4), vshrq_n_u8(v.val[1], 4)), low);
        six.val[2] =
            vandq_u8(vorrq_u8(vshlq_n_u8(v.val[1], 2), vshrq_n_u8(v.val[2], 6)), low);
        six.val[3] = vandq_u8(v.val[2], low);
        for (int k = 0; k < 4; k++)
            six.val[k] = vqtbl4q_u8(letters, six.val[k]);
        vst4q_u8(o, six);
    }
    return (size_t)(o - out) + hf_base64_encode_scalar(o, s + i, n - i);
}

size_t hf_base64_encode(uint8_t *out, const uint8_t *s, size_t n) {
    return hf_base64_encode_neon(out, s, n);
}

#else

size_t hf_base64_encode(uint8_t *out, const uint8_t *s, size_t n) {
    return hf_base64_encode_scalar(out, s, n);
}

#endif
