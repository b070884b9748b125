#include "sniff.h"

#include "check.h"
#include "fence.h"

static const char *charset_of(const char *s, size_t n) {
    hf_content_type t = hf_sniff_content_type((const uint8_t *)s, n);
    return t.charset == NULL ? "" : hf_charset_name(t.charset);
}

#define HEADER(value, name) \
    CHECK(strcmp(charset_of(value, sizeof(value) - 1), name) == 0)

static void the_charset_of_a_content_type_is_found(void) {
    HEADER("text/html; charset=utf-8", "utf-8");
    HEADER("text/html;charset=\"UTF-8\"", "utf-8");
    HEADER("text/html; charset='gbk'", "gbk");
    HEADER("text/html; Charset = windows-1251 ; x=y", "windows-1251");
    HEADER("text/html; charset=UTF8;", "utf-8");
    HEADER("text/html; a=\"x; charset=gbk\"; charset=big5", "big5");
    HEADER("text/html; a=\"\\\"; charset=gbk\"; charset=big5", "big5");
    HEADER("text/html; charset=none; charset=euc-kr", "euc-kr");
    HEADER("; charset=gbk", "gbk");
}

static void a_content_type_with_junk_names_no_charset(void) {
    HEADER("", "");
    HEADER("text/html", "");
    HEADER("charset=gbk", "");
    HEADER("text/html; charset", "");
    HEADER("text/html; charset=", "");
    HEADER("text/html; charset=\"", "");
    HEADER("text/html; charset=utf-8,gbk", "");
    HEADER("text/html; charset=uft-8", "");
    HEADER("text/html; charset=undefined", "");
    HEADER("text/html; charset=gbk\0", "");
    HEADER("text/html; xcharset=gbk", "");
    HEADER("text/html; charsetx=gbk", "");
    HEADER("text/html; charset=\xff\xfe", "");
    CHECK(hf_sniff_content_type(NULL, 0).charset == NULL);
    static char many[10240] = "text/html; charset=";
    memset(many + 19, 'u', sizeof many - 19);
    CHECK(strcmp(charset_of(many, sizeof many), "") == 0);
    memset(many + 19, ';', sizeof many - 19);
    CHECK(strcmp(charset_of(many, sizeof many), "") == 0);
}

static hf_content_type kind(const char *type) {
    return hf_sniff_content_type((const uint8_t *)type, strlen(type));
}

static void types_are_known_as_binary_or_not(void) {
    static const char *const binary[] = {
        "image/png",
        "IMAGE/JPEG",
        "audio/mpeg",
        "video/mp4",
        "font/woff2",
        "application/octet-stream",
        "application/pdf",
        "application/zip",
        "application/gzip",
        "application/x-font-ttf",
        "application/wasm",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        " application/pdf ; x=y",
        "binary/octet-stream",
        "application/vnd.ms-excel",
    };
    static const char *const text[] = {
        "",
        "text/html",
        "text/plain",
        "application/json",
        "application/javascript",
        "image/svg+xml",
        "application/xhtml+xml",
        "application/vnd.api+json",
        "application/xml",
        "application/zipper",
        "nonsense",
        "application/",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    };
    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++)
        CHECK(kind(binary[i]).binary);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        CHECK(!kind(text[i]).binary);
    CHECK(kind("text/html").markup && kind("application/xhtml+xml").markup);
    CHECK(kind("").markup && kind("garbage").markup && kind("; charset=x").markup);
    CHECK(!kind("application/json").markup && !kind("text/css").markup);
}

static void a_byte_order_mark_is_seen(void) {
    size_t len;
    const hf_charset *cs = hf_sniff_bom((const uint8_t *)"\xef\xbb\xbf", 3, &len);
    CHECK(cs != NULL && len == 3 && strcmp(hf_charset_name(cs), "utf-8") == 0);
    cs = hf_sniff_bom((const uint8_t *)"\xff\xfe", 2, &len);
    CHECK(cs != NULL && len == 2 && strcmp(hf_charset_name(cs), "utf-16le") == 0);
    cs = hf_sniff_bom((const uint8_t *)"\xfe\xff", 2, &len);
    CHECK(cs != NULL && len == 2 && strcmp(hf_charset_name(cs), "utf-16be") == 0);
    CHECK(hf_sniff_bom((const uint8_t *)"\xef\xbb", 2, &len) == NULL && len == 0);
    CHECK(hf_sniff_bom((const uint8_t *)"\xff", 1, &len) == NULL);
    CHECK(hf_sniff_bom(NULL, 0, &len) == NULL);
    const char *utf32 = hf_sniff_utf32((const uint8_t *)"\xff\xfe\0\0a\0\0\0", 8);
    CHECK(utf32 != NULL && strcmp(utf32, "utf-32le") == 0);
    utf32 = hf_sniff_utf32((const uint8_t *)"\0\0\xfe\xff", 4);
    CHECK(utf32 != NULL && strcmp(utf32, "utf-32be") == 0);
    CHECK(hf_sniff_utf32((const uint8_t *)"\xff\xfe\0\0a\0", 6) == NULL);
}

static fence page;

