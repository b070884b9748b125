/* Records: each is one line of strict JSON, whatever bytes came in, or nothing at all.
 */
#include "base64.h"
#include "fence.h"
#include "packed.h"
#include "record_head.h"
#include "ring_play.h"
#include "strict_json.h"

enum { RING = 1 << 16 };

static hf_config cfg;
static hf_settings settings;
static hf_encoder encoder;
static hf_ring ring;
static hf_response resp;
static packed frame;
static uint8_t got[1 << 24]; /* the record last taken out of the ring */
static size_t got_len;

static void configure(void) {
    hf_config_default(&cfg);
}

static void open_with(void) {
    make_settings(&settings, &cfg);
    REQUIRE(hf_encoder_init(&encoder, &settings) == 0);
    make(&ring, RING, 0);
    hf_response_init(&resp, cfg.max_headers, cfg.max_body);
}

static void close_all(void) {
    hf_response_free(&resp);
    hf_ring_free(&ring);
    hf_encoder_free(&encoder);
    hf_settings_free(&settings);
}

static void open_default(void) {
    configure();
    open_with();
}

static void take(void) {
    struct iovec seg[2];
    int n = hf_ring_peek(&ring, seg);
    got_len = 0;
    for (int i = 0; i < n; i++) {
        REQUIRE(got_len + seg[i].iov_len <= sizeof got);
        memcpy(got + got_len, seg[i].iov_base, seg[i].iov_len);
        got_len += seg[i].iov_len;
    }
    hf_ring_advance(&ring, got_len);
}

static int write_it(const hf_request *r, const hf_response *with, const char *proxy,
                    const char *impersonate) {
    hf_facts facts = {proxy, impersonate, r->accepted + 1500000};
    return hf_record_write(&encoder, &ring, r, with, &facts);
}

static int is_line(const uint8_t *p, size_t n) {
    int good = n > 1 && p[n - 1] == '\n' && json_object(p, n - 1);
    if (!good) {
        fprintf(stderr, "    not a line: %.*s\n", (int)(n < 2000 ? n : 2000), p);
    }
    return good;
}

/* Writes, takes out, and checks that it is one line of JSON. */
static int line_of(const hf_request *r, const hf_response *with) {
    REQUIRE(write_it(r, with, NULL, NULL) == 0);
    take();
    return is_line(got, got_len);
}

static int has(const char *path, const char *raw) {
    int good = json_has(got, got_len, path, raw);
    if (!good) {
        size_t n;
        const uint8_t *v = json_find(got, got_len, path, &n);
        fprintf(stderr, "    %s is %.*s, not %s\n", path, v ? (int)n : 6,
                v ? (const char *)v : "absent", raw);
    }
    return good;
}

static int has_field(const char *path) {
    size_t n;
    return json_find(got, got_len, path, &n) != NULL;
}

static hf_request *line(const char *text) {
    hf_request *r = hf_request_line(&settings, (const uint8_t *)text, strlen(text));
    REQUIRE(r);
    r->accepted = 1000000;
    r->first_start = 1200000;
    return r;
}

static void head(const char *text) {
    const char *p = text;
    while (*p != '\0') {
        const char *nl = strchr(p, '\n');
        size_t n = nl != NULL ? (size_t)(nl - p) + 1 : strlen(p);
        REQUIRE(hf_response_header(&resp, (const uint8_t *)p, n) == 0);
        p += n;
    }
}

static void body(const void *p, size_t n) {
    resp.body.len = 0;
    REQUIRE(hf_buf_append(&resp.body, p, n) == 0);
    resp.wire_size = n;
}

