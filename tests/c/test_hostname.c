#include <locale.h>

#include "hostname.h"
#include "libcurl.h"

static hf_curl curl;

static const char *host(const char *text, size_t n) {
    static char answer[HF_HOST_CAP + 256];
    char out[HF_HOST_CAP];
    char why[128] = "";
    int rc = hf_hostname_normalise(&curl, (const uint8_t *)text, n, out,
                                   (hf_errbuf){why, sizeof why});
    CHECK(rc < 0 || (size_t)rc == strlen(out));
    snprintf(answer, sizeof answer, "%s%s", rc < 0 ? "error: " : "",
             rc < 0 ? why : out);
    return answer;
}
#define HOST(text) host((text), sizeof(text) - 1)

static void plain_names_need_no_asking(void) {
    static const char *const plain[] = {"a",
                                        "A.b",
                                        "a_b.c-d",
                                        "1a.example",
                                        "127.0.0.1",
                                        "255.255.255.255",
                                        "xn--bcher-kva.example"};
    static const char *const odd[] = {
        "",         "a.",        ".a",        "a..b",  "127.1",       "0x7f.1", "1",
        "01.2.3.4", "1.2.3.256", "1.2.3.4.5", "1.2.3", "\xc3\xbc.de", "[::1]",  "%41"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        CHECK_EQ(hf_hostname_plain((const uint8_t *)plain[i], strlen(plain[i])),
                 strlen(plain[i]));
    }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        CHECK_EQ(hf_hostname_plain((const uint8_t *)odd[i], strlen(odd[i])), 0);
    }
    CHECK_EQ(hf_hostname_plain((const uint8_t *)"h.example:80/", 13), 9);
}

static void labels_and_names_have_their_limits(void) {
    char name[300];
    memset(name, 'a', sizeof name);
    CHECK_TEXT(host(name, 64),
               "error: has a label of 64 bytes; at most 63 are allowed");
    CHECK_EQ(strlen(host(name, 63)), 63);
    for (size_t i = 63; i < sizeof name; i += 64) {
        name[i] = '.';
    }
    CHECK_EQ(strlen(host(name, 253)), 253);
    CHECK_TEXT(host(name, 254), "error: is longer than 253 bytes");
    CHECK_TEXT(host(name, 290), "error: is longer than 253 bytes");
}

static void the_locale_of_the_process_stays_as_it_was(void) {
    locale_t before = uselocale((locale_t)0);
    CHECK_TEXT(HOST("b\xc3\xbc"
                    "cher.example"),
               "xn--bcher-kva.example");
    CHECK(uselocale((locale_t)0) == before);
    CHECK_TEXT(setlocale(LC_CTYPE, NULL), "C");
}

static void bytes_that_no_host_holds_are_refused(void) {
    CHECK(strncmp(HOST("a\0b"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("a b"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("a/b"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("a@b"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("a:80"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("a%0ab"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("a%"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("\xff"), "error: ", 7) == 0);
    CHECK(strncmp(HOST("[::1%25lo/]"), "error: ", 7) == 0);
    static const char *const numbers[] = {
        "256.0.0.1", "1.2.3.4.5", "4294967296", "1.2.3.08", "a.1", "a.0x", "a.0xff."};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int ok = CHECK_TEXT(host(numbers[i], strlen(numbers[i])),
                            "error: ends in a number but is no IPv4 address");
        if (!ok) {
            fprintf(stderr, "    host: %s\n", numbers[i]);
        }
    }
    CHECK_TEXT(HOST("127.0.0.1."), "127.0.0.1");
    CHECK_TEXT(HOST("a.1b"), "a.1b");
    CHECK_TEXT(HOST("a.0xg"), "a.0xg");
    CHECK(strncmp(HOST("[::1%25aaaaaaaaaaaaaaaa]"), "error: ", 7) == 0);
}

int main(void) {
    load_libcurl(&curl);
    RUN(plain_names_need_no_asking);
    RUN(labels_and_names_have_their_limits);
    RUN(the_locale_of_the_process_stays_as_it_was);
    RUN(bytes_that_no_host_holds_are_refused);
    return check_result();
}
