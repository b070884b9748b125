#include <time.h>

#include "libcurl.h"
#include "url.h"

static hf_curl curl;

/* Parses text and returns what would be fetched, or the error text. */
static const char *parsed_bytes(const void *text, size_t n) {
    static char answer[1024];
    hf_url u;
    hf_errbuf err = {answer, sizeof answer};
    if (hf_url_parse(&curl, text, n, &u, err) == 0) {
        CHECK(u.len < sizeof answer && strlen(u.text) == u.len);
        CHECK(strlen(u.shown) == u.shown_len && u.shown[u.path_at] == '/');
        CHECK(strlen(u.hostport) == u.hostport_len && u.hostport[u.host_len] == ':');
        snprintf(answer, sizeof answer, "%s", u.text);
    } else {
        CHECK(u.text == NULL && answer[0] != '\0');
    }
    hf_url_free(&u);
    return answer;
}

static const char *parsed(const char *text) {
    return parsed_bytes(text, strlen(text));
}

static int refused(const void *text, size_t n, const char *why) {
    hf_url u;
    char answer[512] = "";
    int rc = hf_url_parse(&curl, text, n, &u, (hf_errbuf){answer, sizeof answer});
    int holds = rc == HF_EINVAL && strstr(answer, why) != NULL;
    if (!holds) {
        fprintf(stderr, "'%s': code %d, text '%s'\n", (const char *)text, rc, answer);
    }
    hf_url_free(&u);
    return holds;
}
#define REFUSED(text, why) CHECK(refused((text), sizeof(text) - 1, (why)))

static const char *hostport(const char *text) {
    static char answer[512];
    hf_url u;
    snprintf(answer, sizeof answer, "refused");
    if (hf_url_parse(&curl, (const uint8_t *)text, strlen(text), &u,
                     (hf_errbuf){NULL, 0}) == 0) {
        snprintf(answer, sizeof answer, "%s", u.hostport);
    }
    hf_url_free(&u);
    return answer;
}

static void a_plain_url_comes_out_as_it_went_in(void) {
    static const char *const same[] = {
        "http://example.com/",
        "https://example.com/a/b?c=d&e=%20f",
        "http://127.0.0.1:8080/x",
        "http://a_b.example/",
        "http://h/?q",
        "http://h/a..b/.c/..d",
        "http://h/%7Euser/a%2fb?x=/./",
        "http://[::1]:8080/x",
        "http://[fe80::1%25lo]/",
        "http://example.com./",
        "http://user:p%40ss@h/x",
        "http://user@h:81/",
        "http://hg--69.x/",
        "http://h/a|b(c)'d'",
        "http://h/?a|b{c}^`\\",
        "http://xn--bcher-kva.example/",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        CHECK_TEXT(parsed(same[i]), same[i]);
    }
}

static void spelling_is_normalised(void) {
    CHECK_TEXT(parsed("HTTP://ExAmPle.COM"), "http://example.com/");
    CHECK_TEXT(parsed("hTTps://EXAMPLE.com:443?Q"), "https://example.com/?Q");
    CHECK_TEXT(parsed("http://h:80/"), "http://h/");
    CHECK_TEXT(parsed("https://h:80/"), "https://h:80/");
    CHECK_TEXT(parsed("http://h:/x"), "http://h/x");
    CHECK_TEXT(parsed("http://h:00080/x"), "http://h/x");
    CHECK_TEXT(parsed("http://h:000000081/x"), "http://h:81/x");
    CHECK_TEXT(parsed(" \t\r\n http://h/x\r\n "), "http://h/x");
    CHECK_TEXT(parsed("http://h/a/./b/../c"), "http://h/a/c");
    CHECK_TEXT(parsed("http://h/../../x/%2e%2E/y/."), "http://h/y/");
    CHECK_TEXT(parsed("http://h/a/b/.."), "http://h/a/");
    CHECK_TEXT(parsed("http://h/a/%2e./b"), "http://h/b");
    CHECK_TEXT(parsed("http://h/..."), "http://h/...");
    CHECK_TEXT(parsed("http://h//a//./b/"), "http://h//a//b/");
    CHECK_TEXT(parsed("http://h\\a\\b?c\\d"), "http://h/a/b?c\\d");
    CHECK_TEXT(parsed("http:\\\\h\\a"), "http://h/a");
    CHECK_TEXT(parsed("http://@h/"), "http://h/");
    CHECK_TEXT(parsed("http://:@h/"), "http://h/");
    CHECK_TEXT(parsed("http://a@b:c@d@h/"), "http://a%40b:c%40d@h/");
    CHECK_TEXT(parsed("http://u:a:b@h/"), "http://u:a%3Ab@h/");
}

