/* Heads as libcurl hands them over, line by line. */
#include "check.h"
#include "response.h"

static hf_response resp;

static void fresh(int64_t max_head) {
    hf_response_free(&resp);
    hf_response_init(&resp, max_head, 1 << 20);
}

static int line(const char *s) {
    return hf_response_header(&resp, (const uint8_t *)s, strlen(s));
}

static int range_is(hf_range r, const char *s) {
    return r.len == strlen(s) && memcmp(resp.head.data + r.at, s, r.len) == 0;
}

static int next_is(size_t *pos, const char *name, const char *value) {
    hf_field f;
    return hf_response_next(&resp, pos, &f) && f.name_len == strlen(name) &&
           memcmp(f.name, name, f.name_len) == 0 && f.value_len == strlen(value) &&
           memcmp(f.value, value, f.value_len) == 0;
}

static void status_lines_give_version_and_status(void) {
    static const struct {
        const char *text;
        int version;
        int status;
    } rows[] = {{"HTTP/1.1 200 OK\r\n", 11, 200},
                {"HTTP/1.0 404\r\n", 10, 404},
                {"HTTP/2 204 \r\n", 20, 204},
                {"HTTP/3 503 \r\n", 30, 503},
                /* Who writes so speaks HTTP/1. */
                {"HTTP/2.0 200 OK\r\n", 11, 200},
                {"HTTP/2 200\r\n", 11, 200},
                {"HTTP/3 200 OK\r\n", 11, 200},
                {"http/1.1 200 OK\r\n", 11, 200},
                {"HTTP/1.1   301 Moved\r\n", 11, 301},
                {"HTTP/1.1 99\r\n", 11, 0},
                {"HTTP/1.1 2000 X\r\n", 11, 0},
                {"HTTP/1.1\r\n", 11, 0},
                {"HTTP/\r\n", 0, 0},
                {"HTTP/1.1 abc\r\n", 11, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fresh(1 << 16);
        CHECK_EQ(line(rows[i].text), 0);
        CHECK_EQ(resp.http_version, rows[i].version);
        CHECK_EQ(resp.status, rows[i].status);
        CHECK(!resp.head_done);
    }
}

static void a_blank_line_ends_a_final_head_and_no_interim_one(void) {
    fresh(1 << 16);
    line("HTTP/1.1 103 Early Hints\r\n");
    line("Link: </a>\r\n");
    line("\r\n");
    CHECK(!resp.head_done);
    line("HTTP/1.1 200 OK\r\n");
    line("A: b\r\n");
    CHECK(!resp.head_done);
    line("\r\n");
    CHECK(resp.head_done);
    size_t pos = 0;
    CHECK(next_is(&pos, "A", "b"));
    hf_field f;
    CHECK(!hf_response_next(&resp, &pos, &f));
}

static void interim_heads_count_within_the_bound(void) {
    static const char hint[] = "HTTP/1.1 103 Early Hints\r\n";
    fresh(3 * (sizeof hint + 1)); /* with the blank line, which has no NUL */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(line(hint), 0);
            CHECK_EQ(line("\r\n"), 0);
        }
        CHECK_EQ(line("HTTP/1.1 200 OK\r\n"), 0);
        CHECK_EQ(line("A: bcdef\r\n"), 0);
        CHECK_EQ(line("\r\n"), HF_EFULL);
        hf_response_reset(&resp, 0); /* the next attempt counts anew */
    }
}

static void a_field_that_looks_like_a_status_line_stays_a_field(void) {
    fresh(1 << 16);
    line("HTTP/1.1 200 OK\r\n");
    line("A: b\r\n");
    line("HTTP/1.1 500 odd: name\r\n");
    line("\r\n");
    CHECK_EQ(resp.status, 200);
    CHECK(resp.head_done);
    size_t pos = 0;
    CHECK(next_is(&pos, "A", "b"));
    CHECK(next_is(&pos, "HTTP/1.1 500 odd", "name"));
}

