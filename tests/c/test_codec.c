#include "bodies.h"

static void every_format_decodes_in_pieces_of_any_size(void) {
    static const size_t pieces[] = {1, 2, 3, 7, 1000, 16384, 1 << 20};
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < FORMATS; f++) {
        bytes body = encoded(&curl, formats[f].how, text, sizeof text);
        for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
            CHECK_EQ(decode(d, formats[f].field, body.p, body.n, pieces[i], &out), 0);
            CHECK(holds_text(&out));
            CHECK_EQ(hf_decoder_state(d)->wire, body.n);
            CHECK_EQ(hf_decoder_state(d)->decoded, sizeof text);
            CHECK(!hf_decoder_state(d)->raw && !hf_decoder_state(d)->trailing);
        }
        free(body.p);
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void a_cut_trailer_still_gives_the_whole_text(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    bytes body = encoded(&curl, "gzip", text, sizeof text);
    for (size_t cut = 1; cut <= 8; cut++) {
        CHECK_EQ(decode(d, "gzip", body.p, body.n - cut, 4096, &out), HF_EBAD);
        CHECK(holds_text(&out));
    }
    body.p[body.n - 6] ^= 1; /* the checksum */
    CHECK_EQ(decode(d, "gzip", body.p, body.n, 4096, &out), HF_EBAD);
    CHECK(holds_text(&out));
    free(body.p);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void a_corrupt_body_ends_at_once_with_its_prefix(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < 2; f++) { /* those with a checksum */
        bytes body = encoded(&curl, formats[f].how, text, sizeof text);
        memset(body.p + body.n / 2, 0xff, 64);
        int rc = decode(d, formats[f].field, body.p, body.n, 1024, &out);
        CHECK_EQ(rc, HF_EBAD);
        CHECK(!hf_decoder_state(d)->raw && out.len > 0);
        CHECK_EQ(hf_decoder_write(d, body.p, 1, &out), HF_EBAD);
        free(body.p);
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

/* Joins two or three pieces. */
static bytes joined(bytes a, bytes b) {
    bytes out = {malloc(a.n + b.n), a.n + b.n};
    memcpy(out.p, a.p, a.n);
    memcpy(out.p + a.n, b.p, b.n);
    return out;
}

static void members_and_frames_are_joined(void) {
    static const char *const hows[] = {"gzip", "zstd"};
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < 2; f++) {
        bytes a = encoded(&curl, hows[f], text, 70000);
        bytes none = encoded(&curl, hows[f], text, 0);
        bytes b = encoded(&curl, hows[f], text + 70000, sizeof text - 70000);
        bytes first = joined(a, none);
        bytes all = joined(first, b);
        for (size_t piece = 1; piece <= 1 << 20; piece <<= 10) {
            CHECK_EQ(decode(d, hows[f], all.p, all.n, piece, &out), 0);
            CHECK(holds_text(&out) && !hf_decoder_state(d)->trailing);
        }
        for (size_t more = 1; more < 30; more++) {
            CHECK_EQ(decode(d, hows[f], all.p, first.n + more, 7, &out), HF_EBAD);
            CHECK(is_prefix(&out) && out.len >= 70000);
        }
        free(a.p);
        free(b.p);
        free(none.p);
        free(first.p);
        free(all.p);
    }
    static const uint8_t skippable[] = {0x5a, 0x2a, 0x4d, 0x18, 3,  0,
                                        0,    0,    'a',  'b',  'c'};
    bytes frame = encoded(&curl, "zstd", text, sizeof text);
    bytes skip = {(uint8_t *)(uintptr_t)skippable, sizeof skippable};
    bytes before = joined(skip, frame);
    bytes both = joined(before, skip);
    CHECK_EQ(decode(d, "zstd", both.p, both.n, 1, &out), 0);
    CHECK(holds_text(&out) && !hf_decoder_state(d)->trailing);
    free(frame.p);
    free(before.p);
    free(both.p);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void junk_behind_the_end_is_passed_over(void) {
    char junk[100];
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < FORMATS; f++) {
        for (int zero = 0; zero < 2; zero++) {
            memset(junk, zero ? 0 : 'J', sizeof junk);
            bytes a = encoded(&curl, formats[f].how, text, sizeof text);
            bytes b = {(uint8_t *)junk, sizeof junk};
            bytes all = joined(a, b);
            for (size_t piece = 1; piece <= 1 << 20; piece <<= 10) {
                CHECK_EQ(decode(d, formats[f].field, all.p, all.n, piece, &out), 0);
                CHECK(holds_text(&out) && hf_decoder_state(d)->trailing);
            }
            free(a.p);
            free(all.p);
        }
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void deflate_may_be_gzip_after_all(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    bytes body = encoded(&curl, "gzip", text, sizeof text);
    CHECK_EQ(decode(d, "deflate", body.p, body.n, 1, &out), 0);
    CHECK(holds_text(&out));
    free(body.p);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

/* A zstd frame that wants a window of 128 MiB. */
static void a_giant_zstd_window_is_refused(void) {
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0,  17 << 3,
                                    0x11, 0,    0,    0xff, 'a'};
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    CHECK_EQ(decode(d, "zstd", frame, sizeof frame, 100, &out), HF_EBAD);
    CHECK(hf_decoder_state(d)->raw);
    hf_buf_free(&out);
    hf_decoder_free(d);
}

/* libzstd may be built to read the formats of its drafts; no server sends them. */
static void a_zstd_draft_is_refused(void) {
    hf_decoder *d = hf_decoder_new(&curl, 0);
    hf_buf out = hf_buf_make(1 << 20);
    for (int version = 0x1e; version <= 0x27; version++) {
        uint8_t frame[64] = {(uint8_t)version, 0xb5, 0x2f, 0xfd, 4};
        CHECK_EQ(decode(d, "zstd", frame, sizeof frame, 100, &out), HF_EBAD);
        CHECK(hf_decoder_state(d)->raw && same(&out, frame, sizeof frame));
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

static void speed(void) {
    hf_decoder *d = hf_decoder_new(&curl, 1000);
    hf_buf out = hf_buf_make(1 << 20);
    for (int f = 0; f < FORMATS; f++) {
        for (size_t n = 1000; n <= 30000; n *= 30) {
            bytes body = encoded(&curl, formats[f].how, text, n);
            double began = cpu_now();
            for (int i = 0; i < 5000; i++) {
                CHECK_EQ(decode(d, formats[f].field, body.p, body.n, 16384, &out), 0);
            }
            fprintf(stderr, "%-5s %6zu of %6zu bytes: %.2f us\n", formats[f].how,
                    body.n, n, (cpu_now() - began) * 200);
            free(body.p);
        }
    }
    hf_buf_free(&out);
    hf_decoder_free(d);
}

int main(int argc, char **argv) {
    load_libcurl(&curl);
    make_text();
    if (argc > 1 && strcmp(argv[1], "speed") == 0) {
        speed();
        return check_result();
    }
    RUN(every_format_decodes_in_pieces_of_any_size);
    RUN(a_cut_trailer_still_gives_the_whole_text);
    RUN(a_corrupt_body_ends_at_once_with_its_prefix);
    RUN(members_and_frames_are_joined);
    RUN(junk_behind_the_end_is_passed_over);
    RUN(deflate_may_be_gzip_after_all);
    RUN(a_giant_zstd_window_is_refused);
    RUN(a_zstd_draft_is_refused);
    return check_result();
}