static void what_may_not_stand_raw_is_escaped(void) {
    CHECK_TEXT(parsed("http://h/a b?c d"), "http://h/a%20b?c%20d");
    CHECK_TEXT(parsed("http://h/\"<>^`{}"), "http://h/%22%3C%3E%5E%60%7B%7D");
    CHECK_TEXT(parsed("http://h/?\"<>'"), "http://h/?%22%3C%3E%27");
    CHECK_TEXT(parsed("http://h/\xc3\xa4?\xc3\xbc"), "http://h/%C3%A4?%C3%BC");
    CHECK_TEXT(parsed("http://h/caf\xe9?\xff"), "http://h/caf%E9?%FF");
    CHECK_TEXT(parsed("http://h/100%"), "http://h/100%");
    CHECK_TEXT(parsed("http://h/%zz"), "http://h/%zz");
}

static void names_of_the_world_become_punycode_in_any_locale(void) {
    CHECK_TEXT(parsed("http://b\xc3\xbc"
                      "cher.example/\xc3\xa4"),
               "http://xn--bcher-kva.example/%C3%A4");
    CHECK_TEXT(parsed("http://Z\xc3\x9c"
                      "RICH.example:81/"),
               "http://xn--zrich-kva.example:81/");
    CHECK_TEXT(parsed("http://fa\xc3\x9f.de/"), "http://xn--fa-hia.de/");
    CHECK_TEXT(parsed("http://\xf0\x9f\x92\xa9.la/"), "http://xn--ls8h.la/");
    CHECK_TEXT(parsed("http://ex\xe3\x80\x82"
                      "com/"),
               "http://ex.com/");
    CHECK_TEXT(parsed("http://%C3%BC.com/"), "http://xn--tda.com/");
    CHECK_TEXT(parsed("http://ex%41mple.com/"), "http://example.com/");
    CHECK_TEXT(parsed("http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.1/"),
               "http://127.0.0.1/");
    REFUSED("http://b\xfc"
            "cher.example/",
            "not UTF-8");
}

static void odd_addresses_get_one_spelling(void) {
    CHECK_TEXT(parsed("http://127.1/"), "http://127.0.0.1/");
    CHECK_TEXT(parsed("http://0x7f.1/"), "http://127.0.0.1/");
    CHECK_TEXT(parsed("http://2130706433/"), "http://127.0.0.1/");
    CHECK_TEXT(parsed("http://0177.0.0.01/"), "http://127.0.0.1/");
    CHECK_TEXT(parsed("http://0/"), "http://0.0.0.0/");
    CHECK_TEXT(parsed("http://[1:2::0003]/"), "http://[1:2::3]/");
    CHECK_TEXT(parsed("http://[FE80::A%25Eth0]:8/"), "http://[fe80::a%25Eth0]:8/");
    CHECK_TEXT(parsed("http://[fe80::a%eth0]/"), "http://[fe80::a%25eth0]/");
    CHECK_TEXT(hostport("http://[::1]/"), "[::1]:80");
    CHECK_TEXT(hostport("https://User:pw@EXAMPLE.com/"), "example.com:443");
    CHECK_TEXT(hostport("http://127.1:99/"), "127.0.0.1:99");
}

