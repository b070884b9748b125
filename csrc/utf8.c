#include "utf8.h"

#include <string.h>

#include "cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define HIGH_BITS 0x8080808080808080u

static size_t sequence(const uint8_t *s, size_t n) {
    uint8_t c = s[0];
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    size_t len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (n < len)
        return 0;
    /* Only the second byte has narrower limits: overlong, surrogate, too large. */
    uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

size_t hf_utf8_valid_prefix(const uint8_t *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        if (n - i >= 8) {
            uint64_t word;
            memcpy(&word, s + i, 8);
            if ((word & HIGH_BITS) == 0) {
                i += 8;
                continue;
            }
        } else if (n >= 8) {
            /* The last eight bytes once more, rather than one by one. */
            uint64_t word;
            memcpy(&word, s + n - 8, 8);
            if ((word & HIGH_BITS) == 0)
                return n;
        }
        size_t len = sequence(s + i, n - i);
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

int hf_utf8_valid_scalar(const uint8_t *s, size_t n) {
    return hf_utf8_valid_prefix(s, n) == n;
}

size_t hf_utf8_ascii_prefix(const uint8_t *s, size_t n) {
    size_t i = 0;
    while (n - i >= 32) { /* four words at once: compilers make vectors of it */
        uint64_t w[4];
        memcpy(w, s + i, 32);
        if (((w[0] | w[1] | w[2] | w[3]) & HIGH_BITS) != 0)
            break;
        i += 32;
    }
    while (i < n && s[i] < 0x80)
        i++;
    return i;
}

#if defined(__x86_64__) || defined(__aarch64__)
/* The lookup method of Keiser and Lemire, "Validating UTF-8 in less than one
 * instruction per byte" (2021). Three tables over nibbles of a byte and the one before
 * it; a bit that is set in all three is an error of that kind. */
enum {
    TOO_SHORT = 1,
    TOO_LONG = 2,
    OVERLONG_3 = 4,
    TOO_LARGE = 8,
    SURROGATE = 16,
    OVERLONG_2 = 32,
    TOO_LARGE_1000 = 64, /* shares its bit with overlong four-byte forms */
    OVERLONG_4 = 64,
    TWO_CONTS = 128,
    CARRY = TOO_SHORT | TOO_LONG | TWO_CONTS,
    LARGE = CARRY | TOO_LARGE | TOO_LARGE_1000,
    CONT = TOO_LONG | OVERLONG_2 | TWO_CONTS
};

static const uint8_t first_high[16] = {
    TOO_LONG,
    TOO_LONG,
    TOO_LONG,
    TOO_LONG,
    TOO_LONG,
    TOO_LONG,
    TOO_LONG,
    TOO_LONG,
    TWO_CONTS,
    TWO_CONTS,
    TWO_CONTS,
    TWO_CONTS,
    TOO_SHORT | OVERLONG_2,
    TOO_SHORT,
    TOO_SHORT | OVERLONG_3 | SURROGATE,
    TOO_SHORT | TOO_LARGE | TOO_LARGE_1000 | OVERLONG_4,
};
static const uint8_t first_low[16] = {
    CARRY | OVERLONG_3 | OVERLONG_2 | OVERLONG_4,
    CARRY | OVERLONG_2,
    CARRY,
    CARRY,
    CARRY | TOO_LARGE,
    LARGE,
    LARGE,
    LARGE,
    LARGE,
    LARGE,
    LARGE,
    LARGE,
    LARGE,
    LARGE | SURROGATE,
    LARGE,
    LARGE,
};
static const uint8_t second_high[16] = {
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    CONT | OVERLONG_3 | TOO_LARGE_1000 | OVERLONG_4,
    CONT | OVERLONG_3 | TOO_LARGE,
    CONT | SURROGATE | TOO_LARGE,
    CONT | SURROGATE | TOO_LARGE,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
    TOO_SHORT,
};
#endif

#if defined(__x86_64__)

int hf_utf8_valid_sse2(const uint8_t *s, size_t n) {
    size_t i = 0;
    while (n - i >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(s + i));
        int high = _mm_movemask_epi8(v);
        if (high == 0) {
            i += 16;
            continue;
        }
        /* Stay with sequences to the end of the block: text comes in stretches. */
        size_t end = i + 16;
        i += (size_t)__builtin_ctz((unsigned)high);
        while (i < end) {
            size_t len = sequence(s + i, n - i);
            if (len == 0)
                return 0;
            i += len;
        }
    }
    return hf_utf8_valid_scalar(s + i, n - i);
}

#define AVX2 __attribute__((target("avx2")))

typedef struct state {
    __m256i prev;  /* the block before */
    __m256i error; /* not zero: an error was seen */
} state;

AVX2 static inline __m256i table(const uint8_t *t) {
    return _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)t));
}

