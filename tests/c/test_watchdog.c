/* Deadlines when libcurl does not come back, over a libcurl that hangs on demand
 * (fake_wedge.c): for half a minute, or until a test has seen enough. */
#include <signal.h>

#include "engine_play.h"
#include "identity.h"
#include "packed.h"
#include "starved.h"

#define SECOND 1000000
#define FAKE HF_FAKE_DIR "/fake_wedge.so"

static void (*wedge)(const char *);
static int (*wedge_count)(const char *);
static int (*wedge_busy)(void);
static void (*wedge_release)(void);

static void find(void *library, const char *name, void *slot) {
    void *p = dlsym(library, name);
    REQUIRE(p != NULL);
    memcpy(slot, &p, sizeof p);
}

static void load_fake(void) {
    const char *path = getenv("HARDFETCH_LIBCURL");
    hf_curl c;
    load_libcurl(&c);
    setenv("HARDFETCH_REAL_LIBCURL", path, 1);
    void *library = dlopen(FAKE, RTLD_NOW);
    REQUIRE(library != NULL);
    find(library, "fake_wedge", &wedge);
    find(library, "fake_wedge_count", &wedge_count);
    find(library, "fake_wedge_busy", &wedge_busy);
    find(library, "fake_wedge_release", &wedge_release);
}

static void play_wedged(const char *hang) {
    char spec[128];
    play_site();
    P.cfg.libcurl = FAKE;
    P.cfg.timeout = 300000;
    P.cfg.hard_timeout = 600000;
    P.cfg.max_per_host = 4;
    snprintf(spec, sizeof spec, "hang=%s,ms=30000", hang);
    wedge(spec);
}

static void wait_until_free(void) {
    int64_t until = hf_now() + 20 * (int64_t)SECOND;
    wedge_release();
    while (wedge_busy() > 0 && hf_now() < until) {
        usleep(10000);
    }
    CHECK_EQ(wedge_busy(), 0);
}

static void wait_until_busy(void) {
    int64_t until = hf_now() + 5 * (int64_t)SECOND;
    while (wedge_busy() == 0 && hf_now() < until) {
        usleep(1000);
    }
    CHECK_EQ(wedge_busy(), 1);
}

static hf_stats stats(void) {
    hf_stats st;
    hf_engine_stats(P.e, &st);
    return st;
}

/* One call hangs while twenty transfers run and forty wait: all are answered by hard +
 * 1 s, and the backlog goes on. */
static void a_call_that_hangs_costs_those_in_flight_only(const char *hang) {
    play_wedged(hang);
    P.cfg.max_concurrency = 20;
    play_open();
    int64_t from = hf_now();
    for (int i = 0; i < 19; i++) {
        play_get(i % SITE_PORTS, "/hold");
    }
    play_get(0, strcmp(hang, "remove") == 0 ? "/ok?wedge" : "/slow/50?wedge");
    for (int i = 0; i < 40; i++) {
        play_get(i % SITE_PORTS, "/ok");
    }
    hf_engine_finish(P.e);
    int64_t rc = play_read(UINT64_MAX, 30 * (int64_t)SECOND);
    CHECK_EQ(rc, HF_EEND);
    CHECK(play_each_once());
    CHECK_EQ(wedge_count("hangs"), 1);
    CHECK_EQ(wedge_busy(), 1);
    for (uint64_t i = 0; i < 20; i++) {
        CHECK(P.came[i] - from < P.cfg.hard_timeout + SECOND);
    }
    CHECK(play_count("error.type", "\"engine_stalled\"") >= 1);
    uint64_t good = play_count("status_code", "200");
    CHECK(good == 40 || good == 41); /* the marked one may have its answer already */
    hf_stats st = stats();
    CHECK_EQ(st.loops_leaked, 1);
    CHECK(st.stalls >= 1 && strstr(st.stalled_call, "curl_multi_") != NULL);
    CHECK(st.stalled_us > 500000);
    CHECK(st.in_flight_now == 0 && st.queued_now == 0);
    from = hf_now();
    play_close();
    CHECK(hf_now() - from < 2500000);
    wait_until_free();
}

static void socket_action_hangs(void) {
    a_call_that_hangs_costs_those_in_flight_only("action");
}

static void remove_handle_hangs(void) {
    a_call_that_hangs_costs_those_in_flight_only("remove");
}

static void a_call_hangs_between_two_callbacks(void) {
    a_call_that_hangs_costs_those_in_flight_only("callback");
}