static void a_page_is_told_whole(void) {
    open_default();
    hf_request *r = line("http://Example.com/a#f");
    r->seq = 7;
    head("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nA: b\r\n\r\n");
    body("h\"\xc3\xa9\n", 5);
    memcpy(resp.remote_ip, "127.0.0.1", 10);
    resp.remote_port = 80;
    resp.dns = 0;
    resp.connect = 1500;
    hf_request_note_attempt(r, 200, 250000, NULL);
    CHECK(line_of(r, &resp));
    CHECK(has("schema", "1") && has("seq", "7") && has("id", "null"));
    CHECK(has("input", "\"http://Example.com/a#f\""));
    CHECK(has("url", "\"http://example.com/a#f\""));
    CHECK(has("status_code", "200") && has("http_version", "\"1.1\""));
    CHECK(has("method", "\"GET\"") && has("error", "null"));
    CHECK(has("headers",
              "[[\"Content-Type\",\"text/plain; charset=utf-8\"],[\"A\",\"b\"]]"));
    CHECK(has("body", "\"h\\\"\xc3\xa9\\n\"") && !has_field("body_base64"));
    CHECK(has("size", "5") && has("wire_size", "5") && has("decoded", "false"));
    CHECK(has("charset", "\"utf-8\"") && has("charset_source", "\"header\""));
    CHECK(has("timing.queue", "0.2") && has("timing.dns", "0.0"));
    CHECK(has("timing.connect", "0.0015") && has("timing.tls", "null"));
    CHECK(has("elapsed", "1.5") && has("limits.timeout", "10.0"));
    CHECK(has("limits.deadline", "null") && has("limits.overrun", "null"));
    CHECK(has("attempts", "[{\"n\":1,\"proxy\":null,\"status_code\":200,\"error\":null,"
                          "\"elapsed\":0.25,\"wait\":0.0}]"));
    CHECK(has("remote_ip", "\"127.0.0.1\"") && has("remote_port", "80"));
    CHECK(has("meta", "null") && has("truncated", "null") && has("redirects", "[]"));
    hf_request_free(r);
    close_all();
}

static void without_a_response_all_of_it_is_null(void) {
    open_default();
    hf_request *r = line("not a url \xff");
    r->first_start = 0;
    CHECK(line_of(r, NULL));
    CHECK(!has_field("input") && has("input_base64", "\"bm90IGEgdXJsIP8=\""));
    CHECK(has("url", "null") && has("final_url", "null") && has("status_code", "null"));
    CHECK(has("headers", "null") && has("size", "null") && has("charset", "null"));
    CHECK(has("timing.queue", "null") && has("timing.total", "null"));
    CHECK(has("error.type", "\"invalid_request\"") && has("error.origin", "\"local\""));
    CHECK(has("error.phase", "\"queue\"") && has("error.retryable", "false"));
    CHECK(has("error.curl_code", "null") && has("attempts", "[]"));
    CHECK(!has_field("body") && !has_field("body_base64"));
    hf_request_free(r);
    close_all();
}

static uint8_t hostile(uint64_t *random) {
    static const uint8_t nasty[] =
        "\"\\\0\x01\x1f\x7f\x80\xc0\xc3\xe2\xed\xf0\xff\r\t</>";
    uint32_t v = fence_random(random);
    return v % 3 == 0 ? (uint8_t)(v >> 8) : nasty[(v >> 8) % (sizeof nasty - 1)];
}

static size_t hostile_bytes(uint64_t *random, uint8_t *out, size_t most) {
    size_t n = fence_random(random) % (most + 1);
    for (size_t i = 0; i < n; i++) {
        out[i] = hostile(random);
    }
    return n;
}

static void hostile_head(uint64_t *random) {
    uint8_t bytes[300];
    head("HTTP/1.1 200 OK\r\n");
    for (uint32_t i = fence_random(random) % 20; i > 0; i--) {
        size_t n = hostile_bytes(random, bytes + 1, 290) + 1;
        bytes[0] = 'X'; /* never a blank line */
        if (fence_random(random) % 5 == 0) {
            memcpy(bytes, "Content-Type:", 13);
            n = n < 13 ? 13 : n;
        }
        bytes[n] = '\n';
        hf_response_header(&resp, bytes, n + 1);
    }
    head("\r\n");
}

