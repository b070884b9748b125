#include "escape.h"

#include "check.h"
#include "cpu.h"
#include "fence.h"
#include "utf8.h"

typedef size_t (*kernel)(uint8_t *out, const uint8_t *s, size_t n);

static kernel kernels[5];
static size_t kernel_count;

static void find_kernels(void) {
    kernels[kernel_count++] = hf_json_escape;
#if defined(__x86_64__)
    kernels[kernel_count++] = hf_json_escape_sse2;
    if (hf_cpu_has_avx2())
        kernels[kernel_count++] = hf_json_escape_avx2;
    if (hf_cpu_has_vbmi2())
        kernels[kernel_count++] = hf_json_escape_vbmi2;
#elif defined(__aarch64__)
    kernels[kernel_count++] = hf_json_escape_neon;
#endif
}

enum { MOST = 700 };

static fence in;
static fence out;
static uint8_t expected[6 * MOST + HF_JSON_SLACK];

/* Holds n bytes of s against the scalar kernel, in the tightest memory there is. */
static void agree(const uint8_t *s, size_t n) {
    size_t len = hf_json_escape_scalar(expected, s, n);
    for (size_t k = 0; k < kernel_count; k++) {
        memcpy(in.end - n, s, n);
        uint8_t *o = out.end - len - 64;
        size_t got = kernels[k](o, in.end - n, n);
        CHECK(got == len && memcmp(o, expected, len) == 0);
        memcpy(in.start, s, n);
        got = kernels[k](out.start, in.start, n);
        CHECK(got == len && memcmp(out.start, expected, len) == 0);
    }
}

/* Pieces from which every path is reached: plain, escaped, wide, and almost so. */
static size_t random_text(uint8_t *s, size_t n, uint64_t *seed, int broken) {
    static const char *const pieces[] = {
        "a",
        "<div class=",
        "\"",
        "\\",
        "\n",
        "\t",
        "\x01",
        "\x7f",
        "\xc2\x80",
        "\xc2\x9f",
        "\xc2\xa0",
        "\xc3\xa9",
        "\xe2\x80\xa8",
        "\xe2\x80\xa9",
        "\xe2\x80\xa7",
        "\xe2\x81\xa8",
        "\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "\xd0\x96",
        "plain text, ",
        "\xe3\x81\x82",
        "abcdefghijklmnopqrstuvwxyz0123456789",
        " ",
        "\r\n",
        "\x1f",
    };
    size_t len = 0;
    while (len < n) {
        const char *p = pieces[fence_random(seed) % (sizeof pieces / sizeof pieces[0])];
        size_t k = strlen(p);
        if (k > n - len) {
            s[len++] = ' ';
            continue;
        }
        memcpy(s + len, p, k);
        len += k;
    }
    for (int i = 0; broken && n > 0 && i < 4; i++)
        s[fence_random(seed) % n] = (uint8_t)fence_random(seed);
    return len;
}

static void every_kernel_agrees_with_the_scalar_one_at_every_length(void) {
    uint64_t seed = 1;
    uint8_t s[MOST];
    for (size_t n = 0; n <= 400; n++)
        for (int round = 0; round < 12; round++) {
            random_text(s, n, &seed, 0);
            agree(s, n);
        }
}

static void bytes_that_are_not_utf8_do_no_harm(void) {
    uint64_t seed = 2;
    uint8_t s[MOST];
    for (size_t n = 0; n <= 400; n++)
        for (int round = 0; round < 6; round++) {
            random_text(s, n, &seed, 1);
            agree(s, n);
        }
    for (size_t n = 0; n <= 300; n++) {
        for (size_t i = 0; i < n; i++)
            s[i] = (uint8_t)fence_random(&seed);
        agree(s, n);
    }
}

static void a_character_is_escaped_at_every_place_of_a_block(void) {
    static const char *const pieces[] = {
        "\"",           "\x7f", "\xc2\x85", "\xc2\xbf", "\xe2\x80\xa8",
        "\xe2\x80\xaa", "\xc2", "\xe2\x80", "\xe2",
    };
    uint8_t s[MOST];
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
        for (size_t at = 0; at < 270; at++)
            for (size_t after = 0; after < 140; after += 23) {
                size_t k = strlen(pieces[p]);
                memset(s, 'a', sizeof s);
                memcpy(s + at, pieces[p], k);
                agree(s, at + k + after);
            }
}

