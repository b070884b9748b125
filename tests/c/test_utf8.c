#include "utf8.h"

#include "check.h"
#include "cpu.h"
#include "fence.h"

typedef int (*kernel)(const uint8_t *s, size_t n);

static kernel kernels[4];
static size_t kernel_count;
static fence in;

static void find_kernels(void) {
    kernels[kernel_count++] = hf_utf8_valid;
#if defined(__x86_64__)
    kernels[kernel_count++] = hf_utf8_valid_sse2;
    if (hf_cpu_has_avx2())
        kernels[kernel_count++] = hf_utf8_valid_avx2;
    if (hf_cpu_has_vbmi2())
        kernels[kernel_count++] = hf_utf8_valid_vbmi2;
#elif defined(__aarch64__)
    kernels[kernel_count++] = hf_utf8_valid_neon;
#endif
}

/* Bytes of the character at s, 0 for none: by decoding and then looking at the number,
 * which is another way than that of the code under test. */
static size_t reference(const uint8_t *s, size_t n) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xf8 ? 0 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc0 || len == 0 || n < len)
        return 0;
    uint32_t cp = s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        cp = cp << 6 | (s[i] & 0x3f);
    }
    int good = cp >= least[len] && cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
    return good ? len : 0;
}

static size_t reference_prefix(const uint8_t *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        size_t len = reference(s + i, n - i);
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

static int all_say(const uint8_t *s, size_t n, int want) {
    int good = 1;
    for (size_t k = 0; k < kernel_count; k++)
        good &= kernels[k](s, n) == want;
    return good && hf_utf8_valid_scalar(s, n) == want;
}

static void every_sequence_of_up_to_three_bytes_is_judged_right(void) {
    uint8_t s[3];
    int wrong = 0;
    for (uint32_t v = 0; v < 1u << 24; v++) {
        s[0] = (uint8_t)(v >> 16);
        s[1] = (uint8_t)(v >> 8);
        s[2] = (uint8_t)v;
        size_t n = s[0] == 0 ? 1 : s[1] == 0 ? 2 : 3;
        wrong += hf_utf8_valid_prefix(s, n) != reference_prefix(s, n);
    }
    CHECK_EQ(wrong, 0);
}

/* Every lead and second byte, and of the others those at the borders. */
static void every_border_of_four_bytes_is_judged_right_by_every_kernel(void) {
    static const uint8_t tails[] = {0x00, 0x7f, 0x80, 0x8f, 0x90,
                                    0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    enum { T = sizeof tails };
    uint8_t s[160];
    int wrong = 0;
    for (uint32_t lead = 0x80; lead < 0x100; lead++)
        for (uint32_t v = 0; v < 256 * T * T; v++) {
            size_t at = 60 + v % 8; /* around the end of a block */
            memset(s, 'a', sizeof s);
            s[at] = (uint8_t)lead;
            s[at + 1] = (uint8_t)(v / (T * T));
            s[at + 2] = tails[v / T % T];
            s[at + 3] = tails[v % T];
            int want = reference_prefix(s, sizeof s) == sizeof s;
            wrong += !all_say(s, sizeof s, want);
        }
    CHECK_EQ(wrong, 0);
}

static size_t random_text(uint8_t *s, size_t n, uint64_t *seed) {
    size_t len = 0;
    uint32_t kind = fence_random(seed) % 4; /* pages have one script, mostly */
    while (len + 4 <= n) {
        uint32_t r = fence_random(seed);
        uint32_t cp = r % 8 == 0 || kind == 0 ? 0x20 + r / 8 % 0x5f
                      : kind == 1             ? 0x400 + r / 8 % 0x100
                      : kind == 2             ? 0x3040 + r / 8 % 0x6000
                                              : 0x1f300 + r / 8 % 0x300;
        len += hf_utf8_put(s + len, cp);
    }
    while (len < n)
        s[len++] = '.';
    return len;
}

static void every_kernel_agrees_at_every_length_and_reads_no_further(void) {
    uint64_t seed = 3;
    uint8_t s[400];
    for (size_t n = 0; n <= 300; n++)
        for (int round = 0; round < 24; round++) {
            random_text(s, n, &seed);
            if (round % 3 != 0 && n > 0)
                s[fence_random(&seed) % n] = (uint8_t)fence_random(&seed);
            int want = reference_prefix(s, n) == n;
            memcpy(in.end - n, s, n);
            CHECK(all_say(in.end - n, n, want));
            memcpy(in.start, s, n);
            CHECK(all_say(in.start, n, want));
            CHECK_EQ(hf_utf8_valid_prefix(in.end - n, n), reference_prefix(s, n));
        }
}

static void text_that_ends_within_a_character_is_not_valid(void) {
    static const char *const cut[] = {"\xc3",         "\xe2\x82", "\xe2",
                                      "\xf0\x9f\x98", "\xf0\x9f", "\xf0"};
    uint8_t s[400];
    for (size_t c = 0; c < sizeof cut / sizeof cut[0]; c++)
        for (size_t at = 0; at < 300; at++) {
            size_t k = strlen(cut[c]);
            memset(s, 'a', at);
            memcpy(s + at, cut[c], k);
            CHECK(all_say(s, at + k, 0));
            CHECK_EQ(hf_utf8_valid_prefix(s, at + k), at);
            memset(s, 'b', 40); /* ends whole, in front of an unfinished one */
            memcpy(in.end - at - k, s, at + k);
            CHECK(all_say(in.end - at - k, at, 1));
        }
}

static void the_ascii_prefix_ends_at_the_first_other_byte(void) {
    uint8_t out[400];
    for (size_t n = 0; n <= 300; n++)
        for (size_t at = 0; at <= n; at += 1 + n / 50) {
            uint8_t *s = in.end - n;
            memset(s, 'a', n);
            if (at < n)
                s[at] = 0x80;
            CHECK_EQ(hf_utf8_ascii_prefix(s, n), at);
            CHECK_EQ(hf_utf8_copy_ascii(out, s, n), at);
            CHECK(memcmp(out, s, at) == 0);
        }
}

static void every_code_point_is_written_as_it_is_read(void) {
    uint8_t s[4];
    int wrong = 0;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xd800 && cp < 0xe000)
            continue;
        size_t n = hf_utf8_put(s, cp);
        wrong += reference(s, n) != n || !hf_utf8_valid_scalar(s, n);
    }
    CHECK_EQ(wrong, 0);
}

int main(void) {
    find_kernels();
    in = fence_new(400);
    RUN(every_sequence_of_up_to_three_bytes_is_judged_right);
    RUN(every_border_of_four_bytes_is_judged_right_by_every_kernel);
    RUN(every_kernel_agrees_at_every_length_and_reads_no_further);
    RUN(text_that_ends_within_a_character_is_not_valid);
    RUN(the_ascii_prefix_ends_at_the_first_other_byte);
    RUN(every_code_point_is_written_as_it_is_read);
    return check_result();
}
