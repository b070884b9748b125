/* What libcurl is let ask a name server for. */
#include <stdarg.h>

#include "engine.h"
#include "engine_play.h"

#define SECOND 1000000

enum { A = 1, HTTPS = 65 };

/* A name server: every name is 127.0.0.1 and has nothing else. */
typedef struct names {
    int fd;
    char where[32];
    pthread_t thread;
    atomic_int asked[256]; /* by the type's low byte */
} names;

static names N;

static void *serve(void *unused) {
    static const uint8_t address[] = {0xc0, 12, 0, A, 0,   1, 0, 0,
                                      0,    60, 0, 4, 127, 0, 0, 1};
    uint8_t packet[512];
    struct sockaddr_in from;
    (void)unused;
    for (;;) {
        socklen_t size = sizeof from;
        ssize_t n = recvfrom(N.fd, packet, sizeof packet - sizeof address, 0,
                             (struct sockaddr *)&from, &size);
        if (n <= 0) {
            return NULL;
        }
        size_t at = 12;
        while (at < (size_t)n && packet[at] != 0) {
            at += packet[at] + 1u;
        }
        if (at + 5 > (size_t)n) {
            continue;
        }
        int type = packet[at + 2];
        atomic_fetch_add(&N.asked[type], 1);
        size_t len = at + 5;
        packet[2] = 0x81;
        packet[3] = 0x80;
        memset(packet + 6, 0, 6);
        if (type == A) {
            packet[7] = 1;
            memcpy(packet + len, address, sizeof address);
            len += sizeof address;
        }
        (void)sendto(N.fd, packet, len, 0, (struct sockaddr *)&from, size);
    }
}

static void open_names(void) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    memset(&N, 0, sizeof N);
    N.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    REQUIRE(N.fd >= 0 && bind(N.fd, (struct sockaddr *)&a, size) == 0 &&
            getsockname(N.fd, (struct sockaddr *)&a, &size) == 0 &&
            pthread_create(&N.thread, NULL, serve, NULL) == 0);
    snprintf(N.where, sizeof N.where, "127.0.0.1:%d", ntohs(a.sin_port));
    play_site();
    P.cfg.dns_servers = N.where;
    P.cfg.loops = 1;
    play_open();
}

static void close_names(void) {
    CHECK(play_finish(20 * (int64_t)SECOND) && play_each_once());
    play_close();
    shutdown(N.fd, SHUT_RDWR);
    pthread_join(N.thread, NULL);
    close(N.fd);
}

/* Nobody listens on port 1, so this much tells that a name had an address. */
static void try_host(const char *scheme, const char *host) {
    char line[128];
    int n = snprintf(line, sizeof line, "%s://%s:1/\n", scheme, host);
    play_lines(line, (size_t)n);
    P.submitted++;
    play_read(P.submitted, 10 * (int64_t)SECOND);
    CHECK(play_has(P.submitted - 1, "error.type", "\"connect_refused\""));
}

static void few_hosts_are_asked_for_an_https_record(void) {
    char host[32];
    open_names();
    for (int i = 0; i < 20; i++) {
        snprintf(host, sizeof host, "h%d.test", i);
        try_host("https", host);
        try_host("http", "plain.test");
    }
    CHECK_EQ(N.asked[A], 21);
    CHECK_EQ(N.asked[HTTPS], 0);
    CHECK_EQ(P.e->loops[0]->refusing, 1);
    for (int i = 0; i < 100; i++) {
        try_host("https", "often.test");
    }
    /* With the fifth connection; what it learns is kept from then on. */
    CHECK_EQ(N.asked[A], 22);
    CHECK_EQ(N.asked[HTTPS], 1);
    close_names();
}

static void ech_needs_it(void) {
    open_names();
    hf_engine_free(P.e);
    P.cfg.ech = HF_ECH_DNS;
    play_open();
    try_host("https", "a.test");
    try_host("https", "b.test");
    CHECK_EQ(N.asked[HTTPS], 2);
    close_names();
}

/* --- a libcurl that asks for addresses first ---------------------------------------
 */

static int (*real_setopt)(CURL *, int, ...);
static int (*on_resolve)(void *, void *, void *);
static int questions;

/* The query for the HTTPS record is refused without a word to the engine. */
static int second_only(void *resolver, void *reserved, void *data) {
    return questions++ % 2 == 0 ? 1 : on_resolve(resolver, reserved, data);
}

static int hiding(CURL *easy, int option, ...) {
    va_list ap;
    va_start(ap, option);
    void *value = va_arg(ap, void *); /* a long or an offset passes likewise */
    va_end(ap);
    if (option == CURLOPT_RESOLVER_START_FUNCTION) {
        memcpy(&on_resolve, &value, sizeof value);
        return real_setopt(easy, option, second_only);
    }
    return real_setopt(easy, option, value);
}

static void hide(void) {
    hf_curl *c = (hf_curl *)P.e->loops[0]->curl;
    real_setopt = c->curl_easy_setopt;
    c->curl_easy_setopt = hiding;
    questions = 0;
}

static void a_refused_address_is_asked_for_again(void) {
    open_names();
    hide();
    try_host("https", "a.test");
    CHECK_EQ(N.asked[A], 1);
    CHECK_EQ(questions, 4); /* of two tries */
    CHECK_EQ(P.e->loops[0]->refusing, -1);
    try_host("https", "b.test");
    CHECK_EQ(questions, 6);
    CHECK_EQ(N.asked[A], 2);
    close_names();
}

/* Once it has worked, one that was taken for the other does not end it. */
static void what_has_worked_is_kept(void) {
    open_names();
    hide();
    P.e->loops[0]->refusing = 1;
    try_host("https", "a.test");
    CHECK_EQ(questions, 4);
    CHECK_EQ(P.e->loops[0]->refusing, 1);
    close_names();
}

/* A record that is kept longer than the address shows it the other way round as well.
 */
static void one_that_may_be_known_ends_it_as_little(void) {
    static const char key[] = "a.test:1";
    open_names();
    hide();
    hf_hosts *hosts = &P.e->loops[0]->shard->schedule.hosts;
    hf_host *h = hf_hosts_get(hosts, key, sizeof key - 1);
    REQUIRE(h);
    h->tls_made = 10;
    hf_hosts_idle(hosts, h, hf_now());
    try_host("https", "a.test");
    CHECK_EQ(questions, 4);
    CHECK_EQ(P.e->loops[0]->refusing, 0);
    close_names();
}

int main(void) {
    RUN(few_hosts_are_asked_for_an_https_record);
    RUN(ech_needs_it);
    RUN(a_refused_address_is_asked_for_again);
    RUN(what_has_worked_is_kept);
    RUN(one_that_may_be_known_ends_it_as_little);
    return check_result();
}