/* The very first transfer, in the iteration that starts it. */
static void the_first_call_of_all_hangs(void) {
    static const char *const calls[] = {"add", "action"};
    for (int i = 0; i < 2; i++) {
        play_wedged(calls[i]);
        play_open();
        int64_t from = hf_now();
        play_get(0, "/ok?wedge");
        CHECK(play_finish(20 * (int64_t)SECOND));
        CHECK(play_each_once());
        CHECK(play_has(0, "error.type", "\"engine_stalled\"") &&
              play_has(0, "error.origin", "\"local\""));
        CHECK(P.came[0] - from < P.cfg.hard_timeout + SECOND);
        CHECK(P.came[0] - from >= P.cfg.hard_timeout);
        play_close();
        wait_until_free();
    }
}

/* Shutting its socket down frees a libcurl that waits on one: no loop is lost. */
static void a_call_stuck_on_a_socket_is_freed(void) {
    play_wedged("socket");
    play_open();
    play_get(0, "/hold?wedge");
    int64_t from = hf_now();
    CHECK(play_finish(20 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(hf_now() - from < P.cfg.hard_timeout + SECOND);
    CHECK_EQ(wedge_count("hangs"), 1);
    CHECK_EQ(stats().loops_leaked, 0);
    CHECK(stats().stalls >= 1);
    play_close();
}

static packed frame;

/* The body must live as long as libcurl may send it, and not longer (LeakSanitizer). */
static void a_body_outlives_its_record_while_libcurl_may_send_it(void) {
    play_wedged("action");
    play_open();
    char url[64];
    char err[128];
    size_t used;
    uint64_t seq;
    char *body = malloc(60000);
    REQUIRE(body);
    memset(body, 'b', 60000);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/hold?wedge", P.site.ports[0]);
    packed_begin(&frame);
    packed_text(&frame, HF_TAG_URL, url);
    packed_bytes(&frame, HF_TAG_BODY, body, 60000);
    free(body);
    REQUIRE(hf_engine_submit(P.e, frame.bytes, frame.n, &used, &seq, err, 128) == 0);
    P.submitted = 1;
    play_get(1, "/ok");
    CHECK(play_finish(20 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(play_has(0, "error.type", "\"engine_stalled\""));
    wait_until_free();
    play_close();
}

/* More sessions than a loop keeps: each new one ends an old one, whose connections are
 * closed in a call that hangs. Only what is in flight then is lost. */
static void a_clean_up_that_hangs_costs_those_in_flight_only(void) {
    play_wedged("cleanup");
    P.cfg.max_concurrency = 8;
    play_open();
    for (int i = 0; i < HF_IDENTITIES + 40; i++) {
        char url[64];
        char session[16];
        char err[128];
        size_t used;
        uint64_t seq;
        snprintf(url, sizeof url, "http://127.0.0.1:%d/ok", P.site.ports[0]);
        snprintf(session, sizeof session, "s%d", i);
        packed_begin(&frame);
        packed_text(&frame, HF_TAG_URL, url);
        packed_text(&frame, HF_TAG_SESSION, session);
        REQUIRE(hf_engine_submit(P.e, frame.bytes, frame.n, &used, &seq, err, 128) ==
                0);
        P.submitted++;
    }
    CHECK(play_finish(20 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(wedge_count("hangs"), 1);
    uint64_t lost = play_count("error.type", "\"engine_stalled\"");
    CHECK(lost >= 1 && lost <= 8);
    CHECK_EQ(play_count("status_code", "200"), P.submitted - lost);
    hf_stats st = stats();
    CHECK_EQ(st.loops_leaked, 1);
    CHECK(strcmp(st.stalled_call, "curl_multi_cleanup") == 0);
    play_close();
    wait_until_free();
}

/* The loop comes back about when it is given up: whoever reports, it is once. */
static void a_loop_that_wakes_at_the_last_moment_harms_nothing(void) {
    for (int ms = 1150; ms <= 1400; ms += 50) {
        play_wedged("action");
        char spec[64];
        snprintf(spec, sizeof spec, "hang=action,ms=%d", ms);
        wedge(spec);
        play_open();
        for (int i = 0; i < 200; i++) {
            play_get(i % SITE_PORTS, i % 2 ? "/slow/40?wedge" : "/ok");
        }
        CHECK(play_finish(20 * (int64_t)SECOND));
        CHECK(play_each_once());
        play_close();
        wait_until_free();
    }
}

static void closing_while_a_call_hangs_takes_two_seconds_at_most(void) {
    play_wedged("action");
    P.cfg.timeout = P.cfg.hard_timeout = 60 * (int64_t)SECOND;
    play_open();
    play_get(0, "/ok?wedge");
    wait_until_busy();
    int64_t from = hf_now();
    hf_engine_free(P.e);
    CHECK(hf_now() - from < 2500000);
    P.e = NULL;
    wait_until_free();
    play_close();
}

/* Long before any hard limit; the backlog too, whose loop is the one that hangs. */
static void a_stop_ends_in_time_although_a_call_hangs(int report) {
    int64_t drain = 300000;
    play_wedged("action");
    P.cfg.timeout = P.cfg.hard_timeout = 60 * (int64_t)SECOND;
    P.cfg.max_concurrency = 4;
    P.cfg.report_unanswered = report;
    play_open();
    for (int i = 0; i < 3; i++) {
        play_get(i, "/hold");
    }
    play_get(3, "/ok?wedge");
    wait_until_busy();
    for (int i = 0; i < 20; i++) {
        play_get(i % SITE_PORTS, "/hold");
    }
    int64_t from = hf_now();
    hf_engine_stop(P.e, drain);
    CHECK(play_finish(20 * (int64_t)SECOND));
    CHECK(hf_now() - from >= drain);
    CHECK(hf_now() - from < drain + SECOND);
    CHECK_EQ(P.bad, 0);
    CHECK_EQ(P.records, report ? 24 : 0);
    CHECK_EQ(play_count("error.type", "\"shutdown\""), P.records);
    CHECK_EQ(stats().dropped, report ? 0 : 24);
    CHECK_EQ(stats().loops_leaked, 1);
    play_close();
    wait_until_free();
}

static void a_stop_that_reports_ends_in_time_although_a_call_hangs(void) {
    a_stop_ends_in_time_although_a_call_hangs(1);
}

static void a_stop_without_records_ends_in_time_although_a_call_hangs(void) {
    a_stop_ends_in_time_although_a_call_hangs(0);
}

/* --- a libcurl that lies -----------------------------------------------------------
 */

/* us. Long enough for good answers, several times as slow under a sanitizer. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SOFT 1500000
#else
#define SOFT 500000
#endif

static void dropped_timer_callbacks_cost_no_deadline(void) {
    play_wedged("");
    wedge("timers=100");
    P.cfg.max_concurrency = 200;
    P.cfg.max_per_host = 0;
    P.cfg.timeout = SOFT;
    P.cfg.hard_timeout = 2 * SOFT;
    play_open();
    int64_t before = starved();
    for (int i = 0; i < 2000; i++) {
        static const char *const paths[] = {"/ok", "/slow/20", "/close", "/ok",
                                            "/head"};
        play_get(i % SITE_PORTS, i % 100 == 3 ? "/hold" : paths[i % 5]);
    }
    CHECK(play_finish(40 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(wedge_count("timers") > 0);
    int64_t slack = 250000 + starved() - before;
    CHECK((int64_t)stats().overrun_max < slack);
    int late = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        late += play_number(i, "timing.total") * 1e6 > (double)(SOFT + slack);
    }
    CHECK_EQ(late, 0);
    CHECK_EQ(play_count("error.type", "\"timeout\""), 20 + 400);
    play_close();
}

static void a_message_that_never_comes_ends_by_the_deadline(void) {
    play_wedged("");
    wedge("lost=1");
    play_open();
    play_get(0, "/ok?wedge");
    play_get(0, "/ok");
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(wedge_count("lost"), 1);
    CHECK(play_has(0, "error.type", "\"timeout\"") && play_has(1, "error", "null"));
    CHECK(play_number(0, "timing.total") < 0.55);
    play_close();
}

static void a_message_that_comes_twice_ends_its_transfer_once(void) {
    play_wedged("");
    wedge("twice=1");
    play_open();
    for (int i = 0; i < 300; i++) {
        play_get(i % SITE_PORTS, i % 3 ? "/ok" : "/go/ok");
    }
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(wedge_count("twice") >= 300);
    CHECK_EQ(play_count("error", "null"), 300);
    play_close();
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    load_fake();
    RUN(the_first_call_of_all_hangs);
    RUN(socket_action_hangs);
    RUN(remove_handle_hangs);
    RUN(a_call_hangs_between_two_callbacks);
    RUN(a_call_stuck_on_a_socket_is_freed);
    RUN(a_body_outlives_its_record_while_libcurl_may_send_it);
    RUN(a_clean_up_that_hangs_costs_those_in_flight_only);
    RUN(a_loop_that_wakes_at_the_last_moment_harms_nothing);
    RUN(closing_while_a_call_hangs_takes_two_seconds_at_most);
    RUN(a_stop_that_reports_ends_in_time_although_a_call_hangs);
    RUN(a_stop_without_records_ends_in_time_although_a_call_hangs);
    RUN(dropped_timer_callbacks_cost_no_deadline);
    RUN(a_message_that_never_comes_ends_by_the_deadline);
    RUN(a_message_that_comes_twice_ends_its_transfer_once);
    /* Engines whose loops were stuck are freed by the next one. */
    hf_engine_new(&P.cfg, NULL, 0);
    return check_result();
}
