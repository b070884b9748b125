/* URLs, Locations, proxies and redaction on any bytes. What is accepted must be clean,
 * come out of another reading unchanged, and be the same on the quick and the careful
 * way. Needs HARDFETCH_LIBCURL at run time, and HF_FAKE_DIR, the folder of
 * fake_python.so, at build time (tests/c/libcurl.h). */
#include "../c/libcurl.h"
#include "proxyurl.h"
#include "url.h"
#include "urlsafe.h"

static hf_curl curl;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    load_libcurl(&curl);
    return 0;
}

static void check_clean(const hf_url *u) {
    REQUIRE(strlen(u->text) == u->len && strlen(u->shown) == u->shown_len);
    REQUIRE(strlen(u->hostport) == u->hostport_len);
    REQUIRE(u->hostport[u->host_len] == ':' && u->shown[u->path_at] == '/');
    for (uint32_t i = 0; i < u->len; i++) {
        REQUIRE(u->text[i] > 0x20 && u->text[i] < 0x7f && u->text[i] != '#');
    }
    REQUIRE(u->port > 0);
    REQUIRE(u->has_user || u->has_password || u->shown == u->text);
    /* No user info in what is shown. */
    for (uint32_t i = 0; i < u->path_at; i++) {
        REQUIRE(u->shown[i] != '@');
    }
}

static void check_again(const hf_url *u, const hf_url *base) {
    hf_url again;
    hf_errbuf none = {NULL, 0};
    REQUIRE(hf_url_parse(&curl, (uint8_t *)u->text, u->len, &again, none) == 0);
    REQUIRE(strcmp(again.text, u->text) == 0 && hf_url_same_origin(&again, u));
    hf_url_free(&again);
    REQUIRE(hf_url_resolve(&curl, base, (uint8_t *)u->text, u->len, &again, none) == 0);
    REQUIRE(strcmp(again.text, u->text) == 0 && strcmp(again.shown, u->shown) == 0);
    REQUIRE(strcmp(again.hostport, u->hostport) == 0 && again.path_at == u->path_at);
    hf_url_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char base_text[] = "https://me:pw@base.example:81/a/b?c#d";
    char text[512];
    hf_errbuf err = {text, sizeof text};
    hf_url base;
    hf_url u;
    hf_proxy p;
    hf_buf b = hf_buf_make(1 << 20);
    REQUIRE(hf_url_parse(&curl, (const uint8_t *)base_text, sizeof base_text - 1, &base,
                         err) == 0);
    if (hf_url_parse(&curl, data, n, &u, err) == 0) {
        check_clean(&u);
        check_again(&u, &base);
    }
    hf_url_free(&u);
    if (hf_url_resolve(&curl, &base, data, n, &u, err) == 0) {
        check_clean(&u);
        check_again(&u, &base);
    }
    hf_url_free(&u);
    if (hf_proxy_parse(&curl, data, n, &p, err) == 0) {
        REQUIRE(strlen(p.url) == p.url_len && strchr(p.url, '@') == NULL);
        REQUIRE(p.user == NULL ||
                hf_http_value_valid((const uint8_t *)p.user, strlen(p.user)));
        REQUIRE(p.password == NULL || p.user != NULL);
    }
    hf_proxy_free(&p);
    REQUIRE(hf_url_redact(data, n, &b) == 0 || n > 1000000);
    hf_buf_free(&b);
    REQUIRE(hf_url_strip_userinfo(data, n, &b) == 0 || n > 1000000);
    hf_buf_free(&b);
    char excerpt[HF_EXCERPT_CAP];
    REQUIRE(strlen(hf_url_excerpt(data, n, excerpt)) < sizeof excerpt);
    hf_url_free(&base);
    return 0;
}
