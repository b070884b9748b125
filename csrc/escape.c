#include "escape.h"

#include <stdbool.h>
#include <string.h>

#include "cpu.h"
#include "utf8.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Eight bytes, so that an escape is one load and one store whatever its length. */
typedef struct escape {
    char text[7];
    uint8_t len; /* 0: the byte stands for itself */
} escape;

#define HEX(c, digits) [c] = {"\\u00" digits, 6}
static const escape escapes[128] = {
    HEX(0x00, "00"),     HEX(0x01, "01"),      HEX(0x02, "02"),     HEX(0x03, "03"),
    HEX(0x04, "04"),     HEX(0x05, "05"),      HEX(0x06, "06"),     HEX(0x07, "07"),
    ['\b'] = {"\\b", 2}, ['\t'] = {"\\t", 2},  ['\n'] = {"\\n", 2}, HEX(0x0b, "0b"),
    ['\f'] = {"\\f", 2}, ['\r'] = {"\\r", 2},  HEX(0x0e, "0e"),     HEX(0x0f, "0f"),
    HEX(0x10, "10"),     HEX(0x11, "11"),      HEX(0x12, "12"),     HEX(0x13, "13"),
    HEX(0x14, "14"),     HEX(0x15, "15"),      HEX(0x16, "16"),     HEX(0x17, "17"),
    HEX(0x18, "18"),     HEX(0x19, "19"),      HEX(0x1a, "1a"),     HEX(0x1b, "1b"),
    HEX(0x1c, "1c"),     HEX(0x1d, "1d"),      HEX(0x1e, "1e"),     HEX(0x1f, "1f"),
    ['"'] = {"\\\"", 2}, ['\\'] = {"\\\\", 2}, HEX(0x7f, "7f"),
};

static inline uint8_t *put_escape(uint8_t *o, uint8_t c) {
    memcpy(o, &escapes[c], 8);
    return o + escapes[c].len;
}

/* Not 0 when one of the eight bytes is no ASCII or needs an escape. Taking one from a
 * byte sets its high bit where it was 0; a borrow comes from such a byte only. */
static inline uint64_t odd_bytes(uint64_t w) {
    const uint64_t each = 0x0101010101010101u;
    uint64_t quote = (w ^ each * '"') - each;
    uint64_t backslash = (w ^ each * '\\') - each;
    uint64_t del = (w ^ each * 0x7f) - each;
    return (w | (w - each * 0x20) | quote | backslash | del) & each * 0x80;
}

static inline uint64_t copy_word(uint8_t *out, const uint8_t *s) {
    uint64_t w;
    memcpy(&w, s, 8);
    memcpy(out, &w, 8);
    return odd_bytes(w);
}

/* Copies n bytes. Returns false when they are no ASCII or one needs an escape. Names
 * and values of headers are short and plain, and a request has some twenty: they are
 * done before a kernel has loaded its tables. */
static inline bool copy_plain(uint8_t *out, const uint8_t *s, size_t n) {
    uint64_t odd = 0;
    if (n < 8) {
        for (size_t i = 0; i < n; i++) {
            out[i] = s[i];
            odd |= s[i] >= 0x80 || escapes[s[i]].len != 0;
        }
        return odd == 0;
    }
    for (size_t i = 0; i + 8 < n; i += 8)
        odd |= copy_word(out + i, s + i);
    odd |= copy_word(out + n - 8, s + n - 8);
    return odd == 0;
}

/* Bytes up to which that is worth a try. */
enum { SHORT = 64 };

/* Writes \u0080 to \u009f. */
static inline uint8_t *put_c1(uint8_t *o, uint8_t c) {
    memcpy(o, "\\u00", 4);
    o[4] = (uint8_t)('0' + (c >> 4));
    o[5] = (uint8_t) "0123456789abcdef"[c & 15];
    return o + 6;
}

/* Bytes of the two- or three-byte character at s that needs an escape, or 0. Two bytes
 * past s[0] can be read. */
static inline size_t is_wide(const uint8_t *s) {
    if (s[0] == 0xc2)
        return (s[1] & 0xe0) == 0x80 ? 2 : 0;
    return s[0] == 0xe2 && s[1] == 0x80 && (s[2] & 0xfe) == 0xa8 ? 3 : 0;
}

static inline uint8_t *put_wide(uint8_t *o, const uint8_t *s) {
    if (s[0] == 0xc2)
        return put_c1(o, s[1]);
    memcpy(o, s[2] == 0xa8 ? "\\u2028" : "\\u2029", 6);
    return o + 6;
}

