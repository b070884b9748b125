#include "resume.h"

#include "check.h"
#include "libcurl.h"
#include "record.h"

static char why[256];

static int records(hf_resume *r, const char *text, size_t *used) {
    return hf_resume_records(r, (const uint8_t *)text, strlen(text), used, why,
                             sizeof why);
}

static int lines(hf_resume *r, const char *text) {
    size_t used;
    return hf_resume_lines(r, (const uint8_t *)text, strlen(text), &used);
}

#define RECORD(seq, input) \
    "{\"schema\":1,\"seq\":" seq ",\"id\":null,\"input\":\"" input "\",\"x\":1}\n"

static void records_tell_what_is_answered(void) {
    hf_resume *r = hf_resume_new();
    size_t used;
    uint8_t map[2] = {0xff, 0xff};
    REQUIRE(r != NULL);
    CHECK_EQ(records(r, RECORD("9", "b") RECORD("0", "a") "{\"schema\":1,\"se", &used),
             0);
    CHECK_EQ(used, strlen(RECORD("9", "b") RECORD("0", "a")));
    CHECK_EQ(hf_resume_count(r), 2);
    CHECK_EQ(hf_resume_end(r), 10);
    hf_resume_bitmap(r, map);
    CHECK_EQ(map[0], 1);
    CHECK_EQ(map[1], 2);
    hf_resume_free(r);
}

static void the_same_inputs_pass_and_others_do_not(void) {
    static const struct {
        const char *inputs;
        int rc;
    } cases[] = {
        {"http://a/\nhttp://b/\nhttp://c/\n", 0},
        {" # no\n\n\thttp://a/ \r\n# c\nhttp://x/\nhttp://c/\nmore\n", 0},
        {"http://a/\nhttp://b/\nhttp://C/\n", HF_EINVAL},
        {"http://c/\nhttp://b/\nhttp://a/\n", HF_EINVAL},
        {"http://b/\nhttp://c/\n", HF_EINVAL},
        {"new\nhttp://a/\nhttp://b/\nhttp://c/\n", HF_EINVAL},
        {"", HF_EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_resume *r = hf_resume_new();
        size_t used;
        REQUIRE(r != NULL);
        CHECK_EQ(records(r, RECORD("2", "http://c/") RECORD("0", "http://a/"), &used),
                 0);
        CHECK_EQ(lines(r, cases[i].inputs), 0);
        why[0] = '\0';
        CHECK_EQ(hf_resume_verdict(r, why, sizeof why), cases[i].rc);
        CHECK(cases[i].rc == 0 || strstr(why, "changed") != NULL);
        hf_resume_free(r);
    }
}

static void a_change_is_found_in_the_block_where_it_is(void) {
    hf_resume *r = hf_resume_new();
    char text[200];
    size_t used;
    REQUIRE(r != NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text,
                 "{\"schema\":1,\"seq\":%d,\"id\":null,\"input\":\"u%d\"}\n", i, i);
        CHECK_EQ(records(r, text, &used), 0);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "u%d\n", i == 700 ? 7 : i);
        CHECK_EQ(lines(r, text), 0);
    }
    CHECK_EQ(hf_resume_verdict(r, why, sizeof why), HF_EINVAL);
    CHECK(strstr(why, "between seq 640 and 703") != NULL);
    hf_resume_free(r);
}

static void what_is_no_record_or_twice_is_refused(void) {
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"\n", "is no record"},
        {"hello\n", "is no record"},
        {"{\"schema\":2,\"seq\":1,\"id\":null,\"input\":\"\"}\n", "schema"},
        {"{\"id\":null,\"seq\":1}\n", "no seq"},
        {"{\"seq\":,\"id\":null}\n", "no seq"},
        {"{\"seq\":1,\"url\":null}\n", "no input"},
        {"{\"seq\":1,\"id\":{\"a\":[\"]}\",\"url\":null}\n", "broken id"},
        {"{\"seq\":1,\"id\":null,\"input\":\"abc\\\"}\n", "broken input"},
        {"{\"seq\":1,\"id\":null,\"input\":\"abc\",\"x\n", "is cut"},
        {"{\"seq\":99999999999,\"id\":null,\"input\":\"\"}\n", "no run gives"},
        {RECORD("5", "a") RECORD("5", "a"), "seq 5 again"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_resume *r = hf_resume_new();
        size_t used;
        REQUIRE(r != NULL);
        CHECK_EQ(records(r, cases[i].text, &used), HF_EINVAL);
        CHECK(strstr(why, cases[i].says) != NULL);
        hf_resume_free(r);
    }
}

