#include "bodies.h"

static void a_cut_body_keeps_its_prefix_and_says_so(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < FORMATS; f++) {
        bytes body = encoded(&curl, formats[f].how, text, sizeof text);
        size_t cuts[] = {
            1,           2,          3,          5,         11, body.n / 100,
            body.n / 10, body.n / 2, body.n - 8, body.n - 1};
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            for (size_t piece = 1; piece <= 1 << 16; piece <<= 16) {
                CHECK_EQ(decode(d, formats[f].field, body.p, cuts[i], piece, &out),
                         HF_EBAD);
                if (hf_decoder_state(d)->raw) {
                    CHECK(same(&out, body.p, cuts[i]));
                    CHECK_EQ(hf_decoder_state(d)->decoded, 0);
                } else {
                    CHECK(is_prefix(&out) && out.len > 0);
                    CHECK_EQ(hf_decoder_state(d)->decoded, out.len);
                }
            }
            CHECK(i < 8 || out.len > sizeof text / 4);
        }
        CHECK_EQ(decode(d, formats[f].field, body.p, 0, 1, &out), 0);
        CHECK_EQ(out.len, 0);
        free(body.p);
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void a_plain_page_that_claims_an_encoding_comes_raw(void) {
    static const char *const fields[] = {"gzip", "deflate", "br",
                                         "zstd", "x-gzip",  "gzip, br"};
    static const size_t sizes[] = {1, 2, 5, 60, 5000, sizeof text};
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t piece = 1; piece <= 1 << 16; piece <<= 16) {
                CHECK_EQ(decode(d, fields[f], text, sizes[s], piece, &out), HF_EBAD);
                CHECK(same(&out, text, sizes[s]));
                CHECK(hf_decoder_state(d)->raw && hf_decoder_state(d)->decoded == 0);
            }
        }
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void only_bytes_under_the_cap_are_kept_raw(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(100);
    CHECK_EQ(start(d, "gzip"), 0);
    CHECK_EQ(hf_decoder_write(d, (uint8_t *)text, 60, &out), 0);
    CHECK_EQ(hf_decoder_write(d, (uint8_t *)text + 60, 60, &out), HF_EFULL);
    CHECK(out.len == 100 && is_prefix(&out) && hf_decoder_state(d)->size_hit);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void tokens_are_read_as_servers_write_them(void) {
    static const struct {
        const char *field;
        int stages;
        bool unknown;
    } cases[] = {{"", 0, false},
                 {"identity", 0, false},
                 {"none", 0, false},
                 {"utf-8", 0, true},
                 {"gzip, utf-8", 0, true},
                 {"GZIP", 1, false},
                 {" gzip , none", 1, false},
                 {"x-gzip", 1, false},
                 {",gzip,,", 1, false},
                 {"gzip\t", 1, false},
                 {"identity, gzip", 1, false},
                 {"Br,ZStd", 2, false},
                 {"gzip, gzip, gzip, gzip, gzip", 5, false},
                 {"gzipped", 0, true},
                 {"gz", 0, true},
                 {"gzip\0", 1, false}};
    hf_decoder *d = hf_decoder_new(&curl, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQ(start(d, cases[i].field), 0);
        CHECK_EQ(hf_decoder_state(d)->stages, cases[i].stages);
        CHECK(hf_decoder_state(d)->unknown == cases[i].unknown);
    }
    CHECK_EQ(hf_decoder_start(d, (const uint8_t *)"gzip\0", 5), 0);
    CHECK(hf_decoder_state(d)->unknown);
    hf_decoder_free(d);
}

static void an_unknown_encoding_passes_as_it_is(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    bytes body = encoded(&curl, "gzip", text, sizeof text);
    CHECK_EQ(decode(d, "gzip, foo", body.p, body.n, 1000, &out), 0);
    CHECK(same(&out, body.p, body.n));
    CHECK(hf_decoder_state(d)->unknown && !hf_decoder_state(d)->raw);
    CHECK_EQ(hf_decoder_state(d)->decoded, 0);
    CHECK_EQ(decode(d, "identity", body.p, body.n, 1000, &out), 0);
    CHECK(same(&out, body.p, body.n));
    free(body.p);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void stacked_encodings_are_undone_in_reverse(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    bytes a = encoded(&curl, "zlib", text, sizeof text);
    bytes b = encoded(&curl, "br", a.p, a.n);
    bytes c = encoded(&curl, "zstd", b.p, b.n);
    bytes e = encoded(&curl, "gzip", c.p, c.n);
    for (size_t piece = 1; piece <= 1 << 20; piece <<= 10) {
        CHECK_EQ(decode(d, "deflate, br, zstd, gzip", e.p, e.n, piece, &out), 0);
        CHECK(holds_text(&out));
    }
    CHECK_EQ(decode(d, "deflate, br, zstd, gzip", e.p, e.n - 1, 100, &out), HF_EBAD);
    CHECK(holds_text(&out));
    CHECK_EQ(decode(d, "deflate, br, zstd, gzip", e.p, e.n / 2, 100, &out), HF_EBAD);
    CHECK(is_prefix(&out));
    /* The outer layer is whole, the inner one cut. */
    bytes cut = encoded(&curl, "gzip", a.p, a.n / 2);
    CHECK_EQ(decode(d, "deflate, gzip", cut.p, cut.n, 100, &out), HF_EBAD);
    CHECK(is_prefix(&out) && out.len > 0);
    free(cut.p);
    free(a.p);
    free(b.p);
    free(c.p);
    free(e.p);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void a_chain_that_is_too_long_passes_raw_and_is_bad(void) {
    char field[800] = "gzip";
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int i = 1; i < 100; i++) {
        strncat(field, ", gzip", 7);
    }
    CHECK_EQ(start(d, "br, br, br, br, br, br"), HF_EFULL);
    CHECK_EQ(start(d, field), HF_EFULL);
    CHECK_EQ(hf_decoder_write(d, (uint8_t *)text, 100, &out), 0);
    CHECK_EQ(hf_decoder_finish(d, &out), HF_EBAD);
    CHECK(out.len == 100 && is_prefix(&out) && hf_decoder_state(d)->raw);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void a_body_of_just_the_cap_is_whole(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    for (int f = 0; f < FORMATS; f++) {
        bytes body = encoded(&curl, formats[f].how, text, sizeof text);
        for (size_t piece = 1; piece <= 1 << 20; piece <<= 20) {
            hf_buf out = hf_buf_make(sizeof text);
            CHECK_EQ(decode(d, formats[f].field, body.p, body.n, piece, &out), 0);
            CHECK(holds_text(&out));
            out.max = sizeof text - 1;
            hf_buf_free(&out);
            CHECK_EQ(decode(d, formats[f].field, body.p, body.n, piece, &out),
                     HF_EFULL);
            CHECK(is_prefix(&out) && out.len == sizeof text - 1);
            CHECK(hf_decoder_state(d)->size_hit && !hf_decoder_state(d)->ratio_hit);
            CHECK_EQ(hf_decoder_write(d, body.p, 1, &out), HF_EFULL);
            hf_buf_free(&out);
        }
        free(body.p);
    }
    hf_decoder_free(d);
}

/* 1 GiB of zeros in gzip: one flushed block over and over. */
static bytes gzip_bomb(void) {
    static char zeros[1 << 20];
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    bytes block = deflate_with(&curl, zeros, sizeof zeros, -15, 3);
    bytes out = {malloc(sizeof head + 1024 * block.n), sizeof head};
    memcpy(out.p, head, sizeof head);
    for (int i = 0; i < 1024; i++) {
        memcpy(out.p + out.n, block.p, block.n);
        out.n += block.n;
    }
    free(block.p);
    return out;
}

/* 1 GiB of zeros in zstd: blocks of one repeated byte, 128 KiB from 4 bytes. */
static bytes zstd_bomb(void) {
    static const uint8_t head[6] = {0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3};
    bytes out = {malloc(sizeof head + 8192 * 4), sizeof head};
    memcpy(out.p, head, sizeof head);
    for (int i = 0; i < 8192; i++) {
        unsigned block = 131072u << 3 | 1u << 1;
        uint8_t bytes4[4] = {(uint8_t)block, (uint8_t)(block >> 8),
                             (uint8_t)(block >> 16), 0};
        memcpy(out.p + out.n, bytes4, 4);
        out.n += 4;
    }
    return out;
}

static bytes brotli_bomb(void) {
    size_t n = 256u << 20;
    void *zeros = calloc(1, n);
    bytes out = brotli_of(&curl, zeros, n);
    free(zeros);
    out.p = realloc(out.p, out.n);
    return out;
}

static void bombs_stop_at_the_cap(void) {
    bytes bombs[] = {gzip_bomb(), zstd_bomb(), brotli_bomb()};
    static const char *const fields[] = {"gzip", "zstd", "br"};
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_decoder *strict = hf_decoder_new(&curl, 100);
    for (int i = 0; i < 3; i++) {
        hf_buf out = hf_buf_make(10 << 20);
        double began = cpu_now();
        CHECK_EQ(decode(d, fields[i], bombs[i].p, bombs[i].n, 16384, &out), HF_EFULL);
        CHECK(out.len == 10 << 20 && hf_decoder_state(d)->size_hit);
        CHECK_EQ(decode(strict, fields[i], bombs[i].p, bombs[i].n, 16384, &out),
                 HF_EFULL);
        CHECK(hf_decoder_state(strict)->ratio_hit &&
              !hf_decoder_state(strict)->size_hit);
        /* 100 times the first 16 KiB, or 1 MiB where all that came was less. */
        CHECK(out.len >= 1 << 20 && out.len <= (1638400 + 65536));
        CHECK(cpu_now() - began < 2.0);
        hf_buf_free(&out);
    }
    /* 64 MiB of empty members, packed again: the middle grows, the end puts out
     * nothing. */
    hf_buf out = hf_buf_make(1 << 20);
    bytes empties = {calloc(1, 64u << 20), 64u << 20};
    for (size_t i = 0; i + 20 <= empties.n; i += 20) {
        static const uint8_t empty[20] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3};
        memcpy(empties.p + i, empty, 20);
    }
    bytes outer = encoded(&curl, "gzip", empties.p, empties.n);
    CHECK_EQ(decode(d, "gzip, gzip", outer.p, outer.n, 16384, &out), HF_EFULL);
    CHECK(out.len == 0 && hf_decoder_state(d)->size_hit);
    free(outer.p);
    free(empties.p);
    hf_buf_free(&out);
    for (int i = 0; i < 3; i++) {
        free(bombs[i].p);
    }
    hf_decoder_free(strict);
    hf_decoder_free(d);
}

static void a_high_ratio_is_fine_below_a_mebibyte(void) {
    static char zeros[1 << 20];
    hf_decoder *d = hf_decoder_new(&curl, 10);
    hf_buf out = hf_buf_make(4 << 20);
    bytes body = encoded(&curl, "gzip", zeros, sizeof zeros);
    CHECK_EQ(decode(d, "gzip", body.p, body.n, 4096, &out), 0);
    CHECK_EQ(out.len, sizeof zeros);
    free(body.p);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void a_decoder_starts_clean_after_any_end(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < FORMATS * 4; f++) {
        const char *field = formats[f % FORMATS].field;
        bytes body = encoded(&curl, formats[f % FORMATS].how, text, sizeof text);
        CHECK_EQ(decode(d, field, text, 100, 100, &out), HF_EBAD);
        CHECK_EQ(decode(d, field, body.p, body.n / 2, 100, &out), HF_EBAD);
        CHECK_EQ(decode(d, field, body.p, body.n, 4096, &out), 0);
        CHECK(holds_text(&out));
        free(body.p);
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void what_stood_in_the_output_before_stays(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    CHECK_EQ(hf_buf_append(&out, "head", 4), 0);
    CHECK_EQ(start(d, "br"), 0);
    CHECK_EQ(hf_decoder_write(d, (uint8_t *)text, 5000, &out), 0);
    CHECK_EQ(hf_decoder_finish(d, &out), HF_EBAD);
    CHECK(out.len == 5004 && memcmp(out.data, "head", 4) == 0 &&
          memcmp(out.data + 4, text, 5000) == 0);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void without_decoders_everything_passes(void) {
    static hf_curl bare;
    bare = curl;
    bare.decodes = false;
    hf_decoder *d = hf_decoder_new(&bare, 0);
    hf_buf out = hf_buf_make(1 << 20);
    CHECK_EQ(decode(d, "gzip", text, sizeof text, 1000, &out), 0);
    CHECK(holds_text(&out) && hf_decoder_state(d)->stages == 0);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void spare_decoders_are_used_again_and_freed_when_nobody_needs_them(void) {
    hf_decoders pool = {0};
    hf_decoder *d[HF_SPARE_DECODERS + 1];
    for (int i = 0; i <= HF_SPARE_DECODERS; i++) {
        d[i] = hf_decoders_take(&pool, &curl, 0);
        REQUIRE(d[i]);
    }
    for (int i = HF_SPARE_DECODERS; i >= 0; i--) {
        hf_decoders_give(&pool, d[i]); /* the last one is too much */
    }
    CHECK_EQ(pool.n, HF_SPARE_DECODERS);
    hf_buf out = hf_buf_make(1 << 20);
    for (int i = 0; i < 2 * HF_LULL_ROUND; i++) {
        hf_decoder *one = hf_decoders_take(&pool, &curl, 0);
        CHECK_EQ(decode(one, "gzip", text, sizeof text, 1000, &out), HF_EBAD);
        hf_decoders_give(&pool, one);
    }
    CHECK_EQ(pool.n, 1);
    hf_decoders_free(&pool);
    CHECK_EQ(pool.n, 0);
    hf_buf_free(&out);
}

int main(void) {
    load_libcurl(&curl);
    make_text();
    RUN(a_cut_body_keeps_its_prefix_and_says_so);
    RUN(a_plain_page_that_claims_an_encoding_comes_raw);
    RUN(only_bytes_under_the_cap_are_kept_raw);
    RUN(tokens_are_read_as_servers_write_them);
    RUN(an_unknown_encoding_passes_as_it_is);
    RUN(stacked_encodings_are_undone_in_reverse);
    RUN(a_chain_that_is_too_long_passes_raw_and_is_bad);
    RUN(a_body_of_just_the_cap_is_whole);
    RUN(bombs_stop_at_the_cap);
    RUN(a_high_ratio_is_fine_below_a_mebibyte);
    RUN(a_decoder_starts_clean_after_any_end);
    RUN(what_stood_in_the_output_before_stays);
    RUN(without_decoders_everything_passes);
    RUN(spare_decoders_are_used_again_and_freed_when_nobody_needs_them);
    return check_result();
}