/* The same as is_wide where fewer bytes may be left. */
static inline size_t is_wide_within(const uint8_t *s, size_t n) {
    uint8_t c[3] = {s[0], n > 1 ? s[1] : 0, n > 2 ? s[2] : 0};
    return is_wide(c);
}

size_t hf_json_escape_scalar(uint8_t *out, const uint8_t *s, size_t n) {
    uint8_t *o = out;
    for (size_t i = 0; i < n;) {
        uint8_t c = s[i];
        size_t wide = c < 0x80 ? 0 : is_wide_within(s + i, n - i);
        if (wide != 0) {
            o = put_wide(o, s + i);
            i += wide;
            continue;
        }
        if (c < 0x80 && escapes[c].len != 0)
            o = put_escape(o, c);
        else
            *o++ = c;
        i++;
    }
    return (size_t)(o - out);
}

size_t hf_json_escape_latin1(uint8_t *out, const uint8_t *s, size_t n) {
    uint8_t *o = out;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = s[i];
        if (c >= 0xa0)
            o += hf_utf8_put(o, c);
        else if (c >= 0x80)
            o = put_c1(o, c);
        else if (escapes[c].len != 0)
            o = put_escape(o, c);
        else
            *o++ = c;
    }
    return (size_t)(o - out);
}

int64_t hf_json_escape_utf8(uint8_t *out, const uint8_t *s, size_t n) {
    const size_t piece = 8192; /* read twice, so it should stay in the first cache */
    uint8_t *o = out;
    if (n <= SHORT && copy_plain(out, s, n))
        return (int64_t)n;
    while (n > 0) {
        size_t take = n;
        if (n > piece) {
            take = piece;
            for (int k = 0; k < 3 && (s[take] & 0xc0) == 0x80; k++)
                take--; /* not inside a character */
        }
        if (!hf_utf8_valid(s, take))
            return -1;
        o += hf_json_escape(o, s, take);
        s += take;
        n -= take;
    }
    return o - out;
}

#if defined(__x86_64__) || defined(__aarch64__)

/* Blocks are 64 bytes: one bit each in a word tells the bytes that may need an escape.
 * HTML has such a byte every 30 or so, and going from bit to bit costs less than
 * starting anew behind each. */
enum { BLOCK = 64, REACH = 2 * BLOCK, TAIL = 4 * BLOCK };

/* Writes the block at s, of which REACH bytes can be read; the scan that made mask has
 * already stored the 64 bytes at *out as they are. Returns the bytes taken, 64 to 66.
 */
static inline size_t put_block(uint8_t **out, const uint8_t *s, uint64_t mask) {
    uint8_t *o = *out;
    size_t at = 0; /* bytes of s that are done */
    while (mask != 0) {
        size_t k = (size_t)__builtin_ctzll(mask);
        mask &= mask - 1;
        size_t taken = 1;
        if (s[k] >= 0x80 && (taken = is_wide(s + k)) == 0)
            continue; /* an ordinary character that starts with the same byte */
        memcpy(o, s + at, 32);
        if (k - at > 32)
            memcpy(o + 32, s + at + 32, 32);
        o += k - at;
        o = s[k] < 0x80 ? put_escape(o, s[k]) : put_wide(o, s + k);
        at = k + taken;
    }
    if (at != 0 && at < BLOCK)
        memcpy(o, s + at, BLOCK);
    if (at < BLOCK) {
        o += BLOCK - at;
        at = BLOCK;
    }
    *out = o;
    return at;
}

/* The loop of each kernel. The rest goes through a copy, since a block reads ahead;
 * what the zeroes behind it became is taken back at the end. */
#define KERNEL(name, target, scan)                                 \
    target size_t name(uint8_t *out, const uint8_t *s, size_t n) { \
        uint8_t *o = out;                                          \
        size_t i = 0;                                              \
        while (n - i >= REACH)                                     \
            i += put_block(&o, s + i, scan(o, s + i));             \
        uint8_t tail[TAIL] = {0};                                  \
        size_t left = n - i;                                       \
        memcpy(tail, s + i, left);                                 \
        size_t k = 0;                                              \
        while (k < left) {                                         \
            uint64_t mask = scan(o, tail + k);                     \
            if (left - k < BLOCK)                                  \
                mask &= ((uint64_t)1 << (left - k)) - 1;           \
            k += put_block(&o, tail + k, mask);                    \
        }                                                          \
        return (size_t)(o - out) - (k - left);                     \
    }

/* Classes of bytes by their nibbles: a byte is a candidate when both tables have a bit
 * in common. 1: controls, 2: the quote, 4: the backslash, 8: DEL, 16: C2 and E2. */