static void the_worst_case_fits_its_room(void) {
    uint8_t s[MOST];
    for (size_t n = 0; n <= 300; n++) {
        memset(s, 1, n);
        agree(s, n);
        CHECK_EQ(hf_json_escape_scalar(expected, s, n), 6 * n);
        CHECK(hf_json_room(n) >= 6 * n + 66);
    }
    CHECK(hf_json_room(SIZE_MAX / 6) == SIZE_MAX);
    CHECK(hf_json_room(SIZE_MAX) == SIZE_MAX);
}

static int escapes_to(const char *s, size_t n, const char *want) {
    uint8_t o[256];
    size_t len = hf_json_escape(o, (const uint8_t *)s, n);
    return len == strlen(want) && memcmp(o, want, len) == 0;
}

static void each_escape_has_the_form_that_is_promised(void) {
    CHECK(escapes_to("\"", 1, "\\\""));
    CHECK(escapes_to("\\", 1, "\\\\"));
    CHECK(escapes_to("/", 1, "/"));
    CHECK(escapes_to("\b\t\n\f\r", 5, "\\b\\t\\n\\f\\r"));
    CHECK(escapes_to("\0\x0b\x1b\x1f", 4, "\\u0000\\u000b\\u001b\\u001f"));
    CHECK(escapes_to("~\x7f", 2, "~\\u007f"));
    CHECK(escapes_to("\xc2\x80\xc2\x9f\xc2\xa0", 6, "\\u0080\\u009f\xc2\xa0"));
    CHECK(escapes_to("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", 12,
                     "\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa"));
    CHECK(escapes_to("\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80"));
    CHECK(escapes_to("", 0, ""));
}

static void checking_and_escaping_is_what_the_two_are(void) {
    enum { LONG = 20000 };
    static uint8_t s[LONG];
    static uint8_t got[6 * LONG + HF_JSON_SLACK];
    static uint8_t want[6 * LONG + HF_JSON_SLACK];
    /* Pieces end inside characters of each length, wherever these stand. */
    static const char *const units[] = {"\xd0\x96", "\xe3\x81\x82", "\xf0\x9f\x98\x80"};
    for (size_t u = 0; u < 3; u++)
        for (size_t shift = 0; shift < 4; shift++) {
            size_t k = strlen(units[u]);
            size_t n = shift;
            memset(s, 'x', shift);
            for (; n + k <= LONG; n += k)
                memcpy(s + n, units[u], k);
            size_t len = hf_json_escape_scalar(want, s, n);
            CHECK_EQ(hf_json_escape_utf8(got, s, n), len);
            CHECK(memcmp(got, want, len) == 0);
            CHECK_EQ(hf_json_escape_utf8(got, s, n - 1), -1);
            for (size_t at = 8180; at < 8200; at++) {
                uint8_t kept = s[at];
                s[at] = 0xff;
                CHECK_EQ(hf_json_escape_utf8(got, s, n), -1);
                s[at] = kept;
            }
        }
    CHECK_EQ(hf_json_escape_utf8(got, s, 0), 0);
}

static void a_byte_can_be_told_as_its_latin1_character(void) {
    uint8_t all[256];
    uint8_t o[6 * 256 + HF_JSON_SLACK];
    for (size_t i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    size_t len = hf_json_escape_latin1(o, all, 256);
    CHECK(hf_utf8_valid(o, len));
    /* The same text as if it had been UTF-8 to begin with. */
    uint8_t utf8[512];
    uint8_t want[sizeof o];
    size_t n = 0;
    for (uint32_t i = 0; i < 256; i++)
        n += hf_utf8_put(utf8 + n, i);
    CHECK_EQ(len, hf_json_escape(want, utf8, n));
    CHECK(memcmp(o, want, len) == 0);
}

int main(void) {
    find_kernels();
    in = fence_new(MOST);
    out = fence_new(sizeof expected);
    RUN(every_kernel_agrees_with_the_scalar_one_at_every_length);
    RUN(bytes_that_are_not_utf8_do_no_harm);
    RUN(a_character_is_escaped_at_every_place_of_a_block);
    RUN(the_worst_case_fits_its_room);
    RUN(each_escape_has_the_form_that_is_promised);
    RUN(checking_and_escaping_is_what_the_two_are);
    RUN(a_byte_can_be_told_as_its_latin1_character);
    return check_result();
}
