/* SHA-256 against the standard's examples, and in pieces against the whole. */
#include "check.h"
#include "sha256.h"

static void hex(const void *p, size_t n, char out[65]) {
    uint8_t sum[HF_SHA256_BYTES];
    hf_sha256 s;
    hf_sha256_init(&s);
    hf_sha256_add(&s, p, n);
    hf_sha256_end(&s, sum);
    for (int i = 0; i < HF_SHA256_BYTES; i++) {
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    }
}

/* FIPS 180-4's examples (NIST, "SHA256.pdf") and the empty message. */
static void examples_come_out_as_published(void) {
    static const struct {
        const char *text;
        const char *sum;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char got[65];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hex(rows[i].text, strlen(rows[i].text), got);
        CHECK(strcmp(got, rows[i].sum) == 0);
    }
    static char million[1000000];
    memset(million, 'a', sizeof million);
    hex(million, sizeof million, got);
    CHECK(strcmp(got, "cdc76e5c9914fb9281a1c7e284d73e67"
                      "f1809a48a497200e046d39ccc7112cd0") == 0);
}

static void pieces_of_any_size_make_the_same(void) {
    uint8_t bytes[200];
    for (int i = 0; i < 200; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint8_t whole[HF_SHA256_BYTES];
        uint8_t parts[HF_SHA256_BYTES];
        hf_sha256 s;
        hf_sha256_init(&s);
        hf_sha256_add(&s, bytes, n);
        hf_sha256_end(&s, whole);
        hf_sha256_init(&s);
        for (size_t at = 0; at < n; at += 1 + n % 17) {
            size_t left = n - at;
            hf_sha256_add(&s, bytes + at, left < 1 + n % 17 ? left : 1 + n % 17);
        }
        hf_sha256_end(&s, parts);
        CHECK(memcmp(whole, parts, sizeof whole) == 0);
    }
}

int main(void) {
    RUN(examples_come_out_as_published);
    RUN(pieces_of_any_size_make_the_same);
    return check_result();
}
