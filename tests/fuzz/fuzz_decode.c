/* Content decoding of any bytes under any encoding, in pieces of any size. The caps
 * must hold, and a body that decodes must give the same in one piece. The first three
 * bytes choose. Builds and runs as fuzz_url.c does. */
#include "../c/libcurl.h"
#include "decode.h"

static hf_curl curl;
static hf_decoder *whole;
static hf_decoder *pieces;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    load_libcurl(&curl);
    whole = hf_decoder_new(&curl, 0);
    pieces = hf_decoder_new(&curl, 0);
    return 0;
}

static int decode(hf_decoder *d, const char *field, const uint8_t *p, size_t n,
                  size_t piece, hf_buf *out) {
    int rc = hf_decoder_start(d, (const uint8_t *)field, strlen(field));
    for (size_t i = 0; rc == 0 && i < n; i += piece) {
        rc = hf_decoder_write(d, p + i, n - i < piece ? n - i : piece, out);
        REQUIRE(out->len <= out->max);
    }
    rc = hf_decoder_finish(d, out);
    const hf_decode_state *s = hf_decoder_state(d);
    REQUIRE(!s->raw || s->decoded == 0);
    REQUIRE(s->raw || s->stages == 0 || s->decoded == out->len);
    REQUIRE(rc != HF_EFULL || s->size_hit || s->ratio_hit);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const fields[] = {
        "gzip",       "deflate",        "br",  "zstd", "gzip, gzip", "deflate, gzip",
        "zstd, gzip", "gzip, br, zstd", "foo", "",     "br, deflate"};
    if (n < 3) {
        return 0;
    }
    const char *field = fields[data[0] % (sizeof fields / sizeof fields[0])];
    size_t piece = 1 + data[1] % 64;
    hf_buf a = hf_buf_make((size_t)64 << data[2] % 12);
    hf_buf b = hf_buf_make(a.max);
    int rc = decode(whole, field, data + 3, n - 3, n, &a);
    int rc_pieces = decode(pieces, field, data + 3, n - 3, piece, &b);
    if (rc == 0 || rc_pieces == 0) {
        REQUIRE(rc == rc_pieces && a.len == b.len);
        REQUIRE(a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
    }
    hf_buf_free(&a);
    hf_buf_free(&b);
    return 0;
}