AVX2 static inline void check_block(state *st, __m256i v) {
    const __m256i low = _mm256_set1_epi8(0x0f);
    __m256i across = _mm256_permute2x128_si256(st->prev, v, 0x21);
    __m256i prev1 = _mm256_alignr_epi8(v, across, 15);
    __m256i prev2 = _mm256_alignr_epi8(v, across, 14);
    __m256i prev3 = _mm256_alignr_epi8(v, across, 13);
    __m256i a = _mm256_shuffle_epi8(table(first_high),
                                    _mm256_and_si256(_mm256_srli_epi16(prev1, 4), low));
    __m256i b = _mm256_shuffle_epi8(table(first_low), _mm256_and_si256(prev1, low));
    __m256i c = _mm256_shuffle_epi8(table(second_high),
                                    _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
    __m256i special = _mm256_and_si256(_mm256_and_si256(a, b), c);
    __m256i third = _mm256_subs_epu8(prev2, _mm256_set1_epi8(0xe0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(prev3, _mm256_set1_epi8(0xf0 - 0x80));
    __m256i must =
        _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)0x80));
    st->error = _mm256_or_si256(st->error, _mm256_xor_si256(must, special));
    st->prev = v;
}

AVX2 static inline __m256i load(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

AVX2 int hf_utf8_valid_avx2(const uint8_t *s, size_t n) {
    state st = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;
    int open = 0; /* the block before was not all ASCII: a sequence may reach over */
    for (; n - i >= 64; i += 64) {
        __m256i v = load(s + i);
        __m256i w = load(s + i + 32);
        int ascii = _mm256_movemask_epi8(_mm256_or_si256(v, w)) == 0;
        if (ascii && !open)
            continue;
        check_block(&st, v);
        check_block(&st, w);
        open = !ascii;
    }
    if (!open)
        st.prev = _mm256_setzero_si256();
    /* The rest in zeroes; at least one zero makes an unfinished sequence an error. */
    uint8_t rest[96] = {0};
    memcpy(rest, s + i, n - i);
    for (size_t k = 0; k < 96; k += 32)
        check_block(&st, load(rest + k));
    return _mm256_testz_si256(st.error, st.error);
}

/* The same over 64 bytes, with AVX-512's F and BW. What stands before each byte is read
 * once more from memory: that is cheaper than moving it across the register. */
#define WIDE __attribute__((target("avx512f,avx512bw")))

WIDE static inline __m512i wide_table(const uint8_t *t) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)t));
}

/* What is wrong in the 64 bytes at s, whose bytes v are; three before s can be read. */
WIDE static inline __m512i wide_errors(const uint8_t *s, __m512i v) {
    const __m512i low = _mm512_set1_epi8(0x0f);
    __m512i prev1 = _mm512_loadu_si512(s - 1);
    __m512i prev2 = _mm512_loadu_si512(s - 2);
    __m512i prev3 = _mm512_loadu_si512(s - 3);
    __m512i a = _mm512_shuffle_epi8(wide_table(first_high),
                                    _mm512_and_si512(_mm512_srli_epi16(prev1, 4), low));
    __m512i b =
        _mm512_shuffle_epi8(wide_table(first_low), _mm512_and_si512(prev1, low));
    __m512i c = _mm512_shuffle_epi8(wide_table(second_high),
                                    _mm512_and_si512(_mm512_srli_epi16(v, 4), low));
    __m512i special = _mm512_and_si512(_mm512_and_si512(a, b), c);
    __m512i third = _mm512_subs_epu8(prev2, _mm512_set1_epi8(0xe0 - 0x80));
    __m512i fourth = _mm512_subs_epu8(prev3, _mm512_set1_epi8(0xf0 - 0x80));
    __m512i must =
        _mm512_and_si512(_mm512_or_si512(third, fourth), _mm512_set1_epi8((char)0x80));
    return _mm512_xor_si512(must, special);
}

