#include "text.h"

#include "check.h"

static hf_text_ctx *ctx;

typedef struct expectation {
    const char *type; /* Content-Type, or NULL */
    const char *body;
    size_t n;
    int kind;
    const char *charset; /* "" for NULL */
    const char *source;
    const char *text; /* of HF_TEXT_UTF8 */
} expectation;

static int same(const hf_text *a, const hf_text *b) {
    return a->source == b->source && (a->charset == NULL) == (b->charset == NULL) &&
           (a->charset == NULL || strcmp(a->charset, b->charset) == 0);
}

/* By its key a body is told again as it was decided on. */
static int is_recalled(const hf_text *told, const uint8_t *body, size_t n, int kind,
                       const char *text) {
    hf_text t;
    int good =
        hf_text_recall(ctx, hf_text_key(told), body, n, &t) == 0 && t.kind == kind;
    if (kind == HF_TEXT_UTF8)
        return good && t.utf8_len == strlen(text) &&
               memcmp(t.utf8, text, t.utf8_len) == 0;
    return good && t.utf8 == NULL && t.utf8_len == 0;
}

static int holds(const expectation *e, int force_text) {
    hf_text t;
    size_t ct_len = e->type == NULL ? 0 : strlen(e->type);
    int rc = hf_text_decide(ctx, (const uint8_t *)e->body, e->n,
                            (const uint8_t *)e->type, ct_len, force_text, &t);
    const char *source = hf_text_source_name(t.source);
    hf_text name;
    rc |= hf_text_name(ctx, (const uint8_t *)e->body, e->n, (const uint8_t *)e->type,
                       ct_len, force_text, &name);
    int good = rc == 0 && t.kind == e->kind && name.kind == HF_TEXT_NONE;
    good = good && same(&name, &t);
    good = good && strcmp(t.charset == NULL ? "" : t.charset, e->charset) == 0;
    good = good && strcmp(source == NULL ? "" : source, e->source) == 0;
    if (e->kind == HF_TEXT_UTF8)
        good = good && t.utf8_len == strlen(e->text) &&
               memcmp(t.utf8, e->text, t.utf8_len) == 0;
    else
        good = good && t.utf8 == NULL && t.utf8_len == 0;
    return good && is_recalled(&name, (const uint8_t *)e->body, e->n, e->kind, e->text);
}

#define TEXT(type, body, charset, source, text)                                     \
    CHECK(holds(&(expectation){type, body, sizeof(body) - 1, HF_TEXT_UTF8, charset, \
                               source, text},                                       \
                0))
#define BYTES(type, body, charset, source)                                            \
    CHECK(holds(&(expectation){type, body, sizeof(body) - 1, HF_TEXT_BASE64, charset, \
                               source, NULL},                                         \
                0))

static void nothing_is_neither_text_nor_bytes(void) {
    CHECK(holds(
        &(expectation){"text/html; charset=gbk", "", 0, HF_TEXT_NONE, "", "", NULL},
        0));
    CHECK(holds(&(expectation){NULL, NULL, 0, HF_TEXT_NONE, "", "", NULL}, 1));
}

static void the_evidence_is_taken_in_its_order(void) {
    const char html[] = "text/html";
    TEXT(html,
         "\xef\xbb\xbf"
         "a\xc3\xa9",
         "utf-8", "bom", "aé");
    TEXT("text/html; charset=gbk",
         "\xef\xbb\xbf"
         "a\xc3\xa9",
         "utf-8", "bom", "aé");
    TEXT(NULL,
         "\xff\xfe"
         "a\0\xe9\0",
         "utf-16le", "bom", "aé");
    TEXT(NULL, "\xfe\xff\0a\0\xe9", "utf-16be", "bom", "aé");
    TEXT("text/html; charset=utf-8", "caf\xc3\xa9", "utf-8", "header", "café");
    TEXT("text/html; charset=latin1", "caf\xe9", "windows-1252", "header", "café");
    TEXT("text/html; charset=gbk", "<meta charset=big5>\xc4\xe3", "gbk", "header",
         "<meta charset=big5>你");
    TEXT(html, "<meta charset=gbk>\xc4\xe3", "gbk", "meta", "<meta charset=gbk>你");
    TEXT("text/html; charset=none", "<meta charset=gbk>\xc4\xe3", "gbk", "meta",
         "<meta charset=gbk>你");
    TEXT(html, "caf\xc3\xa9", "utf-8", "valid", "café");
    TEXT(html, "plain", "utf-8", "valid", "plain");
    TEXT(html, "caf\xe9", "windows-1252", "default", "café");
    TEXT(NULL, "caf\xe9\x81", "windows-1252", "default", "café\xc2\x81");
    TEXT("text/html; charset=shift_jis", "plain", "shift_jis", "header", "plain");
    TEXT("text/html; charset=utf-16le", "a\0", "utf-16le", "header", "a");
}