static void unfit_hosts_are_refused(void) {
    char label[128] = "http://";
    char name[512] = "http://";
    memset(label + 7, 'a', 64);
    strncat(label, ".com/", 6);
    CHECK(refused(label, strlen(label), "label of 64 bytes"));
    for (int i = 0; i < 100; i++) {
        strncat(name, "ab.", 4);
    }
    strncat(name, "com/", 5);
    CHECK(refused(name, strlen(name), "longer than 253"));
    REFUSED("http://a..b/", "empty label");
    REFUSED("http://.a/", "empty label");
    REFUSED("http://a../", "host");
    REFUSED("http://./", "host");
    REFUSED("http:///x", "//HOST");
    REFUSED("http:/x", "//HOST");
    REFUSED("http://", "no host");
    REFUSED("http://:80/", "no host");
    REFUSED("http://u:p@/", "no host");
    REFUSED("http://?x", "no host");
    REFUSED("http://[::1/", "host");
    REFUSED("http://[::1]x/", "host");
    REFUSED("http://[::g]/", "host");
    REFUSED("http://[::1%25]/", "host");
    REFUSED("http://[]/", "host");
    REFUSED("http://::1/", "brackets");
    REFUSED("http://a%00b/", "host");
    REFUSED("http://a%2fb/", "host");
    REFUSED("http://a%20b/", "host");
    REFUSED("http://a b/", "0x20");
    REFUSED("http://a<b/", "host");
    REFUSED("http://h:0/", "port");
    REFUSED("http://h:65536/", "port");
    REFUSED("http://h:4294967376/", "port");
    REFUSED("http://h:8x/", "port");
    REFUSED("http://h:-1/", "port");
}

static void controls_anywhere_inside_are_refused(void) {
    REFUSED("http://h/\r\nX: y", "0x0d");
    REFUSED("http://h/a\nb", "0x0a");
    REFUSED("http://h/a\0b", "0x00");
    REFUSED("http://h/a\tb", "0x09");
    REFUSED("http://h/\x7f", "0x7f");
    REFUSED("http://h\0.example/", "0x00");
    REFUSED("http://h/x#\x01y", "0x01");
    REFUSED("http://u\n:p@h/", "0x0a");
    REFUSED("http://u%0d%0aX:p@h/", "user info");
    REFUSED("http://u:p%7F@h/", "user info");
}

static void other_schemes_and_none_are_told_apart(void) {
    REFUSED("", "empty");
    REFUSED(" \t ", "empty");
    REFUSED("ftp://h/", "other than http");
    REFUSED("file:///etc/passwd", "other than http");
    REFUSED("httpx://h/", "other than http");
    REFUSED("example.com/x", "no scheme");
    REFUSED("localhost:80/x", "scheme");
    REFUSED("://h/", "no scheme");
    REFUSED("::1", "no scheme");
    REFUSED("javascript:alert(1)", "scheme");
}

static void long_urls_pass_up_to_the_cap(void) {
    static const size_t fits[] = {8192, 65536, HF_URL_MAX - 9};
    static char text[9u << 20];
    hf_url u;
    memset(text, 'a', sizeof text);
    memcpy(text, "http://h/", 9);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(hf_url_parse(&curl, (uint8_t *)text, 9 + fits[i], &u, (hf_errbuf){0}),
                 0);
        CHECK_EQ(u.len, 9 + fits[i]);
        hf_url_free(&u);
    }
    CHECK(refused(text, HF_URL_MAX + 1, "bytes long"));
    CHECK(refused(text, 1100000, "bytes long"));
    CHECK(refused(text, sizeof text, "bytes long"));
    memset(text + 9, 0xe9, 65536);
    CHECK_EQ(hf_url_parse(&curl, (uint8_t *)text, 9 + 65536, &u, (hf_errbuf){0}), 0);
    CHECK_EQ(u.len, 9 + 3 * 65536);
    hf_url_free(&u);
}

static void user_info_stays_out_of_what_is_shown(void) {
    hf_url u;
    const char *text = "https://me:s%40cret@h:81/a?b#frag ment";
    REQUIRE(hf_url_parse(&curl, (const uint8_t *)text, strlen(text), &u,
                         (hf_errbuf){0}) == 0);
    CHECK_TEXT(u.text, "https://me:s%40cret@h:81/a?b");
    CHECK_TEXT(u.shown, "https://h:81/a?b");
    CHECK_TEXT(u.shown + u.path_at, "/a?b");
    CHECK_TEXT(u.hostport, "h:81");
    CHECK_TEXT(u.fragment, "frag%20ment");
    CHECK(u.tls && u.has_user && u.has_password && u.port == 81);
    hf_url_free(&u);
    REQUIRE(hf_url_parse(&curl, (const uint8_t *)"http://h/", 9, &u, (hf_errbuf){0}) ==
            0);
    CHECK(u.shown == u.text && u.fragment == NULL && !u.has_user && !u.has_password);
    hf_url_free(&u);
}