static void order_and_duplicates_are_kept(void) {
    fresh(1 << 16);
    line("HTTP/1.1 200 OK\r\n");
    line("Set-Cookie: a=1\r\n");
    line("X:\r\n");
    line("set-cookie:b=2 \t\r\n");
    line("no colon\r\n");
    line(": no name\r\n");
    line("Set-Cookie: a=1\n");
    line("\r\n");
    size_t pos = 0;
    CHECK(next_is(&pos, "Set-Cookie", "a=1"));
    CHECK(next_is(&pos, "X", ""));
    CHECK(next_is(&pos, "set-cookie", "b=2"));
    CHECK(next_is(&pos, "no colon", ""));
    CHECK(next_is(&pos, "", "no name"));
    CHECK(next_is(&pos, "Set-Cookie", "a=1"));
    hf_field f;
    CHECK(!hf_response_next(&resp, &pos, &f));
}

/* libcurl unfolds; one that does not hands the rest over as a line of its own. */
static void a_folded_line_is_not_lost(void) {
    fresh(1 << 16);
    line("HTTP/1.1 200 OK\r\n");
    line("X-Long: first\r\n");
    line("\tsecond\r\n");
    line("\r\n");
    size_t pos = 0;
    hf_field f;
    CHECK(next_is(&pos, "X-Long", "first"));
    CHECK(hf_response_next(&resp, &pos, &f));
    CHECK(resp.head_done);
}

static void the_first_location_and_the_last_type_win_and_encodings_are_joined(void) {
    fresh(1 << 16);
    line("HTTP/1.1 302 Found\r\n");
    line("LOCATION: /a\r\n");
    line("Location: /b\r\n");
    line("Content-Type: text/html\r\n");
    line("content-type: text/plain\r\n");
    line("Content-Encoding: gzip\r\n");
    line("content-encoding:  br\r\n");
    line("\r\n");
    CHECK(range_is(resp.location, "/a"));
    CHECK(range_is(resp.content_type, "text/plain"));
    CHECK_EQ(resp.encoding.len, 8);
    CHECK(memcmp(resp.encoding.data, "gzip, br", 8) == 0);
    CHECK(hf_response_redirects(&resp));
}

/* Lines apart by '|'. */
static int type_is(const char *lines, const char *want) {
    char text[256];
    fresh(1 << 16);
    line("HTTP/1.1 200 OK\r\n");
    while (*lines != '\0') {
        size_t n = strcspn(lines, "|");
        snprintf(text, sizeof text, "Content-Type: %.*s\r\n", (int)n, lines);
        line(text);
        lines += n + (lines[n] == '|');
    }
    line("\r\n");
    return range_is(resp.content_type, want);
}

static void of_several_types_the_last_that_is_one_counts(void) {
    CHECK(type_is("text/html|text/plain", "text/plain"));
    CHECK(type_is("text/html; charset=gbk|text/plain", "text/plain"));
    CHECK(type_is("text/html; charset=gbk|TEXT/html", "text/html; charset=gbk"));
    CHECK(type_is("text/html; charset=gbk|text/html;x", "text/html; charset=gbk"));
    CHECK(type_is("text/html|text/html; charset=gbk", "text/html; charset=gbk"));
    CHECK(type_is("text/html ; charset=a|text/html;charset=b", "text/html;charset=b"));
    CHECK(type_is("text/html|*/*", "text/html"));
    CHECK(type_is("text/html|", "text/html"));
    CHECK(type_is("text/html|; charset=gbk", "text/html"));
    CHECK(type_is("junk|text/html", "text/html"));
    CHECK(type_is("junk|more junk", "junk"));
}

static void a_lone_colon_ends_no_head(void) {
    fresh(1 << 16);
    line("HTTP/1.1 200 OK\r\n");
    line(":\r\n");
    line(" : \r\n");
    CHECK(!resp.head_done);
    line("A: b\r\n");
    line("\r\n");
    CHECK(resp.head_done);
    size_t pos = 0;
    CHECK(next_is(&pos, "", ""));
    CHECK(next_is(&pos, "", ""));
    CHECK(next_is(&pos, "A", "b"));
}