static void junk_where_a_charset_should_be_counts_as_none(void) {
    static const char *const junk[] = {"utf-8,gbk", "uft-8",      "none",  "undefined",
                                       "idna",      "hex",        "utf-7", "",
                                       "\"",        "ISO-88509-1"};
    char type[64];
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        snprintf(type, sizeof type, "text/html; charset=%s", junk[i]);
        TEXT(type, "caf\xc3\xa9", "utf-8", "valid", "café");
        TEXT(type, "caf\xe9", "windows-1252", "default", "café");
    }
}

static void a_false_claim_gives_way_to_valid_utf8(void) {
    /* In Shift_JIS, A0 and a lead byte at the end stand for nothing. */
    TEXT("text/html; charset=shift_jis", "\xc2\xa0", "utf-8", "valid", "\xc2\xa0");
    TEXT("text/html", "<meta charset=euc-jp>\xd0\x96", "utf-8", "valid",
         "<meta charset=euc-jp>\xd0\x96");
    TEXT("text/html; charset=utf-16le", "abc", "utf-8", "valid", "abc");
    TEXT("text/html; charset=iso-2022-kr", "abc", "utf-8", "valid", "abc");
    /* What can be read as claimed is read so, as browsers do. */
    TEXT("text/html; charset=latin1", "\xc3\xa9", "windows-1252", "header", "Ã©");
}

static void what_cannot_be_decoded_is_bytes_under_the_claimed_name(void) {
    BYTES("text/html; charset=utf-8", "caf\xe9", "utf-8", "header");
    BYTES("text/html; charset=gbk", "caf\xff", "gbk", "header");
    BYTES("text/html", "<meta charset=euc-jp>\xff", "euc-jp", "meta");
    BYTES("text/html; charset=iso-2022-kr", "\xff", "iso-2022-kr", "header");
    BYTES(NULL, "\xef\xbb\xbf\xff", "utf-8", "bom");
    BYTES(NULL,
          "\xff\xfe"
          "a",
          "utf-16le", "bom");
    BYTES(NULL, "\xff\xfe\0\0a\0\0\0", "utf-32le", "bom");
    BYTES(NULL, "\0\0\xfe\xff\0\0\0a", "utf-32be", "bom");
}

static void what_hides_its_text_in_ascii_is_not_taken_for_utf8(void) {
    const char kr[] = "text/html; charset=iso-2022-kr";
    const char hz[] = "text/html; charset=hz-gb-2312";
    const char jp[] = "text/html; charset=iso-2022-jp";
    BYTES(kr, "\x1b$)C\x0e\x30\x21\x0f", "iso-2022-kr", "header");
    TEXT(kr, "plain", "utf-8", "valid", "plain");
    BYTES(hz, "~{VPND~}", "hz-gb-2312", "header");
    TEXT(hz, "plain ~", "utf-8", "valid", "plain ~");
    BYTES(jp, "\x1b$B0", "iso-2022-jp", "header"); /* cut within a character */
    BYTES(jp, "\x0e", "iso-2022-jp", "header");
    TEXT(jp, "caf\xc3\xa9", "utf-8", "valid", "caf\xc3\xa9");
    BYTES("text/html; charset=utf-16", "a\0b\0c", "utf-16le", "header");
    TEXT("text/html; charset=utf-16", "odd", "utf-8", "valid", "odd");
    BYTES(NULL, "<meta charset=iso-2022-kr>\x1b$)C", "iso-2022-kr", "meta");
}

static void utf8_cut_within_a_character_is_no_latin(void) {
    BYTES(NULL, "caf\xc3\xa9 \xe4\xb8", "utf-8", "valid");
    BYTES(NULL, "caf\xc3\xa9 \xf0\x9f\x98", "utf-8", "valid");
    BYTES(NULL, "caf\xc3\xa9 \xc3", "utf-8", "valid");
    TEXT(NULL, "caf\xe9", "windows-1252", "default", "caf\xc3\xa9");
    TEXT(NULL, "caf\xc3\xa9 \xe4\xb8!", "windows-1252", "default",
         "caf\xc3\x83\xc2\xa9 \xc3\xa4\xc2\xb8!");
    TEXT(NULL, "\xc3\xa9\xa9", "windows-1252", "default", "\xc3\x83\xc2\xa9\xc2\xa9");
    TEXT(NULL, "\xc3\xa9\xff", "windows-1252", "default", "\xc3\x83\xc2\xa9\xc3\xbf");
}

static void utf16_may_say_so_by_its_xml_declaration(void) {
    TEXT("text/xml", "<\0?\0x\0m\0l\0?\0>\0\xe9\0", "utf-16le", "meta",
         "<?xml?>\xc3\xa9");
    TEXT("text/html", "\0<\0?\0x\0m\0l\0?\0>\0\xe9", "utf-16be", "meta",
         "<?xml?>\xc3\xa9");
    BYTES("text/plain", "<\0?\0x\0m\0l\0", "", "");
}