#define LOW_NIBBLES 1, 1, 19, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 9
#define HIGH_NIBBLES 1, 1, 2, 0, 0, 4, 0, 8, 0, 0, 0, 0, 16, 0, 16, 0

#endif

#if defined(__x86_64__)

static inline uint64_t scan16(uint8_t *o, const uint8_t *s) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)s);
    _mm_storeu_si128((__m128i *)(void *)o, v);
    __m128i m = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
    m = _mm_or_si128(m, _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
    m = _mm_or_si128(m, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    m = _mm_or_si128(m, _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f)));
    __m128i folded = _mm_and_si128(v, _mm_set1_epi8((char)0xdf)); /* E2 to C2 */
    m = _mm_or_si128(m, _mm_cmpeq_epi8(folded, _mm_set1_epi8((char)0xc2)));
    return (uint64_t)(uint32_t)_mm_movemask_epi8(m);
}

static inline uint64_t scan_sse2(uint8_t *o, const uint8_t *s) {
    return scan16(o, s) | scan16(o + 16, s + 16) << 16 | scan16(o + 32, s + 32) << 32 |
           scan16(o + 48, s + 48) << 48;
}

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline uint32_t scan32(uint8_t *o, const uint8_t *s) {
    const __m256i low = _mm256_setr_epi8(LOW_NIBBLES, LOW_NIBBLES);
    const __m256i high = _mm256_setr_epi8(HIGH_NIBBLES, HIGH_NIBBLES);
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)s);
    _mm256_storeu_si256((__m256i *)(void *)o, v);
    __m256i a = _mm256_shuffle_epi8(low, _mm256_and_si256(v, nibble));
    __m256i b =
        _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble));
    __m256i plain = _mm256_cmpeq_epi8(_mm256_and_si256(a, b), _mm256_setzero_si256());
    return ~(uint32_t)_mm256_movemask_epi8(plain);
}

AVX2 static inline uint64_t scan_avx2(uint8_t *o, const uint8_t *s) {
    return scan32(o, s) | (uint64_t)scan32(o + 32, s + 32) << 32;
}

KERNEL(hf_json_escape_sse2, , scan_sse2)
KERNEL(hf_json_escape_avx2, AVX2, scan_avx2)

/* With VBMI2 an escape of two bytes costs nothing: letters are spread over a register
 * of backslashes, with a gap before each that is escaped. Blocks with longer escapes
 * take the way of the other kernels. */
/* Bytes by which the output is fetched before it is written: in a ring that another
 * core reads from each line has to be had back first. */
#define AHEAD 1024
#define VBMI2                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2," \
                          "popcnt,prfchw")))

typedef struct block {
    __m512i bytes;    /* as they come */
    __m512i letters;  /* the same with n for a line feed, and so on */
    uint64_t escaped; /* what gets a backslash */
    uint64_t rare;    /* DEL, long escapes, and C2 and E2, with which wide ones start */
} block;

VBMI2 static inline block classify(__m512i v) {
    static const uint8_t letters[64] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    const __m512i table = _mm512_loadu_si512(letters);
    uint64_t control = _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(0x20));
    uint64_t quote = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')) |
                     _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\'));
    __m512i folded = _mm512_and_si512(v, _mm512_set1_epi8((char)0xdf));
    uint64_t rare = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(0x7f)) |
                    _mm512_cmpeq_epi8_mask(folded, _mm512_set1_epi8((char)0xc2));
    __m512i out = _mm512_mask_permutexvar_epi8(v, control, v, table);
    rare |= _mm512_mask_testn_epi8_mask(control, out, out);
    return (block){v, out, control | quote, rare};
}

/* The wide characters that start in the block at s, exactly; two bytes behind it can be
 * read. */
VBMI2 static inline uint64_t find_wide(const uint8_t *s, __m512i v) {
    __m512i second = _mm512_loadu_si512(s + 1);
    __m512i third = _mm512_loadu_si512(s + 2);
    __m512i top = _mm512_and_si512(second, _mm512_set1_epi8((char)0xe0));
    __m512i pair = _mm512_and_si512(third, _mm512_set1_epi8((char)0xfe));
    uint64_t c2 = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)0xc2)) &
                  _mm512_cmpeq_epi8_mask(top, _mm512_set1_epi8((char)0x80));
    uint64_t e2 = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)0xe2)) &
                  _mm512_cmpeq_epi8_mask(second, _mm512_set1_epi8((char)0x80)) &
                  _mm512_cmpeq_epi8_mask(pair, _mm512_set1_epi8((char)0xa8));
    return c2 | e2;
}