/* The page stands in front of memory that cannot be read. */
static int meta_is(const char *html, const char *name) {
    size_t n = strlen(html);
    memcpy(page.end - n, html, n);
    const hf_charset *cs = hf_sniff_markup(page.end - n, n);
    const char *got = cs == NULL ? "" : hf_charset_name(cs);
    if (strcmp(got, name) != 0)
        fprintf(stderr, "%s: got '%s', not '%s'\n", html, got, name);
    return strcmp(got, name) == 0;
}

static void the_prescan_finds_what_the_standard_finds(void) {
    static const char *const cases[][2] = {
        {"<meta charset=gbk>", "gbk"},
        {"<META CHARSET='gbk'>", "gbk"},
        {"<html><head><meta  charset = \"Shift_JIS\" />", "shift_jis"},
        {"<meta/charset=gbk>", "gbk"},
        {"<meta http-equiv=Content-Type content='text/html; charset=big5'>", "big5"},
        {"<meta content=\"text/html;charset=big5\" http-equiv=\"content-type\">",
         "big5"},
        {"<meta content='text/html; charset=\"big5\"' http-equiv=content-type>",
         "big5"},
        {"<meta http-equiv=content-type content='charset; charset =gbk; x'>", "gbk"},
        {"<meta name=x><meta charset=gbk>", "gbk"},
        {"<meta charset=none><meta charset=gbk>", "gbk"},
        {"<!-- <meta charset=big5> --><meta charset=gbk>", "gbk"},
        {"<!--><meta charset=gbk>", "gbk"},
        {"<a title='<meta charset=big5>'><meta charset=gbk>", "gbk"},
        {"<!doctype html><?x <y?></p x=y><meta charset=gbk>", "gbk"},
        {"<p =x='>' y><meta charset=gbk>", "gbk"},
        {"< <meta charset=gbk>", "gbk"},
        {"<meta charset=utf-16>", "utf-8"},
        {"<meta charset=x-user-defined>", "windows-1252"},
        {"<meta charset=gbk charset=big5>", "gbk"},
        {"<?xml version='1.0' encoding='euc-kr'?><x/>", "euc-kr"},
        {"<?xml encoding=\"utf-16\"?>", "utf-8"},
        {"<?xml encoding='gbk'?><meta charset=big5>", "big5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(meta_is(cases[i][0], cases[i][1]));
}

static void the_prescan_finds_nothing_in_what_is_broken_or_elsewhere(void) {
    static const char *const cases[] = {
        "",
        "<",
        "<meta",
        "<meta ",
        "<meta charset",
        "<meta charset=",
        "<meta charset=gbk",
        "<meta charset='gbk",
        "<metacharset=gbk>",
        "<meta charset=gbk x='",
        "<meta charset=gbk x",
        "<meta charset=nonsense>",
        "<meta content='text/html; charset=gbk'>",
        "<meta http-equiv=refresh content='text/html; charset=gbk'>",
        "<meta http-equiv=content-type content='charset'>",
        "<meta http-equiv=content-type content='charset=\"gbk'>",
        "<meta charset=none http-equiv=content-type content='charset=gbk'>",
        "<!-- <meta charset=gbk>",
        "<script x='<meta charset=gbk>",
        "<?xml encoding=gbk?>",
        "<?xml encoding='gbk'",
        "<?xmlx encoding='gbk'?>",
        "charset=gbk",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(meta_is(cases[i], ""));
}

static void the_prescan_ends_after_1024_bytes(void) {
    char html[1100];
    memset(html, ' ', sizeof html);
    memcpy(html + 1024 - 18, "<meta charset=gbk>", 19);
    CHECK(meta_is(html, "gbk"));
    memset(html, ' ', sizeof html);
    memcpy(html + 1025 - 18, "<meta charset=gbk>", 19);
    CHECK(meta_is(html, ""));
}

/* Every cut of hostile markup, in front of memory that cannot be read. */
static void no_byte_past_the_input_is_read(void) {
    static const char *const parts[] = {
        "<meta ", "charset", "=",        "\"",         "'",       "<!--",
        "-->",    "<?xml ",  "encoding", "http-equiv", "content", "content-type",
        "<a ",    "</",      "/",        ">",          " ",       "gbk",
        ";",
    };
    uint64_t seed = 6;
    uint8_t s[256];
    for (int round = 0; round < 30000; round++) {
        size_t n = 0;
        size_t want = fence_random(&seed) % 120;
        while (n < want) {
            const char *p = parts[fence_random(&seed) % (sizeof parts / sizeof *parts)];
            memcpy(s + n, p, strlen(p));
            n += strlen(p);
        }
        n = want;
        memcpy(page.end - n, s, n);
        hf_sniff_markup(page.end - n, n);
        hf_content_type t = hf_sniff_content_type(page.end - n, n);
        CHECK(!t.binary);
    }
}

int main(void) {
    page = fence_new(4096);
    RUN(the_charset_of_a_content_type_is_found);
    RUN(a_content_type_with_junk_names_no_charset);
    RUN(types_are_known_as_binary_or_not);
    RUN(a_byte_order_mark_is_seen);
    RUN(the_prescan_finds_what_the_standard_finds);
    RUN(the_prescan_finds_nothing_in_what_is_broken_or_elsewhere);
    RUN(the_prescan_ends_after_1024_bytes);
    RUN(no_byte_past_the_input_is_read);
    return check_result();
}