static void an_error_never_holds_the_password(void) {
    static const char *const bad[] = {
        "http://me:hunter2@a..b/",   "http://me:hunter2@h:0/",
        "ftp://me:hunter2@h/",       "me:hunter2@h/",
        "http://me:hun/hunter2@h/",  "http:me:hunter2@h/",
        "http://me:hunter2@h/\n/",   "http:///me:hunter2@h/",
        "ht\ttp://me:hunter2@h\x01", "http://me:hunter2@[::1/",
        "http://me:x?hunter2@h/"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hf_url u;
        char text[512] = "";
        int rc = hf_url_parse(&curl, (const uint8_t *)bad[i], strlen(bad[i]), &u,
                              (hf_errbuf){text, sizeof text});
        CHECK(strstr(text, "hunter2") == NULL);
        CHECK_EQ(rc, HF_EINVAL);
        hf_url_free(&u);
    }
}

/* ---- Redirects ---- */

static const char *resolved_from(const char *base, const char *location) {
    static char answer[1024];
    hf_url b;
    hf_url u;
    hf_errbuf err = {answer, sizeof answer};
    REQUIRE(hf_url_parse(&curl, (const uint8_t *)base, strlen(base), &b, err) == 0);
    if (hf_url_resolve(&curl, &b, (const uint8_t *)location, strlen(location), &u,
                       err) == 0) {
        snprintf(answer, sizeof answer, "%s%s%s", u.text, u.fragment ? "#" : "",
                 u.fragment ? u.fragment : "");
    } else {
        CHECK(u.text == NULL);
        memcpy(answer, "error: ", 7);
    }
    hf_url_free(&u);
    hf_url_free(&b);
    return answer;
}

static const char *resolved(const char *location) {
    return resolved_from("http://h:81/a/b/c?q#old", location);
}

static void a_location_is_read_as_browsers_do(void) {
    CHECK_TEXT(resolved("https://x/y"), "https://x/y#old");
    CHECK_TEXT(resolved("//x/y"), "http://x/y#old");
    CHECK_TEXT(resolved("/y"), "http://h:81/y#old");
    CHECK_TEXT(resolved("y"), "http://h:81/a/b/y#old");
    CHECK_TEXT(resolved("../y?z"), "http://h:81/a/y?z#old");
    CHECK_TEXT(resolved("./"), "http://h:81/a/b/#old");
    CHECK_TEXT(resolved(".."), "http://h:81/a/#old");
    CHECK_TEXT(resolved("?z"), "http://h:81/a/b/c?z#old");
    CHECK_TEXT(resolved("#new"), "http://h:81/a/b/c?q#new");
    CHECK_TEXT(resolved("/y#"), "http://h:81/y#");
    CHECK_TEXT(resolved("/y#new"), "http://h:81/y#new");
    CHECK_TEXT(resolved_from("http://h", "y"), "http://h/y");
    CHECK_TEXT(resolved_from("http://h/?a/b", "y"), "http://h/y");
    CHECK_TEXT(resolved_from("http://u:p@h/", "/y"), "http://u:p@h/y");
    CHECK_TEXT(resolved_from("http://u:p@h/", "//x/y"), "http://x/y");
}

static void odd_locations_are_repaired(void) {
    CHECK_TEXT(resolved("  /y \r\n"), "http://h:81/y#old");
    CHECK_TEXT(resolved("/a\tb\nc"), "http://h:81/abc#old");
    CHECK_TEXT(resolved("/a b?c d"), "http://h:81/a%20b?c%20d#old");
    CHECK_TEXT(resolved("\\\\x\\y"), "http://x/y#old");
    CHECK_TEXT(resolved("http:/y"), "http://h:81/y#old");
    CHECK_TEXT(resolved("http:y"), "http://h:81/a/b/y#old");
    CHECK_TEXT(resolved("https:/x/y"), "https://x/y#old");
    CHECK_TEXT(resolved("https:x/y"), "https://x/y#old");
    CHECK_TEXT(resolved("///x/y"), "http://x/y#old");
    CHECK_TEXT(resolved("http:////x/y"), "http://x/y#old");
    CHECK_TEXT(resolved("/\xc3\xa4\xff"), "http://h:81/%C3%A4%FF#old");
    CHECK_TEXT(resolved("/a\x01\x7f"), "http://h:81/a%01%7F#old");
    CHECK_TEXT(resolved("HTTP://B\xc3\x9c"
                        "CHER.example"),
               "http://xn--bcher-kva.example/#old");
    CHECK_TEXT(resolved("http://good\\@evil/"), "http://good/@evil/#old");
}