static hf_request *hostile_request(uint64_t *random) {
    uint8_t bytes[400];
    int rc;
    packed_begin(&frame);
    if (fence_random(random) % 2 == 0) {
        memcpy(bytes, "http://u:p@h/", 13);
        packed_bytes(&frame, HF_TAG_URL, bytes,
                     13 + hostile_bytes(random, bytes + 13, 300));
    } else {
        packed_bytes(&frame, HF_TAG_INPUT, bytes, hostile_bytes(random, bytes, 400));
        packed_bytes(&frame, HF_TAG_INVALID, bytes, hostile_bytes(random, bytes, 400));
    }
    packed_bytes(&frame, HF_TAG_METHOD, bytes, hostile_bytes(random, bytes, 40));
    packed_text(&frame, HF_TAG_ID, "[1,{\"a\":null}]");
    hf_request *r = hf_request_unpack(&settings, frame.bytes + 4, frame.n - 4, &rc);
    REQUIRE(r);
    if (fence_random(random) % 2 == 0) {
        char proxy[64];
        size_t n = hostile_bytes(random, (uint8_t *)proxy, sizeof proxy - 1);
        proxy[n] = '\0';
        hf_request_note_attempt(r, (int)(fence_random(random) % 700), -5, proxy);
        hf_request_note_attempt(r, 0, INT64_MAX, NULL);
    }
    r->denied[hostile_bytes(random, (uint8_t *)r->denied, sizeof r->denied - 1)] = 0;
    return r;
}

static void hostile_rest(uint64_t *random) {
    uint8_t bytes[4000];
    body(bytes, hostile_bytes(random, bytes, sizeof bytes));
    for (uint32_t i = fence_random(random) % 4; i > 0; i--) {
        size_t n = hostile_bytes(random, bytes, 500);
        hf_response_hop(&resp, "http://h/\"", true, bytes, n);
    }
    resp.remote_port = (int32_t)(fence_random(random) % 65536);
    memcpy(resp.remote_ip, "\xff\"\n", 4);
}

static void any_bytes_make_one_line_of_strict_json(void) {
    uint64_t random = 20261129;
    static const int modes[] = {HF_BODY_AUTO, HF_BODY_TEXT, HF_BODY_BASE64,
                                HF_BODY_NONE};
    for (int m = 0; m < 4; m++) {
        configure();
        cfg.body_mode = modes[m];
        open_with();
        for (int i = 0; i < 1500; i++) {
            hf_request *r = hostile_request(&random);
            hostile_head(&random);
            hostile_rest(&random);
            int good = CHECK(line_of(r, i % 7 == 0 ? NULL : &resp));
            hf_request_free(r);
            hf_response_reset(&resp, 0);
            if (!good) {
                break;
            }
        }
        close_all();
    }
}

/* The same without libcurl's or our own checks in front: every single byte. */
static void each_byte_survives_in_headers_and_bodies(void) {
    open_default();
    hf_request *r = line("http://h/");
    for (int b = 0; b < 256; b++) {
        uint8_t field[] = {'X', ':', 'a', (uint8_t)b, 'z', '\n'};
        uint8_t text[] = {'a', (uint8_t)b, 'z'};
        head("HTTP/1.1 200 OK\r\n");
        hf_response_header(&resp, field, sizeof field);
        head("\r\n");
        body(text, sizeof text);
        CHECK(line_of(r, &resp));
        CHECK(has("size", "3"));
        CHECK(has_field("body") != has_field("body_base64"));
        hf_response_reset(&resp, 0);
    }
    hf_request_free(r);
    close_all();
}

static int mentions(const char *text) {
    return memmem(got, got_len, text, strlen(text)) != NULL;
}

static void passwords_are_never_told(void) {
    open_default();
    static const char *const lines[] = {
        "http://user:s3cret@h/",     "http://:s3cret@h/",
        "https://u:s3cret@h:99999/", "u:s3cret@h",
        "http://user:s3cret@/",      " http://a:s3cret@b "};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        hf_request *r = line(lines[i]);
        CHECK(line_of(r, NULL));
        if (!CHECK(!mentions("s3cret") && has_field("input"))) {
            fprintf(stderr, "    input: %s\n", lines[i]);
        }
        hf_request_free(r);
    }
    hf_request *r = line("http://user:s3cret@h/p");
    CHECK(line_of(r, NULL));
    CHECK(has("url", "\"http://h/p\"") && has("input", "\"http://user:***@h/p\""));
    hf_request_free(r);
    close_all();
}

