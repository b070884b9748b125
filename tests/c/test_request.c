/* Requests from lines and packed frames: what is taken, what becomes an invalid request
 * with its sentence, what is refused as broken framing. */
#include "fence.h"
#include "packed.h"
#include "request.h"

static hf_settings settings;
static packed frame;

static hf_request *unpack(int *rc) {
    return hf_request_unpack(&settings, frame.bytes + 4, frame.n - 4, rc);
}

static hf_request *unpacked(void) {
    int rc = 1;
    hf_request *r = unpack(&rc);
    REQUIRE(r != NULL && rc == 0);
    return r;
}

static int slice_is(hf_slice s, const char *text) {
    return s.p != NULL && s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static hf_request *line(const char *text) {
    hf_request *r = hf_request_line(&settings, (const uint8_t *)text, strlen(text));
    REQUIRE(r != NULL);
    return r;
}

static int invalid_because(const hf_request *r, const char *part) {
    int good = hf_request_invalid(r) && r->outcome.type == HF_T_INVALID_REQUEST &&
               r->outcome.origin == HF_O_LOCAL && r->outcome.phase == HF_P_QUEUE &&
               strstr(r->outcome.message, part) != NULL;
    if (!good) {
        fprintf(stderr, "    message: \"%s\"\n", r->outcome.message);
    }
    return good;
}

/* Begins a frame whose only item is a good URL. */
static void begin(void) {
    packed_begin(&frame);
    packed_text(&frame, HF_TAG_URL, "http://h/");
}

static int frame_is_invalid_because(const char *part) {
    hf_request *r = unpacked();
    int good = invalid_because(r, part);
    hf_request_free(r);
    return good;
}

static void a_line_is_its_url_and_keeps_its_bytes(void) {
    hf_request *r = line("http://Example.com:80/a?b#c");
    CHECK(!hf_request_invalid(r));
    CHECK_TEXT(r->url.text, "http://example.com/a?b");
    CHECK_TEXT(r->url.hostport, "example.com:80");
    CHECK(slice_is(r->input, "http://Example.com:80/a?b#c"));
    CHECK_EQ(r->limits.soft, settings.limits.soft);
    CHECK(r->charge > sizeof *r && r->due.index == -1 && r->job_due == HF_NEVER);
    CHECK(hf_request_claim(r) && !hf_request_claim(r));
    hf_request_free(r);
    hf_request_free(NULL);
}

static void what_is_no_url_is_an_invalid_request(void) {
    static const char *const lines[] = {
        "", "h", "http://", "ftp://h", "http://h:0/", "http://h:99999/", "http:///x"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        hf_request *r = line(lines[i]);
        CHECK(hf_request_invalid(r) && r->outcome.type == HF_T_INVALID_REQUEST);
        CHECK(r->outcome.message[0] != '\0');
        hf_request_free(r);
    }
}

static void a_line_past_the_cap_keeps_four_kilobytes(void) {
    size_t n = (1 << 20) + 1;
    uint8_t *text = malloc(n);
    REQUIRE(text);
    memset(text, 'a', n);
    memcpy(text, "http://h/", 9);
    hf_request *r = hf_request_line(&settings, text, n);
    REQUIRE(r);
    CHECK_EQ(r->input.n, 4096);
    CHECK(invalid_because(r, "128 KiB"));
    CHECK(r->charge < 16384);
    hf_request_free(r);
    free(text);
}

static void a_packed_request_holds_what_was_given(void) {
    begin();
    packed_text(&frame, HF_TAG_ID, "\"x\"");
    packed_text(&frame, HF_TAG_META, "{\"a\":[1]}");
    packed_text(&frame, HF_TAG_METHOD, "PUT");
    packed_text(&frame, HF_TAG_HEADER, "A: 1");
    packed_text(&frame, HF_TAG_HEADER, "a: 2");
    packed_bytes(&frame, HF_TAG_BODY, "\0\1\2", 3);
    packed_text(&frame, HF_TAG_PROXY, "");
    packed_text(&frame, HF_TAG_SESSION, "s");
    packed_text(&frame, HF_TAG_IMPERSONATE, "chrome");
    packed_text(&frame, HF_TAG_HTTP_VERSION, "1.1");
    packed_i64(&frame, HF_TAG_CONNECT_TIMEOUT, 1);
    packed_i64(&frame, HF_TAG_FIRST_BYTE_TIMEOUT, 2);
    packed_i64(&frame, HF_TAG_IDLE_TIMEOUT, 3);
    packed_i64(&frame, HF_TAG_TIMEOUT, 4);
    packed_i64(&frame, HF_TAG_HARD_TIMEOUT, 5);
    packed_i64(&frame, HF_TAG_DEADLINE, 6);
    packed_bytes(&frame, HF_TAG_FRESH, NULL, 0);
    hf_request *r = unpacked();
    CHECK(!hf_request_invalid(r));
    CHECK(slice_is(r->input, "http://h/") && slice_is(r->id, "\"x\""));
    CHECK(slice_is(r->meta, "{\"a\":[1]}") && slice_is(r->method, "PUT"));
    CHECK_EQ(r->n_headers, 2);
    CHECK(slice_is(r->headers[0], "A: 1") && slice_is(r->headers[1], "a: 2"));
    CHECK(r->body.n == 3 && memcmp(r->body.p, "\0\1\2", 3) == 0);
    CHECK(r->proxy.p != NULL && r->proxy.n == 0);
    CHECK(slice_is(r->session, "s") && slice_is(r->impersonate, "chrome"));
    CHECK(slice_is(r->http_version, "1.1") && r->fresh);
    const hf_limits want = {1, 2, 3, 4, 5, 6};
    CHECK(memcmp(&r->limits, &want, sizeof want) == 0);
    hf_request_free(r);
}

static void a_soft_limit_moves_the_hard_one_along(void) {
    int64_t gap = settings.limits.hard - settings.limits.soft;
    begin();
    packed_i64(&frame, HF_TAG_TIMEOUT, 70000000);
    hf_request *r = unpacked();
    CHECK_EQ(r->limits.hard, 70000000 + gap);
    hf_request_free(r);
    begin();
    packed_i64(&frame, HF_TAG_HARD_TIMEOUT, 1000000);
    r = unpacked();
    CHECK_EQ(r->limits.soft, 1000000);
    CHECK(!hf_request_invalid(r));
    hf_request_free(r);
}

static void limits_that_make_no_sense_are_told(void) {
    static const struct {
        int tag;
        int64_t value;
        const char *part;
    } rows[] = {{HF_TAG_TIMEOUT, 0, "time limit"},
                {HF_TAG_TIMEOUT, -1, "time limit"},
                {HF_TAG_HARD_TIMEOUT, 0, "time limit"},
                {HF_TAG_CONNECT_TIMEOUT, -5, "time limit"},
                {HF_TAG_IDLE_TIMEOUT, INT64_MIN, "time limit"},
                {HF_TAG_DEADLINE, -1, "time limit"},
                /* Sums with the clock must not overflow. */
                {HF_TAG_TIMEOUT, INT64_MAX, "time limit"},
                {HF_TAG_TIMEOUT, INT64_MAX - 1, "time limit"},
                {HF_TAG_HARD_TIMEOUT, INT64_MAX, "time limit"},
                {HF_TAG_DEADLINE, INT64_MAX, "time limit"},
                {HF_TAG_FIRST_BYTE_TIMEOUT, INT64_MAX, "time limit"},
                {HF_TAG_IDLE_TIMEOUT, INT64_MAX, "time limit"},
                {HF_TAG_CONNECT_TIMEOUT, INT64_MAX, "time limit"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin();
        packed_i64(&frame, rows[i].tag, rows[i].value);
        CHECK(frame_is_invalid_because(rows[i].part));
    }
    begin();
    packed_i64(&frame, HF_TAG_TIMEOUT, 2000000);
    packed_i64(&frame, HF_TAG_HARD_TIMEOUT, 1000000);
    CHECK(frame_is_invalid_because("hard_timeout is below"));
}

static void what_the_wire_would_take_amiss_is_told(void) {
    static const struct {
        int tag;
        const char *value;
        size_t n;
        const char *part;
    } rows[] = {{HF_TAG_METHOD, "GE T", 4, "method"},
                {HF_TAG_METHOD, "", 0, "method"},
                {HF_TAG_METHOD, "GET\r\nX: y", 9, "method"},
                {HF_TAG_HEADER, "no colon", 8, "header"},
                {HF_TAG_HEADER, ": empty", 7, "header"},
                {HF_TAG_HEADER, "A: b\r\nC: d", 10, "header"},
                {HF_TAG_HEADER, "A: b\0c", 6, "header"},
                {HF_TAG_HEADER, "A b: c", 6, "header"},
                {HF_TAG_HEADER, "", 0, "header"},
                {HF_TAG_SESSION, "a\nb", 3, "session"},
                {HF_TAG_HTTP_VERSION, "1", 1, "http_version"},
                {HF_TAG_HTTP_VERSION, "2.0", 3, "http_version"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin();
        packed_bytes(&frame, rows[i].tag, rows[i].value, rows[i].n);
        if (!frame_is_invalid_because(rows[i].part)) {
            CHECK_TEXT("a row that was taken", rows[i].part);
        }
    }
    char session[300];
    memset(session, 's', sizeof session);
    begin();
    packed_bytes(&frame, HF_TAG_SESSION, session, 257);
    CHECK(frame_is_invalid_because("256"));
}

static void an_input_that_was_invalid_before_keeps_its_reason(void) {
    packed_begin(&frame);
    packed_text(&frame, HF_TAG_INPUT, "{\"ur\":1}");
    packed_text(&frame, HF_TAG_INVALID, "unknown key \"ur\"");
    hf_request *r = unpacked();
    CHECK(invalid_because(r, "unknown key \"ur\""));
    CHECK(slice_is(r->input, "{\"ur\":1}"));
    hf_request_free(r);
    packed_begin(&frame);
    CHECK(frame_is_invalid_because("url is missing"));
    char long_reason[1000];
    memset(long_reason, 'x', sizeof long_reason);
    packed_begin(&frame);
    packed_bytes(&frame, HF_TAG_INVALID, long_reason, sizeof long_reason);
    CHECK(frame_is_invalid_because("xxx"));
}

static void broken_framing_is_refused_whole(void) {
    begin();
    packed_text(&frame, HF_TAG_ID, "1");
    size_t whole = frame.n;
    int rc;
    for (size_t n = 5; n < whole; n++) {
        if (n == 4 + 5 + 9) {
            continue; /* the end of the first item */
        }
        frame.n = n;
        rc = 0;
        CHECK(unpack(&rc) == NULL);
        CHECK_EQ(rc, HF_EINVAL);
    }
    static const uint8_t tags[] = {0, HF_TAG_HOLD + 1, 99, 255};
    for (size_t i = 0; i < sizeof tags; i++) {
        begin();
        packed_text(&frame, tags[i], "x");
        rc = 0;
        CHECK(unpack(&rc) == NULL && rc == HF_EINVAL);
    }
    begin();
    packed_text(&frame, HF_TAG_TIMEOUT, "1234567");
    rc = 0;
    CHECK(unpack(&rc) == NULL && rc == HF_EINVAL);
    begin();
    packed_text(&frame, HF_TAG_ID, "1");
    memset(frame.bytes + frame.n - 5, 0xff, 4); /* a length past everything */
    CHECK(unpack(&rc) == NULL && rc == HF_EINVAL);
}

/* Random damage to a good frame, in memory that ends where the frame does. */
static void any_bytes_are_read_within_their_bounds(void) {
    uint64_t random = 4711;
    fence f = fence_new(4096);
    begin();
    packed_text(&frame, HF_TAG_HEADER, "A: 1");
    packed_text(&frame, HF_TAG_METHOD, "POST");
    packed_i64(&frame, HF_TAG_TIMEOUT, 1000000);
    packed_text(&frame, HF_TAG_INVALID, "no");
    packed_text(&frame, HF_TAG_BODY, "body");
    int made = 0;
    for (int i = 0; i < 20000; i++) {
        size_t n = frame.n - 4;
        n = fence_random(&random) % 4 == 0 ? fence_random(&random) % (n + 1) : n;
        uint8_t *p = f.end - n;
        memcpy(p, frame.bytes + 4, n);
        for (uint32_t k = fence_random(&random) % 4; n > 0 && k > 0; k--) {
            p[fence_random(&random) % n] = (uint8_t)fence_random(&random);
        }
        int rc = 1;
        hf_request *r = hf_request_unpack(&settings, p, n, &rc);
        CHECK_EQ(rc, r != NULL ? 0 : HF_EINVAL);
        made += r != NULL;
        hf_request_free(r);
    }
    CHECK(made > 1000);
}

static void attempts_are_listed_in_order_with_their_own_proxy(void) {
    hf_request *r = line("http://h/");
    char proxy[32];
    for (int i = 0; i < 5; i++) {
        snprintf(proxy, sizeof proxy, "http://p%d", i);
        r->wait = i * 10;
        hf_outcome_set(&r->outcome, HF_T_TIMEOUT, HF_P_BODY, HF_O_SITE, NULL);
        CHECK_EQ(hf_request_note_attempt(r, 500 + i, i, i == 2 ? NULL : proxy), 0);
    }
    CHECK_EQ(r->n_attempts, 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(r->attempts[i].status, 500 + i);
        CHECK_EQ(r->attempts[i].wait, i * 10);
        CHECK_EQ(r->attempts[i].type, HF_T_TIMEOUT);
        CHECK((r->attempts[i].proxy == NULL) == (i == 2));
    }
    CHECK_TEXT(r->attempts[4].proxy, "http://p4");
    hf_request_free(r);
}

static void the_method_follows_from_the_body(void) {
    hf_request *r = line("http://h/");
    CHECK(slice_is(hf_request_method(&settings, r), "GET"));
    hf_request_free(r);
    begin();
    packed_bytes(&frame, HF_TAG_BODY, NULL, 0);
    r = unpacked();
    CHECK(slice_is(hf_request_method(&settings, r), "POST"));
    hf_request_free(r);
    begin();
    packed_text(&frame, HF_TAG_BODY, "x");
    packed_text(&frame, HF_TAG_METHOD, "DELETE");
    r = unpacked();
    CHECK(slice_is(hf_request_method(&settings, r), "DELETE"));
    hf_request_free(r);
}

int main(void) {
    hf_config cfg;
    hf_config_default(&cfg);
    make_settings(&settings, &cfg);
    RUN(a_line_is_its_url_and_keeps_its_bytes);
    RUN(what_is_no_url_is_an_invalid_request);
    RUN(a_line_past_the_cap_keeps_four_kilobytes);
    RUN(a_packed_request_holds_what_was_given);
    RUN(a_soft_limit_moves_the_hard_one_along);
    RUN(limits_that_make_no_sense_are_told);
    RUN(what_the_wire_would_take_amiss_is_told);
    RUN(an_input_that_was_invalid_before_keeps_its_reason);
    RUN(broken_framing_is_refused_whole);
    RUN(any_bytes_are_read_within_their_bounds);
    RUN(attempts_are_listed_in_order_with_their_own_proxy);
    RUN(the_method_follows_from_the_body);
    hf_settings_free(&settings);
    return check_result();
}
