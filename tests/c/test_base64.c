#include "base64.h"

#include "check.h"
#include "cpu.h"
#include "fence.h"

typedef size_t (*kernel)(uint8_t *out, const uint8_t *s, size_t n);

static kernel kernels[3];
static size_t kernel_count;

static void find_kernels(void) {
    kernels[kernel_count++] = hf_base64_encode;
    kernels[kernel_count++] = hf_base64_encode_scalar;
#if defined(__x86_64__)
    if (hf_cpu_has_avx2())
        kernels[kernel_count++] = hf_base64_encode_avx2;
#elif defined(__aarch64__)
    kernels[kernel_count++] = hf_base64_encode_neon;
#endif
}

static void the_vectors_of_rfc_4648_come_out(void) {
    static const char *const want[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                       "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t k = 0; k < kernel_count; k++)
        for (size_t n = 0; n <= 6; n++) {
            uint8_t o[8];
            size_t len = kernels[k](o, (const uint8_t *)"foobar", n);
            CHECK_EQ(len, strlen(want[n]));
            CHECK(memcmp(o, want[n], len) == 0);
        }
}

/* Six bits at a time, from the text of the RFC. */
static void reference(uint8_t *out, const uint8_t *s, size_t n) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    memset(out, '=', hf_base64_size(n));
    for (size_t bit = 0; bit < 8 * n; bit += 6) {
        unsigned six = 0;
        for (size_t b = bit; b < bit + 6; b++)
            six = six << 1 | (b < 8 * n ? (unsigned)s[b / 8] >> (7 - b % 8) & 1 : 0);
        out[bit / 6] = (uint8_t)letters[six];
    }
}

static void every_kernel_encodes_every_length_and_touches_nothing_else(void) {
    fence in = fence_new(400);
    fence out = fence_new(600);
    uint8_t want[600];
    uint64_t seed = 4;
    for (size_t n = 0; n <= 300; n++) {
        uint8_t *s = in.end - n;
        size_t len = hf_base64_size(n);
        for (size_t i = 0; i < n; i++)
            s[i] = (uint8_t)fence_random(&seed);
        reference(want, s, n);
        memcpy(in.start, s, n);
        for (size_t k = 0; k < kernel_count; k++) {
            CHECK_EQ(kernels[k](out.end - len, s, n), len);
            CHECK(memcmp(out.end - len, want, len) == 0);
            memset(out.start, 0, 600);
            CHECK_EQ(kernels[k](out.start, in.start, n), len);
            CHECK(memcmp(out.start, want, len) == 0 && out.start[len] == 0);
        }
    }
}

/* All 64 values at every place of a vector. */
static void every_letter_is_right_at_every_place(void) {
    uint8_t s[96];
    uint8_t want[128];
    uint8_t got[128];
    for (unsigned v = 0; v < 64; v++)
        for (size_t at = 0; at < 768; at += 6) {
            memset(s, 0, sizeof s);
            for (size_t b = 0; b < 6; b++)
                s[(at + b) / 8] |= (uint8_t)((v >> (5 - b) & 1u) << (7 - (at + b) % 8));
            reference(want, s, sizeof s);
            for (size_t k = 0; k < kernel_count; k++) {
                kernels[k](got, s, sizeof s);
                CHECK(memcmp(got, want, sizeof want) == 0);
            }
        }
}

int main(void) {
    find_kernels();
    RUN(the_vectors_of_rfc_4648_come_out);
    RUN(every_kernel_encodes_every_length_and_touches_nothing_else);
    RUN(every_letter_is_right_at_every_place);
    return check_result();
}