static void only_the_wanted_fields_are_written(void) {
    static const char *const names[] = {"status_code", "seq", "body", NULL};
    configure();
    cfg.fields = names;
    open_with();
    hf_request *r = line("http://h/");
    head("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
    body("hi", 2);
    CHECK(line_of(r, &resp));
    static const char want[] = "{\"seq\":0,\"status_code\":200,\"body\":\"hi\"}\n";
    CHECK(got_len == sizeof want - 1 && memcmp(got, want, got_len) == 0);
    CHECK(line_of(r, NULL));
    close_all();
    hf_request_free(r);
}

static void each_field_alone_makes_a_line(void) {
    static const char *const all[] = {
#define NAME(name) #name,
        HF_FIELD_LIST(NAME)
#undef NAME
    };
    for (int f = 0; f < HF_F_COUNT; f++) {
        const char *names[] = {all[f], NULL};
        configure();
        cfg.fields = names;
        open_with();
        hf_request *r = line("http://h/");
        head("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
        body("hi", 2);
        CHECK(line_of(r, &resp));
        CHECK(has_field(all[f]));
        hf_request_free(r);
        close_all();
    }
    const char *unknown[] = {"nonsense", NULL};
    uint64_t mask;
    char text[128];
    CHECK_EQ(hf_record_fields(unknown, &mask, (hf_errbuf){text, sizeof text}),
             HF_EINVAL);
    CHECK(strstr(text, "nonsense") != NULL);
}

static size_t read_u32(const uint8_t *p) {
    return (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

static void a_frame_holds_the_line_and_the_bare_body(void) {
    configure();
    cfg.output = HF_OUTPUT_FRAMES;
    open_with();
    hf_request *r = line("http://h/");
    r->seq = ((uint64_t)1 << 32) + 77;
    head("HTTP/1.1 200 OK\r\n\r\n");
    static const size_t sizes[] = {0, 1, 5000, RING / 8, RING, 3 * RING};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *bytes = malloc(sizes[i] + 1);
        REQUIRE(bytes);
        memset(bytes, 0xfe, sizes[i]);
        body(bytes, sizes[i]);
        REQUIRE(write_it(r, &resp, NULL, NULL) == 0);
        take();
        REQUIRE(got_len > 24);
        size_t json = read_u32(got + 4);
        CHECK_EQ(read_u32(got), got_len - 4);
        CHECK_EQ(read_u32(got + 8), 77);
        CHECK_EQ(read_u32(got + 12), 1);
        CHECK_EQ(json, got_len - 24 - sizes[i]);
        CHECK(json_object(got + 24, json));
        CHECK(memcmp(got + 24 + json, bytes, sizes[i]) == 0);
        CHECK(!json_has(got + 24, json, "body", "\"\""));
        free(bytes);
    }
    hf_request_free(r);
    close_all();
}

/* One body under one Content-Type. */
typedef struct sample {
    const char *type;
    const char *text;
    size_t n;
} sample;

/* Writes the same answer as a line and as a frame, and checks that the line can be made
 * of the frame when all that it came from is gone. */
static int makes_its_line(const sample *s, int output, uint8_t *kept, size_t *kept_n) {
    char text[100];
    cfg.output = output;
    open_with();
    hf_request *r = line(s->n % 2 ? "http://h/" : "http://h/\xff,{[\"");
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n", s->type);
    head(text);
    head("A: ,\"[b\\{\\\"\r\n\r\n");
    body(s->text, s->n);
    REQUIRE(write_it(r, &resp, NULL, NULL) == 0);
    hf_request_free(r);
    take();
    close_all();
    if (output == HF_OUTPUT_LINES) {
        memcpy(kept, got, got_len);
        *kept_n = got_len;
        return 1;
    }
    hf_encoder bare;
    size_t json = read_u32(got + 4);
    uint64_t form = read_u32(got + 16) | (uint64_t)read_u32(got + 20) << 32;
    REQUIRE(hf_encoder_init(&bare, NULL) == 0);
    int rc = hf_record_line(&bare, got + 24, json, got + 24 + json, got_len - 24 - json,
                            form);
    int good = rc == 0 && bare.scratch.len == *kept_n &&
               memcmp(bare.scratch.data, kept, *kept_n) == 0;
    hf_encoder_free(&bare);
    return good;
}

static void a_frame_makes_the_line_that_would_have_been_written(void) {
    static char page[100000];
    static uint8_t kept[300000];
    for (size_t i = 0; i < sizeof page; i++) {
        page[i] = "a\xc3\xa9\n\""[i % 5];
    }
#define SAMPLE(type, text) \
    { type, text, sizeof(text) - 1 }
    const sample samples[] = {
        SAMPLE("text/html; charset=utf-8", ""),
        SAMPLE("text/html; charset=utf-8", "\xe4\xb8\xad\xe2\x80\xa8"),
        SAMPLE("text/html; charset=utf-8", "caf\xe9"),
        SAMPLE("text/html; charset=gbk", "\xd6\xd0"),
        SAMPLE("text/html; charset=gbk", "\xc3\xa9"),
        SAMPLE("text/html; charset=gbk", "\xff\xff"),
        SAMPLE("text/html", "\xef\xbb\xbf\xc3\xa9"),
        SAMPLE("text/html", "\xef\xbb\xbf"),
        SAMPLE("text/html", "\xff\xfe\x2d\x4e"),
        SAMPLE("text/html", "\xff\xfe\0\0a\0\0\0"),
        SAMPLE("text/html", "<meta charset=koi8-r>\xd6"),
        SAMPLE("text/plain", "caf\xc3\xa9 \xe2\x82"),
        SAMPLE("text/plain", "caf\xe9"),
        SAMPLE("text/plain", "a\0b"),
        SAMPLE("image/png", "abc"),
        {"text/html; charset=utf-8", page, sizeof page},
        {"text/html; charset=gb18030", page, sizeof page},
        {"image/png", page, sizeof page},
    };
#undef SAMPLE
    static const int modes[] = {HF_BODY_AUTO, HF_BODY_TEXT, HF_BODY_BASE64,
                                HF_BODY_NONE};
    /* The time of day is in none. */
    static const char *const most[] = {
        "schema",    "seq",     "id",   "input",  "url",      "final_url", "method",
        "headers",   "charset", "size", "timing", "attempts", "limits",    "error",
        "redirects", "elapsed", "meta", "body",   NULL};
    static const char *const body_alone[] = {"body", NULL};
    static const char *const without[] = {"input", "headers", "charset_source", NULL};
    static const char *const *const fields[] = {most, body_alone, without};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        for (size_t m = 0; m < 4 * 3; m++) {
            size_t n = 0;
            configure();
            cfg.body_mode = modes[m / 3];
            cfg.fields = fields[m % 3];
            cfg.headers = i % 2;
            CHECK(makes_its_line(&samples[i], HF_OUTPUT_LINES, kept, &n));
            CHECK(makes_its_line(&samples[i], HF_OUTPUT_FRAMES, kept, &n));
        }
    }
}

static void what_is_no_head_makes_no_line(void) {
    hf_encoder bare;
    REQUIRE(hf_encoder_init(&bare, NULL) == 0);
    CHECK_EQ(hf_record_line(&bare, (const uint8_t *)"{", 1, NULL, 0, 1), HF_EINVAL);
    CHECK_EQ(hf_record_line(&bare, NULL, 0, NULL, 0, 1), HF_EINVAL);
    CHECK_EQ(hf_record_line(&bare, (const uint8_t *)"{}", 2, NULL, 0, 1), 0);
    CHECK(bare.scratch.len == 3 && memcmp(bare.scratch.data, "{}\n", 3) == 0);
    /* Nor does any do harm, with any form. */
    static const char *const heads[] = {"{,",        "{\"}",    "{\"\\",
                                        "{,,\"a\"}", "{[[}]]]", "xx"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t n = strlen(heads[i]);
        uint8_t *copy = malloc(n);
        REQUIRE(copy);
        memcpy(copy, heads[i], n);
        for (int f = 0; f < 64; f++) {
            CHECK_EQ(hf_record_line(&bare, copy, n, NULL, 0, (uint64_t)1 << f), 0);
            CHECK_EQ(hf_record_line(&bare, copy, n, copy, n, UINT64_MAX << f), 0);
        }
        free(copy);
    }
    hf_encoder_free(&bare);
}

static void long_bodies_travel_by_reference_and_whole(void) {
    open_default();
    hf_request *r = line("http://h/");
    head("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
    for (size_t n = 1000; n < 4000000; n = n / 2 * 5) {
        uint8_t *bytes = malloc(n);
        REQUIRE(bytes);
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (uint8_t)("a\xc3\xa9\n\""[i % 5]); /* cut at every place */
        }
        body(bytes, n);
        CHECK(line_of(r, &resp));
        size_t len;
        CHECK(json_find(got, got_len, "body", &len) != NULL);
        CHECK_EQ(len, 2 + n + n / 5 * 2);
        free(bytes);
    }
    hf_request_free(r);
    close_all();
}

/* What is told of a body that is written in pieces, wherever these meet the ring's end.
 */
static void told_alike_at_each_place(const char *type, const char *path) {
    enum { LARGE = 1 << 20, LENGTH = 100000, MOST = 150000 };
    static uint8_t bytes[LENGTH];
    static uint8_t first[MOST];
    size_t n = 0;
    size_t first_n = 0;
    char text[100];
    open_default();
    hf_request *r = line("http://h/");
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n", type);
    head(text);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)("a\xc3\xa9\n\""[i % 5]);
    }
    body(bytes, sizeof bytes);
    for (size_t left = MOST; left > 2000; left -= 997) {
        hf_ring_free(&ring);
        make(&ring, LARGE, LARGE - left);
        CHECK(!hf_ring_by_ref(&ring, LENGTH + 20000));
        CHECK(line_of(r, &resp));
        const uint8_t *value = json_find(got, got_len, path, &n);
        REQUIRE(value && n < sizeof first);
        if (first_n == 0) {
            memcpy(first, value, n);
            first_n = n;
        }
        CHECK(n == first_n && memcmp(value, first, n) == 0);
    }
    hf_request_free(r);
    close_all();
}