static void bytes_are_not_taken_for_text(void) {
    BYTES("image/png", "plain", "", "");
    BYTES("application/octet-stream; charset=utf-8", "plain", "", "");
    BYTES("application/pdf", "\xef\xbb\xbf", "", "");
    BYTES("text/plain", "a\0b", "", "");
    BYTES(NULL, "a\0b\xff", "", "");
    TEXT("text/plain; charset=windows-1252", "a\x01\xff", "windows-1252", "header",
         "a\x01ÿ");
    hf_text t;
    CHECK_EQ(hf_text_decide(ctx, (const uint8_t *)"a\0b", 3,
                            (const uint8_t *)"text/html; charset=utf-8", 24, 0, &t),
             0);
    CHECK(t.kind == HF_TEXT_UTF8 && t.utf8_len == 3);
}

static void text_can_be_asked_for(void) {
    CHECK(holds(&(expectation){"image/png", "caf\xe9", 4, HF_TEXT_UTF8, "windows-1252",
                               "default", "café"},
                1));
    hf_text t;
    CHECK_EQ(hf_text_decide(ctx, (const uint8_t *)"a\0\xff", 3, NULL, 0, 1, &t), 0);
    CHECK(t.kind == HF_TEXT_UTF8 && t.utf8_len == 4 && t.source == HF_CHARSET_DEFAULT);
    CHECK(holds(&(expectation){"x/y; charset=utf-8", "\xff", 1, HF_TEXT_BASE64, "utf-8",
                               "header", NULL},
                1));
}

static void utf8_is_not_copied(void) {
    static const uint8_t body[] = "\xef\xbb\xbf"
                                  "caf\xc3\xa9";
    hf_text t;
    CHECK_EQ(hf_text_decide(ctx, body + 3, 5, NULL, 0, 0, &t), 0);
    CHECK(t.utf8 == body + 3);
    CHECK_EQ(hf_text_decide(ctx, body, 8, NULL, 0, 0, &t), 0);
    CHECK(t.utf8 == body + 3 && t.utf8_len == 5);
    CHECK_EQ(
        hf_text_decide(ctx, body + 3, 3, (const uint8_t *)"a/b;charset=gbk", 15, 0, &t),
        0);
    CHECK(t.utf8 == body + 3);
}

static void no_key_does_harm(void) {
    static const uint8_t body[] = "caf\xe9 \xff\xfe";
    hf_text t;
    for (uint32_t key = 0; key < 2000; key++) {
        CHECK_EQ(hf_text_recall(ctx, key, body, 7, &t), 0);
        CHECK_EQ(hf_text_recall(ctx, UINT32_MAX - key, body, 7, &t), 0);
        CHECK(t.kind == HF_TEXT_BASE64);
        CHECK_EQ(hf_text_recall(ctx, key, NULL, 0, &t), 0);
        CHECK(t.kind == HF_TEXT_NONE);
    }
}

static void types_of_one_length_are_not_taken_for_each_other(void) {
    char junk[400];
    for (int round = 0; round < 3; round++) {
        TEXT("text/html; charset=utf8", "\xc3\xa9", "utf-8", "header", "\xc3\xa9");
        TEXT("text/html; charset=koi8", "\xc3\xa9", "koi8-r", "header",
             "\xd1\x86\xe2\x95\x98");
        TEXT(NULL, "\xc3\xa9", "utf-8", "valid", "\xc3\xa9");
        BYTES("image/png", "\xc3\xa9", "", "");
    }
    memset(junk, 'x', sizeof junk);
    memcpy(junk, "image/", 6);
    for (size_t n = sizeof junk - 1; n > 100; n -= 20) {
        junk[n] = '\0';
        BYTES(junk, "a", "", "");
        TEXT("text/plain; charset=utf-8", "a", "utf-8", "header", "a");
    }
}

static void a_large_body_is_decoded_whole(void) {
    size_t n = 3u << 20;
    uint8_t *body = malloc(n);
    REQUIRE(body != NULL);
    memset(body, 0xe9, n);
    hf_text t;
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(hf_text_decide(ctx, body, n, NULL, 0, 0, &t), 0);
        CHECK_EQ(t.utf8_len, 2 * n);
        CHECK(memcmp(t.utf8 + 2 * n - 4, "éé", 4) == 0);
    }
    free(body);
}

int main(void) {
    ctx = hf_text_new();
    REQUIRE(ctx != NULL);
    RUN(nothing_is_neither_text_nor_bytes);
    RUN(the_evidence_is_taken_in_its_order);
    RUN(junk_where_a_charset_should_be_counts_as_none);
    RUN(a_false_claim_gives_way_to_valid_utf8);
    RUN(what_cannot_be_decoded_is_bytes_under_the_claimed_name);
    RUN(what_hides_its_text_in_ascii_is_not_taken_for_utf8);
    RUN(utf8_cut_within_a_character_is_no_latin);
    RUN(utf16_may_say_so_by_its_xml_declaration);
    RUN(bytes_are_not_taken_for_text);
    RUN(text_can_be_asked_for);
    RUN(utf8_is_not_copied);
    RUN(no_key_does_harm);
    RUN(types_of_one_length_are_not_taken_for_each_other);
    RUN(a_large_body_is_decoded_whole);
    hf_text_free(ctx);
    hf_text_free(NULL);
    return check_result();
}