static void only_five_statuses_with_a_location_redirect(void) {
    for (int status = 200; status < 600; status++) {
        char text[32];
        fresh(1 << 16);
        snprintf(text, sizeof text, "HTTP/1.1 %d X\r\n", status);
        line(text);
        CHECK(!hf_response_redirects(&resp));
        line("Location: /\r\n");
        int want = status == 301 || status == 302 || status == 303 || status == 307 ||
                   status == 308;
        CHECK_EQ(hf_response_redirects(&resp), want);
    }
}

static void a_head_past_its_cap_is_refused_and_kept(void) {
    fresh(64);
    CHECK_EQ(line("HTTP/1.1 200 OK\r\n"), 0);
    CHECK_EQ(line("A: 0123456789012345678901234567890123456789012345678\r\n"),
             HF_EFULL);
    CHECK_EQ(resp.status, 200);
    size_t pos = 0;
    hf_field f;
    CHECK(!hf_response_next(&resp, &pos, &f));
    CHECK_EQ(line("B: c\r\n"), 0);
    CHECK(next_is(&pos, "B", "c"));
}

static void a_new_head_forgets_the_old_one_but_not_the_hops(void) {
    fresh(1 << 16);
    line("HTTP/1.1 301 Moved\r\n");
    line("Location: http://x/\r\n");
    line("Content-Encoding: gzip\r\n");
    line("\r\n");
    CHECK_EQ(hf_response_hop(&resp, "http://a/", true, (const uint8_t *)"http://x/", 9),
             0);
    hf_response_new_head(&resp);
    CHECK_EQ(resp.status, 0);
    CHECK(!resp.head_done && !resp.has_location && resp.encoding.len == 0);
    CHECK_EQ(resp.n_hops, 1);
    CHECK_EQ(resp.hops[0].status, 301);
    CHECK(strcmp(resp.hops[0].url, "http://a/") == 0);
    CHECK(resp.hops[0].len == 9 && memcmp(resp.hops[0].location, "http://x/", 9) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(hf_response_hop(&resp, "u", false, NULL, 0), 0);
    }
    CHECK_EQ(resp.n_hops, 21);
    hf_response_reset(&resp, 1 << 16);
    CHECK_EQ(resp.n_hops, 0);
    CHECK_EQ(resp.first_byte, -1);
}

static void any_bytes_are_taken(void) {
    fresh(1 << 16);
    CHECK_EQ(line("HTTP/1.1 200 \xff\xfe\r\n"), 0);
    uint8_t all[259];
    memcpy(all, "X: ", 3);
    for (int i = 0; i < 256; i++) {
        all[3 + i] = (uint8_t)(i == '\n' ? ' ' : i);
    }
    CHECK_EQ(hf_response_header(&resp, all, sizeof all), 0);
    CHECK_EQ(hf_response_header(&resp, (const uint8_t *)"\r\n", 2), 0);
    size_t pos = 0;
    hf_field f;
    CHECK(hf_response_next(&resp, &pos, &f));
    CHECK_EQ(f.name_len, 1);
    CHECK_EQ(f.value_len, 256);
    CHECK_EQ(resp.status, 200);
}

int main(void) {
    RUN(status_lines_give_version_and_status);
    RUN(a_blank_line_ends_a_final_head_and_no_interim_one);
    RUN(interim_heads_count_within_the_bound);
    RUN(a_field_that_looks_like_a_status_line_stays_a_field);
    RUN(order_and_duplicates_are_kept);
    RUN(a_folded_line_is_not_lost);
    RUN(the_first_location_and_the_last_type_win_and_encodings_are_joined);
    RUN(of_several_types_the_last_that_is_one_counts);
    RUN(a_lone_colon_ends_no_head);
    RUN(only_five_statuses_with_a_location_redirect);
    RUN(a_head_past_its_cap_is_refused_and_kept);
    RUN(a_new_head_forgets_the_old_one_but_not_the_hops);
    RUN(any_bytes_are_taken);
    hf_response_free(&resp);
    return check_result();
}