static void bodies_are_written_in_pieces_that_cannot_be_told(void) {
    told_alike_at_each_place("text/html; charset=utf-8", "body");
    told_alike_at_each_place("image/png", "body_base64");
}

static void a_full_ring_gets_nothing_and_loses_nothing(void) {
    open_default();
    hf_request *r = line("http://h/");
    head("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
    static const size_t sizes[] = {10, 2000, RING / 2, 3 * RING};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *bytes = calloc(1, sizes[i]);
        REQUIRE(bytes);
        memset(bytes, 'x', sizes[i]);
        body(bytes, sizes[i]);
        int rc;
        int n = 0;
        while ((rc = write_it(r, &resp, NULL, NULL)) == 0) {
            n++;
        }
        uint64_t used = hf_ring_used(&ring);
        CHECK_EQ(rc, HF_EFULL);
        CHECK_EQ(write_it(r, &resp, NULL, NULL), HF_EFULL);
        CHECK_EQ(hf_ring_used(&ring), used);
        int lines = 0;
        for (take(); got_len > 0; take()) {
            for (size_t at = 0; at < got_len; lines++) {
                const uint8_t *nl = memchr(got + at, '\n', got_len - at);
                REQUIRE(nl != NULL);
                CHECK(is_line(got + at, (size_t)(nl - got) + 1 - at));
                at = (size_t)(nl - got) + 1;
            }
        }
        CHECK_EQ(lines, n);
        free(bytes);
    }
    hf_request_free(r);
    close_all();
}

