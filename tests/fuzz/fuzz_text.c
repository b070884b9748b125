/* Any Content-Type and any body through the decision on text. The first byte tells how
 * long the Content-Type is and, by its top bit, whether text is asked for.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Icsrc \
 *         tests/fuzz/fuzz_text.c csrc/text.c csrc/sniff.c csrc/charset*.c csrc/cjk*.c \
 *         csrc/utf8.c csrc/cpu.c csrc/buf.c
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds)
        abort();
}

static uint8_t *copy(const uint8_t *s, size_t n) {
    uint8_t *p = malloc(n + (n == 0));
    require(p != NULL);
    if (n > 0)
        memcpy(p, s, n);
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static hf_text_ctx *ctx;
    if (ctx == NULL)
        ctx = hf_text_new();
    if (size == 0 || ctx == NULL)
        return 0;
    size_t ct_len = data[0] & 0x7f;
    if (ct_len > size - 1)
        ct_len = size - 1;
    size_t n = size - 1 - ct_len;
    uint8_t *type = copy(data + 1, ct_len);
    uint8_t *body = copy(data + 1 + ct_len, n);
    hf_text t;
    require(hf_text_decide(ctx, body, n, type, ct_len, data[0] >> 7, &t) == 0);
    require((t.kind == HF_TEXT_NONE) == (n == 0));
    require((t.charset == NULL) == (t.source == HF_CHARSET_NULL));
    require((hf_text_source_name(t.source) == NULL) == (t.source == HF_CHARSET_NULL));
    if (t.kind == HF_TEXT_UTF8)
        require(t.charset != NULL && hf_utf8_valid(t.utf8, t.utf8_len));
    else
        require(t.utf8 == NULL && t.utf8_len == 0);
    hf_text name;
    require(hf_text_name(ctx, body, n, type, ct_len, data[0] >> 7, &name) == 0);
    require(name.source == t.source && (name.charset == NULL) == (t.charset == NULL));
    require(t.charset == NULL || strcmp(name.charset, t.charset) == 0);
    int text = t.kind == HF_TEXT_UTF8;
    uint8_t *utf8 = copy(text ? t.utf8 : NULL, t.utf8_len);
    size_t utf8_len = t.utf8_len;
    int kind = t.kind;
    require(hf_text_recall(ctx, hf_text_key(&name), body, n, &t) == 0);
    require(t.kind == kind && t.utf8_len == utf8_len);
    require(utf8_len == 0 || memcmp(t.utf8, utf8, utf8_len) == 0);
    free(utf8);
    free(type);
    free(body);
    return 0;
}