/* Writes the first n of the lower 32 letters. */
VBMI2 static inline uint8_t *put_letters(uint8_t *o, __m512i letters, uint32_t escaped,
                                         unsigned n) {
    /* Of pairs of bits, for the backslash and the letter, those that are wanted; then
     * which of these are letters. */
    uint64_t wanted = _pdep_u64(escaped, 0x5555555555555555u) | 0xaaaaaaaaaaaaaaaau;
    uint64_t letter = _pext_u64(0xaaaaaaaaaaaaaaaau, wanted);
    const __m512i backslashes = _mm512_set1_epi8('\\');
    _mm512_storeu_si512(o, _mm512_mask_expand_epi8(backslashes, letter, letters));
    return o + n + (unsigned)__builtin_popcount(escaped);
}

VBMI2 static inline uint8_t *put_spread(uint8_t *o, const block *b, unsigned n) {
    if (b->escaped == 0) {
        _mm512_storeu_si512(o, b->bytes);
        return o + n;
    }
    o = put_letters(o, b->letters, (uint32_t)b->escaped, n < 32 ? n : 32);
    if (n <= 32)
        return o;
    __m512i upper = _mm512_shuffle_i64x2(b->letters, b->letters, 0xee);
    return put_letters(o, upper, (uint32_t)(b->escaped >> 32), n - 32);
}

VBMI2 size_t hf_json_escape_vbmi2(uint8_t *out, const uint8_t *s, size_t n) {
    uint8_t *o = out;
    size_t i = 0;
    while (n - i >= REACH) {
        __builtin_prefetch(o + AHEAD, 1);
        block b = classify(_mm512_loadu_si512(s + i));
        uint64_t known = b.escaped & ~b.rare;
        if (b.rare != 0 && (known != b.escaped || find_wide(s + i, b.bytes) != 0 ||
                            _mm512_cmpeq_epi8_mask(b.bytes, _mm512_set1_epi8(0x7f)))) {
            _mm512_storeu_si512(o, b.bytes);
            i += put_block(&o, s + i, b.escaped | b.rare);
            continue;
        }
        o = put_spread(o, &b, BLOCK);
        i += BLOCK;
    }
    while (i < n) {
        unsigned left = n - i < BLOCK ? (unsigned)(n - i) : BLOCK;
        uint64_t there = UINT64_MAX >> (BLOCK - left);
        block b = classify(_mm512_maskz_loadu_epi8(there, s + i));
        b.escaped &= there;
        if ((b.rare & there) != 0)
            return (size_t)(o - out) + hf_json_escape_avx2(o, s + i, n - i);
        o = put_spread(o, &b, left);
        i += left;
    }
    return (size_t)(o - out);
}

size_t hf_json_escape(uint8_t *out, const uint8_t *s, size_t n) {
    if (n <= SHORT && copy_plain(out, s, n))
        return n;
    if (hf_cpu_has_vbmi2())
        return hf_json_escape_vbmi2(out, s, n);
    if (hf_cpu_has_avx2())
        return hf_json_escape_avx2(out, s, n);
    return hf_json_escape_sse2(out, s, n);
}

#elif defined(__aarch64__)

static inline uint8x16_t scan16(uint8_t *o, const uint8_t *s) {
    static const uint8_t low[16] = {LOW_NIBBLES};
    static const uint8_t high[16] = {HIGH_NIBBLES};
    uint8x16_t v = vld1q_u8(s);
    vst1q_u8(o, v);
    uint8x16_t a = vqtbl1q_u8(vld1q_u8(low), vandq_u8(v, vdupq_n_u8(0x0f)));
    uint8x16_t b = vqtbl1q_u8(vld1q_u8(high), vshrq_n_u8(v, 4));
    return vtstq_u8(a, b);
}

/* NEON has no movemask: keep one bit of each byte, then add neighbours thrice. */
static inline uint64_t scan_neon(uint8_t *o, const uint8_t *s) {
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                     1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bit = vld1q_u8(bits);
    uint8x16_t a = vandq_u8(scan16(o, s), bit);
    uint8x16_t b = vandq_u8(scan16(o + 16, s + 16), bit);
    uint8x16_t c = vandq_u8(scan16(o + 32, s + 32), bit);
    uint8x16_t d = vandq_u8(scan16(o + 48, s + 48), bit);
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    sum = vpaddq_u8(sum, sum);
    return vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0);
}

KERNEL(hf_json_escape_neon, , scan_neon)

size_t hf_json_escape(uint8_t *out, const uint8_t *s, size_t n) {
    return hf_json_escape_neon(out, s, n);
}

#else

size_t hf_json_escape(uint8_t *out, const uint8_t *s, size_t n) {
    return hf_json_escape_scalar(out, s, n);
}

#endif
