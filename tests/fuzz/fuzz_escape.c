/* Any bytes through every kernel of escape, utf8 and base64: all must agree, and none
 * may leave its memory.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Icsrc \
 *         tests/fuzz/fuzz_escape.c csrc/escape.c csrc/utf8.c csrc/base64.c csrc/cpu.c
 */
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "cpu.h"
#include "escape.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds)
        abort();
}

typedef size_t (*writer)(uint8_t *out, const uint8_t *s, size_t n);

static void same(writer a, writer b, const uint8_t *s, size_t n) {
    uint8_t *x = malloc(hf_json_room(n));
    uint8_t *y = malloc(hf_json_room(n));
    require(x != NULL && y != NULL);
    size_t len = a(x, s, n);
    require(b(y, s, n) == len && memcmp(x, y, len) == 0);
    free(x);
    free(y);
}

static void no_raw_controls(const uint8_t *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        require(s[i] >= 0x20 && s[i] != 0x7f);
}

static void check_latin1(const uint8_t *s, size_t n) {
    uint8_t *out = malloc(hf_json_room(n));
    require(out != NULL);
    size_t len = hf_json_escape_latin1(out, s, n);
    require(hf_utf8_valid(out, len));
    no_raw_controls(out, len);
    int64_t checked = hf_json_escape_utf8(out, s, n);
    require((checked >= 0) == hf_utf8_valid(s, n));
    if (checked >= 0) {
        require(hf_utf8_valid(out, (size_t)checked));
        no_raw_controls(out, (size_t)checked);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A copy of exactly this size, so that a read past it is seen. */
    uint8_t *s = malloc(size + (size == 0));
    require(s != NULL);
    memcpy(s, data, size);
    int valid = hf_utf8_valid_scalar(s, size);
    require(hf_utf8_valid(s, size) == valid);
    require((hf_utf8_valid_prefix(s, size) == size) == valid);
    same(hf_json_escape_scalar, hf_json_escape, s, size);
    same(hf_base64_encode_scalar, hf_base64_encode, s, size);
#if defined(__x86_64__)
    require(hf_utf8_valid_sse2(s, size) == valid);
    same(hf_json_escape_scalar, hf_json_escape_sse2, s, size);
    if (hf_cpu_has_avx2())
        require(hf_utf8_valid_avx2(s, size) == valid);
#endif
    check_latin1(s, size);
    free(s);
    return 0;
}
