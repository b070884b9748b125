#include <stdlib.h>

#include "check.h"
#include "urlsafe.h"

static int gives(int (*act)(const uint8_t *, size_t, hf_buf *), const char *in,
                 const char *want) {
    hf_buf b = hf_buf_make(1024);
    int holds = act((const uint8_t *)in, strlen(in), &b) == 0 &&
                b.len == strlen(want) &&
                memcmp(b.len > 0 ? b.data : (const uint8_t *)"", want, b.len) == 0;
    if (!holds) {
        fprintf(stderr, "'%s' gave '%.*s', not '%s'\n", in, (int)b.len,
                b.len > 0 ? (char *)b.data : "", want);
    }
    hf_buf_free(&b);
    return holds;
}

static void a_password_reads_as_stars(void) {
    static const char *const pairs[][2] = {
        {"http://u:secret@h/x", "http://u:***@h/x"},
        {"http://u:secret@h", "http://u:***@h"},
        {"http://:secret@h/", "http://:***@h/"},
        {"HTTPS://u:a:b@c@h/x@y", "HTTPS://u:***@h/x@y"},
        {"  http://u:secret@h/\r\n", "  http://u:***@h/\r\n"},
        {"http:\\\\u:secret@h", "http:\\\\u:***@h"},
        {"http:/u:secret@h", "http:/u:***@h"},
        {"http:///u:secret@h", "http:///u:***@h"},
        {"//u:secret@h/", "//u:***@h/"},
        {"u:secret@h:8080", "u:***@h:8080"},
        {"http:u:secret@h", "http:***@h"},
        {"http://u:se/cret@h/", "http://u:***@h/"},
        {"http://u:se?cr#et@h/", "http://u:***@h/"},
        {"socks5h://u:secret@[::1]:1", "socks5h://u:***@[::1]:1"},
        {"http://u:/cret@h/", "http://u:***@h/"},
        {"http://u:\xff\n@h/", "http://u:***@h/"},
        {"ht\ttp://u:secret@h/", "ht\ttp://u:***@h/"},
        {"http:/\t/u:secret@h/", "http:/\t/u:***@h/"},
        {"http:/ /u:secret@h/", "http:/ /u:***@h/"},
        {"http:\\\t\\u:secret@h/", "http:\\\t\\u:***@h/"},
        {"http:// u:secret@h/", "http:// u:***@h/"},
        {"http//u:secret@h/", "http//u:***@h/"},
        {"h/u:se/cret@h/", "h/u:***@h/"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CHECK(gives(hf_url_redact, pairs[i][0], pairs[i][1]));
    }
}

static void a_text_without_password_stays_as_it_is(void) {
    static const char *const same[] = {"",
                                       "http://h/",
                                       "http://h:80/x@y",
                                       "http://u@h/",
                                       "http://u:@h/",
                                       "http://h/?a:b@c",
                                       "http://[::1]:80/x@y",
                                       "h:80/a@b",
                                       "x",
                                       "@",
                                       ":",
                                       "http://",
                                       "/a:b/c",
                                       "a b\xff",
                                       "http://h/a:b@c"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        CHECK(gives(hf_url_redact, same[i], same[i]));
    }
}

static void user_info_can_be_stripped_whole(void) {
    CHECK(gives(hf_url_strip_userinfo, "http://u:p@h:1/x", "http://h:1/x"));
    CHECK(gives(hf_url_strip_userinfo, "http://u@h:1/x", "http://h:1/x"));
    CHECK(gives(hf_url_strip_userinfo, "u:p@h:1", "h:1"));
    CHECK(gives(hf_url_strip_userinfo, "http://@h", "http://h"));
    CHECK(gives(hf_url_strip_userinfo, "http://u:a/b@h:1", "http://h:1"));
    CHECK(gives(hf_url_strip_userinfo, "http://h/a@b", "http://h/a@b"));
}

static void a_full_buffer_takes_nothing(void) {
    hf_buf b = hf_buf_make(8);
    CHECK_EQ(hf_url_redact((const uint8_t *)"http://u:p@h/", 13, &b), HF_EFULL);
    CHECK_EQ(b.len, 0);
    hf_buf_free(&b);
}

static void an_excerpt_prints_and_is_short(void) {
    char text[HF_EXCERPT_CAP];
    uint8_t long_one[1000];
    CHECK(strcmp(hf_url_excerpt((const uint8_t *)"a\n\xff", 3, text), "a\\x0a\\xff") ==
          0);
    CHECK(strcmp(hf_url_excerpt((const uint8_t *)"http://u:p@h", 12, text),
                 "http://u:***@h") == 0);
    CHECK(strcmp(hf_url_excerpt((const uint8_t *)"", 0, text), "") == 0);
    CHECK(strcmp(hf_url_excerpt((const uint8_t *)"http://http//u:p@h", 18, text),
                 "http://http//u:***@h") == 0);
    for (size_t n = 100; n < 140; n++) {
        memset(long_one, n & 1 ? 1 : 'a', sizeof long_one);
        hf_url_excerpt(long_one, n, text);
        CHECK(strlen(text) < HF_EXCERPT_CAP);
        CHECK((strcmp(text + strlen(text) - 3, "...") == 0) == (strlen(text) > 120));
    }
    memset(long_one, 'a', sizeof long_one);
    memcpy(long_one, "http://u:", 9);
    long_one[900] = '@';
    CHECK(strcmp(hf_url_excerpt(long_one, 901, text), "http://u:***@") == 0);
}

/* Each piece in memory of its own, so that a sanitizer sees a byte too far. */
static void nothing_is_read_behind_the_end(void) {
    static const char texts[] = "!\0\3:@//u:p@h:/?#[:";
    for (size_t from = 0; from < sizeof texts; from++) {
        for (size_t n = 1; from + n <= sizeof texts; n++) {
            uint8_t *in = malloc(n);
            char shown[HF_EXCERPT_CAP];
            hf_buf out = hf_buf_make(1 << 10);
            REQUIRE(in != NULL);
            memcpy(in, texts + from, n);
            CHECK_EQ(hf_url_redact(in, n, &out), 0);
            CHECK_EQ(hf_url_strip_userinfo(in, n, &out), 0);
            CHECK(hf_url_excerpt(in, n, shown) == shown);
            hf_buf_free(&out);
            free(in);
        }
    }
}

static void tokens_and_values_keep_to_their_bytes(void) {
    CHECK(hf_http_token_valid((const uint8_t *)"X-Api_Key!#$%&'*+.^`|~9", 23));
    CHECK(!hf_http_token_valid((const uint8_t *)"", 0));
    for (int c = 0; c < 256; c++) {
        uint8_t b = (uint8_t)c;
        int token = c > 0x20 && c < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", c) == NULL;
        CHECK_EQ(hf_http_token_valid(&b, 1), token);
        CHECK_EQ(hf_http_value_valid(&b, 1), c == '\t' || (c >= 0x20 && c != 0x7f));
    }
}

int main(void) {
    RUN(a_password_reads_as_stars);
    RUN(a_text_without_password_stays_as_it_is);
    RUN(user_info_can_be_stripped_whole);
    RUN(a_full_buffer_takes_nothing);
    RUN(an_excerpt_prints_and_is_short);
    RUN(nothing_is_read_behind_the_end);
    RUN(tokens_and_values_keep_to_their_bytes);
    return check_result();
}