static void locations_that_lead_elsewhere_are_refused(void) {
    static const char *const bad[] = {"",
                                      " \n",
                                      "file:///etc/passwd",
                                      "gopher://x/",
                                      "javascript:alert(1)",
                                      "data:,x",
                                      "x.example:80/y",
                                      "http://",
                                      "https:",
                                      "//",
                                      "http://a..b/",
                                      "http://h:0/",
                                      "http://a\x01"
                                      "b/",
                                      "//u%0a@x/",
                                      "//u\x01@x/"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (!CHECK(strncmp(resolved(bad[i]), "error: ", 7) == 0)) {
            fprintf(stderr, "  accepted '%s'\n", bad[i]);
        }
    }
}

/* Each hop may add its own length to a path: that ends somewhere. */
static void hops_can_not_grow_a_url_for_ever(void) {
    static char folder[HF_URL_MAX];
    hf_url u;
    hf_url next;
    int hops = 0;
    int rc = 0;
    memset(folder, 'a', sizeof folder);
    folder[sizeof folder - 1] = '/';
    REQUIRE(hf_url_parse(&curl, (const uint8_t *)"http://h/", 9, &u, (hf_errbuf){0}) ==
            0);
    while (rc == 0 && hops < 10) {
        rc = hf_url_resolve(&curl, &u, (uint8_t *)folder, sizeof folder, &next,
                            (hf_errbuf){0});
        hf_url_free(&u);
        u = next;
        hops += rc == 0;
    }
    CHECK_EQ(rc, HF_EINVAL);
    CHECK(hops > 1 && hops < 10);
    hf_url_free(&u);
}

static void an_origin_is_scheme_host_and_port(void) {
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {{"http://h/", "http://H:80/x", true},
                 {"http://u@h/", "http://h/", true},
                 {"http://h/", "https://h:80/", false},
                 {"http://h/", "http://h:81/", false},
                 {"http://h/", "http://g/", false},
                 {"http://127.1/", "http://127.0.0.1/", true}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        hf_url a;
        hf_url b;
        REQUIRE(hf_url_parse(&curl, (const uint8_t *)pairs[i].a, strlen(pairs[i].a), &a,
                             (hf_errbuf){0}) == 0);
        REQUIRE(hf_url_parse(&curl, (const uint8_t *)pairs[i].b, strlen(pairs[i].b), &b,
                             (hf_errbuf){0}) == 0);
        CHECK(hf_url_same_origin(&a, &b) == pairs[i].same);
        hf_url_free(&a);
        hf_url_free(&b);
    }
}

int main(int argc, char **argv) {
    load_libcurl(&curl);
    if (argc > 1 && strcmp(argv[1], "speed") == 0) {
        static const char text[] = "http://127.0.0.1:8080/some/path/item-123456?page=7";
        struct timespec a;
        struct timespec b;
        hf_url u;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 1000000; i++) {
            (void)hf_url_parse(&curl, (const uint8_t *)text, sizeof text - 1, &u,
                               (hf_errbuf){0});
            hf_url_free(&u);
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        fprintf(stderr, "%.1f ns a URL\n",
                (double)(b.tv_sec - a.tv_sec) * 1e3 +
                    (double)(b.tv_nsec - a.tv_nsec) / 1e6);
        return 0;
    }
    RUN(a_plain_url_comes_out_as_it_went_in);
    RUN(spelling_is_normalised);
    RUN(what_may_not_stand_raw_is_escaped);
    RUN(names_of_the_world_become_punycode_in_any_locale);
    RUN(odd_addresses_get_one_spelling);
    RUN(unfit_hosts_are_refused);
    RUN(controls_anywhere_inside_are_refused);
    RUN(other_schemes_and_none_are_told_apart);
    RUN(long_urls_pass_up_to_the_cap);
    RUN(user_info_stays_out_of_what_is_shown);
    RUN(an_error_never_holds_the_password);
    RUN(a_location_is_read_as_browsers_do);
    RUN(odd_locations_are_repaired);
    RUN(locations_that_lead_elsewhere_are_refused);
    RUN(hops_can_not_grow_a_url_for_ever);
    RUN(an_origin_is_scheme_host_and_port);
    return check_result();
}