/* The room that is asked for must hold the record, wherever the ring ends. */
static void a_record_never_leaves_its_room(void) {
    char longest[6001];
    memset(longest, '"', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    configure();
    cfg.impersonate = longest;
    cfg.method = longest;
    open_with();
    hf_request *r = line("http://h/");
    head("HTTP/1.1 200 OK\r\n\r\n");
    int wrong = 0;
    for (size_t left = 512; left < 3 * RING / 4; left += 256) {
        hf_ring_free(&ring);
        make(&ring, RING, RING - left);
        wrong += write_it(r, &resp, NULL, longest) != 0;
        take();
        wrong += !is_line(got, got_len);
    }
    CHECK_EQ(wrong, 0);
    hf_request_free(r);
    close_all();
}

/* Large heads are looked through for what they need: enough, whatever is in them. */
static void headers_take_the_room_that_was_asked_for(void) {
    uint64_t random = 20261130;
    uint8_t bytes[1000];
    open_default();
    hf_request *r = line("http://h/");
    hf_text none = {0};
    hf_facts facts = {NULL, NULL, r->accepted};
    int wrong = 0;
    for (int i = 0; i < 300; i++) {
        head("HTTP/1.1 200 OK\r\n");
        while (resp.head.len < fence_random(&random) % 20000) {
            size_t n = 1 + hostile_bytes(&random, bytes + 1, sizeof bytes - 2);
            bytes[0] = i % 3 == 0 ? ':' : 'X';
            n = i % 3 == 0 ? 1 : n; /* two bytes a line: the most pairs */
            bytes[n] = '\n';
            hf_response_header(&resp, bytes, n + 1);
        }
        size_t room = hf_record_head_room(&encoder, r, &resp, &facts);
        uint8_t *out = malloc(room);
        REQUIRE(out);
        hf_pen w = {&encoder, r, &resp, &facts, &none, out, false};
        hf_record_put_head(&w);
        wrong += (size_t)(w.p - out) > room;
        free(out);
        hf_response_reset(&resp, 0);
    }
    CHECK_EQ(wrong, 0);
    hf_request_free(r);
    close_all();
}

static void a_head_of_plain_text_asks_for_little_more_than_itself(void) {
    open_default();
    hf_request *r = line("http://h/");
    hf_facts facts = {NULL, NULL, r->accepted};
    head("HTTP/1.1 200 OK\r\n");
    while (resp.head.len < 250000) {
        head(
            "X-Some-Header: which is told as it came, for all of it is plain text\r\n");
    }
    CHECK(hf_record_head_room(&encoder, r, &resp, &facts) < resp.head.len / 2 * 3);
    settings.c.headers = 0;
    CHECK(hf_record_head_room(&encoder, r, &resp, &facts) < 20000);
    hf_request_free(r);
    close_all();
}

int main(void) {
    RUN(a_page_is_told_whole);
    RUN(without_a_response_all_of_it_is_null);
    RUN(any_bytes_make_one_line_of_strict_json);
    RUN(each_byte_survives_in_headers_and_bodies);
    RUN(passwords_are_never_told);
    RUN(only_the_wanted_fields_are_written);
    RUN(each_field_alone_makes_a_line);
    RUN(a_frame_holds_the_line_and_the_bare_body);
    RUN(a_frame_makes_the_line_that_would_have_been_written);
    RUN(what_is_no_head_makes_no_line);
    RUN(long_bodies_travel_by_reference_and_whole);
    RUN(bodies_are_written_in_pieces_that_cannot_be_told);
    RUN(a_full_ring_gets_nothing_and_loses_nothing);
    RUN(a_record_never_leaves_its_room);
    RUN(headers_take_the_room_that_was_asked_for);
    RUN(a_head_of_plain_text_asks_for_little_more_than_itself);
    return check_result();
}