static void an_id_of_any_json_is_passed_over(void) {
    static const char *const ids[] = {"1", "\"a\\\\\"", "{\"x\":[{}, \"}\\\"\"]}",
                                      "[[],[\",\"]]", "-1.5e3"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        char text[200];
        size_t used;
        hf_resume *r = hf_resume_new();
        REQUIRE(r != NULL);
        snprintf(text, sizeof text,
                 "{\"schema\":1,\"seq\":0,\"id\":%s,\"input\":\"a\",\"url\":1}\n",
                 ids[i]);
        CHECK_EQ(records(r, text, &used), 0);
        CHECK_EQ(lines(r, "a\n"), 0);
        CHECK_EQ(hf_resume_verdict(r, why, sizeof why), 0);
        hf_resume_free(r);
    }
}

static void a_json_line_is_left_to_the_caller(void) {
    hf_resume *r = hf_resume_new();
    size_t used;
    static const char *const more[] = {"[{\"url\":\"v\"}]\n", "[\"v\"]\n", " \"v\"\n"};
    const char *text = "u\n {\"url\":\"v\"}\n";
    REQUIRE(r != NULL);
    CHECK_EQ(records(r, RECORD("1", "v"), &used), 0);
    CHECK_EQ(hf_resume_lines(r, (const uint8_t *)text, strlen(text), &used), HF_EAGAIN);
    CHECK_EQ(used, 2);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        text = more[i];
        CHECK_EQ(hf_resume_lines(r, (const uint8_t *)text, strlen(text), &used),
                 HF_EAGAIN);
        CHECK_EQ(used, 0);
    }
    const uint8_t frame[] = {6, 0, 0, 0, HF_TAG_URL, 1, 0, 0, 0, 'v'};
    CHECK_EQ(hf_resume_frames(r, frame, sizeof frame - 1), HF_EINVAL);
    CHECK_EQ(hf_resume_frames(r, frame, sizeof frame), 0);
    CHECK_EQ(hf_resume_verdict(r, why, sizeof why), 0);
    hf_resume_free(r);
}

/* The real records of awkward inputs, against the same inputs. */
static void inputs_are_told_as_the_records_tell_them(void) {
    static const char *const awkward[] = {
        "http://example.com/",
        "http://user:secret@example.com/p?q=a@b",
        "user:secret@example.com",
        "http://\"quoted\"/\\back\\slash",
        "http://example.com/\x01\x7f\t\xc3\xa9\xe2\x80\xa8",
        "http://example.com/\xff\xfe",
        "http://u:\xff@example.com/",
        "\xc0\x80 no url at all",
    };
    hf_curl curl;
    load_libcurl(&curl);
    hf_config c;
    hf_config_default(&c);
    hf_settings s = {.c = c, .curl = curl, .fields = UINT64_MAX};
    hf_resume *r = hf_resume_new();
    REQUIRE(r != NULL);
    hf_encoder e;
    hf_ring ring;
    REQUIRE(hf_encoder_init(&e, &s) == 0);
    REQUIRE(hf_ring_init(&ring, 1 << 20, NULL, NULL, (hf_errbuf){why, sizeof why}) ==
            0);
    size_t n = sizeof awkward / sizeof awkward[0];
    for (size_t i = 0; i < n; i++) {
        const uint8_t *line = (const uint8_t *)awkward[i];
        hf_request *q = hf_request_line(&s, line, strlen(awkward[i]));
        REQUIRE(q != NULL);
        q->seq = i;
        hf_facts facts = {.now = 1};
        CHECK_EQ(hf_record_write(&e, &ring, q, NULL, &facts), 0);
        hf_request_free(q);
        struct iovec seg[2];
        REQUIRE(hf_ring_peek(&ring, seg) == 1);
        size_t used;
        CHECK_EQ(hf_resume_records(r, seg[0].iov_base, seg[0].iov_len, &used, why,
                                   sizeof why),
                 0);
        CHECK_EQ(used, seg[0].iov_len);
        hf_ring_advance(&ring, seg[0].iov_len);
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(lines(r, awkward[i]), 0);
        CHECK_EQ(lines(r, "\n"), 0);
        char text[300];
        snprintf(text, sizeof text, "%s\n", awkward[i]);
        CHECK_EQ(lines(r, text), 0);
    }
    why[0] = '\0';
    CHECK_EQ(hf_resume_verdict(r, why, sizeof why), 0);
    CHECK_TEXT(why, "");
    hf_ring_free(&ring);
    hf_encoder_free(&e);
    hf_resume_free(r);
}

int main(void) {
    RUN(records_tell_what_is_answered);
    RUN(the_same_inputs_pass_and_others_do_not);
    RUN(a_change_is_found_in_the_block_where_it_is);
    RUN(what_is_no_record_or_twice_is_refused);
    RUN(an_id_of_any_json_is_passed_over);
    RUN(a_json_line_is_left_to_the_caller);
    RUN(inputs_are_told_as_the_records_tell_them);
    return check_result();
}