WIDE int hf_utf8_valid_vbmi2(const uint8_t *s, size_t n) {
    enum { WIDTH = 64 };
    /* The ends of the input with zeroes around them: a byte before the first must be
     * there, and one behind the last makes an unfinished sequence an error. */
    uint8_t edge[2 * WIDTH] = {0};
    __m512i error = _mm512_setzero_si512();
    uint64_t before = 0; /* bytes of the block before that are not ASCII */
    size_t i = 0;
    if (n >= WIDTH) {
        __m512i v = _mm512_loadu_si512(s);
        _mm512_storeu_si512(edge + WIDTH, v);
        before = _mm512_movepi8_mask(v);
        error = wide_errors(edge + WIDTH, v);
        i = WIDTH;
    }
    for (; n - i >= WIDTH; i += WIDTH) {
        __m512i v = _mm512_loadu_si512(s + i);
        uint64_t high = _mm512_movepi8_mask(v);
        if ((high | before) != 0)
            error = _mm512_or_si512(error, wide_errors(s + i, v));
        before = high;
    }
    memset(edge, 0, sizeof edge);
    if (i > 0)
        memcpy(edge + WIDTH - 3, s + i - 3, 3);
    memcpy(edge + WIDTH, s + i, n - i);
    __m512i rest = wide_errors(edge + WIDTH, _mm512_loadu_si512(edge + WIDTH));
    error = _mm512_or_si512(error, rest);
    return _mm512_test_epi8_mask(error, error) == 0;
}

int hf_utf8_valid(const uint8_t *s, size_t n) {
    if (n >= 128 && hf_cpu_has_vbmi2())
        return hf_utf8_valid_vbmi2(s, n);
    if (n >= 64 && hf_cpu_has_avx2())
        return hf_utf8_valid_avx2(s, n);
    return hf_utf8_valid_sse2(s, n);
}

#elif defined(__aarch64__)

typedef struct state {
    uint8x16_t prev;
    uint8x16_t error;
} state;

static inline void check_block(state *st, uint8x16_t v) {
    const uint8x16_t low = vdupq_n_u8(0x0f);
    uint8x16_t prev1 = vextq_u8(st->prev, v, 15);
    uint8x16_t prev2 = vextq_u8(st->prev, v, 14);
    uint8x16_t prev3 = vextq_u8(st->prev, v, 13);
    uint8x16_t a = vqtbl1q_u8(vld1q_u8(first_high), vshrq_n_u8(prev1, 4));
    uint8x16_t b = vqtbl1q_u8(vld1q_u8(first_low), vandq_u8(prev1, low));
    uint8x16_t c = vqtbl1q_u8(vld1q_u8(second_high), vshrq_n_u8(v, 4));
    uint8x16_t special = vandq_u8(vandq_u8(a, b), c);
    uint8x16_t third = vqsubq_u8(prev2, vdupq_n_u8(0xe0 - 0x80));
    uint8x16_t fourth = vqsubq_u8(prev3, vdupq_n_u8(0xf0 - 0x80));
    uint8x16_t must = vandq_u8(vorrq_u8(third, fourth), vdupq_n_u8(0x80));
    st->error = vorrq_u8(st->error, veorq_u8(must, special));
    st->prev = v;
}

int hf_utf8_valid_neon(const uint8_t *s, size_t n) {
    state st = {vdupq_n_u8(0), vdupq_n_u8(0)};
    size_t i = 0;
    int open = 0;
    for (; n - i >= 32; i += 32) {
        uint8x16_t v = vld1q_u8(s + i);
        uint8x16_t w = vld1q_u8(s + i + 16);
        int ascii = vmaxvq_u8(vorrq_u8(v, w)) < 0x80;
        if (ascii && !open)
            continue;
        check_block(&st, v);
        check_block(&st, w);
        open = !ascii;
    }
    if (!open)
        st.prev = vdupq_n_u8(0);
    uint8_t rest[48] = {0};
    memcpy(rest, s + i, n - i);
    for (size_t k = 0; k < 48; k += 16)
        check_block(&st, vld1q_u8(rest + k));
    return vmaxvq_u8(st.error) == 0;
}

int hf_utf8_valid(const uint8_t *s, size_t n) {
    return n >= 32 ? hf_utf8_valid_neon(s, n) : hf_utf8_valid_scalar(s, n);
}

#else

int hf_utf8_valid(const uint8_t *s, size_t n) {
    return hf_utf8_valid_scalar(s, n);
}

#endif
