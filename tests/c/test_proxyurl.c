#include "libcurl.h"
#include "proxyurl.h"

static hf_curl curl;

/* "url|user|password", or the error text. */
static const char *proxy(const char *text, size_t n) {
    static char answer[512];
    char why[512] = "";
    hf_proxy p;
    if (hf_proxy_parse(&curl, (const uint8_t *)text, n, &p,
                       (hf_errbuf){why, sizeof why}) == 0) {
        CHECK(strlen(p.url) == p.url_len);
        snprintf(answer, sizeof answer, "%s|%s|%s", p.url, p.user ? p.user : "-",
                 p.password ? p.password : "-");
    } else {
        CHECK(p.url == NULL && why[0] != '\0');
        snprintf(answer, sizeof answer, "%s", why);
    }
    hf_proxy_free(&p);
    return answer;
}
#define PROXY(text) proxy((text), sizeof(text) - 1)

static void a_proxy_is_told_apart_into_server_and_credentials(void) {
    CHECK_TEXT(PROXY("http://h:3128"), "http://h:3128|-|-");
    CHECK_TEXT(PROXY("http://h:3128/"), "http://h:3128|-|-");
    CHECK_TEXT(PROXY(" HTTP://H:3128\r\n"), "http://h:3128|-|-");
    CHECK_TEXT(PROXY("h:3128"), "http://h:3128|-|-");
    CHECK_TEXT(PROXY("u:p@h:3128"), "http://h:3128|u|p");
    CHECK_TEXT(PROXY("http://u:p%40s%3As@h:3128"), "http://h:3128|u|p@s:s");
    CHECK_TEXT(PROXY("http://u:a:b@c@h:3128"), "http://h:3128|u|a:b@c");
    CHECK_TEXT(PROXY("http://u:100%@h:3128"), "http://h:3128|u|100%");
    CHECK_TEXT(PROXY("http://u:a%4@h:3128"), "http://h:3128|u|a%4");
    CHECK_TEXT(PROXY("http://token@h:3128"), "http://h:3128|token|-");
    CHECK_TEXT(PROXY("http://token:@h:3128"), "http://h:3128|token|");
    CHECK_TEXT(PROXY("http://:p@h:3128"), "http://h:3128||p");
    CHECK_TEXT(PROXY("http://@h:3128"), "http://h:3128|-|-");
    CHECK_TEXT(PROXY("https://h"), "https://h:443|-|-");
    CHECK_TEXT(PROXY("socks4://h"), "socks4://h:1080|-|-");
    CHECK_TEXT(PROXY("socks4a://h:1"), "socks4a://h:1|-|-");
    CHECK_TEXT(PROXY("socks5://u:p@127.1:9050"), "socks5://127.0.0.1:9050|u|p");
    CHECK_TEXT(PROXY("socks5h://[::1]:9050"), "socks5h://[::1]:9050|-|-");
    CHECK_TEXT(PROXY("http://[fe80::1%25lo]:1"), "http://[fe80::1%25lo]:1|-|-");
}

static void a_bad_proxy_is_named_without_its_password(void) {
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "empty"},
        {"http://u:hunter2@h", "no port"},
        {"http://u:hunter2@h:0", "port"},
        {"http://u:hunter2@h:99999", "port"},
        {"http://u:hunter2@", "no host"},
        {"ftp://u:hunter2@h:1", "unknown scheme"},
        {"://u:hunter2@h:1", "unknown scheme"},
        {"http://u:hunter2@h:1/path", "more than a server"},
        {"http://u:/hunter2@h:1", "more than a server"},
        {"http://u:x#hunter2@h:1", "more than a server"},
        {"http://u:hunter2@a..b:1", "empty label"},
        {"http://u:hunter2@::1:1", "brackets"},
        {"http://u:hunter2@[::1:1", "host"},
        {"http://u%0d:hunter2@h:1", "user info"},
        {"http://u:hunter2%00@h:1", "user info"},
        {"http://u\r\nX:hunter2@h:1", "control character"},
        {"http://u:hunter2@h\t:1", "control character"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why = proxy(bad[i].text, strlen(bad[i].text));
        if (!CHECK(strstr(why, bad[i].why) != NULL && strstr(why, "hunter2") == NULL)) {
            fprintf(stderr, "  '%s' gave '%s'\n", bad[i].text, why);
        }
    }
    CHECK(strstr(PROXY("http://u\0:p@h:1"), "control character") != NULL);
}

static void an_overlong_proxy_is_refused(void) {
    char text[HF_PROXY_MAX + 2];
    memset(text, 'a', sizeof text);
    CHECK(strstr(proxy(text, sizeof text), "bytes long") != NULL);
}

int main(void) {
    load_libcurl(&curl);
    RUN(a_proxy_is_told_apart_into_server_and_credentials);
    RUN(a_bad_proxy_is_named_without_its_password);
    RUN(an_overlong_proxy_is_refused);
    return check_result();
}
