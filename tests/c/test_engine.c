/* The whole engine against a site on loopback. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "engine_play.h"
#include "packed.h"
#include "starved.h"

#define SECOND 1000000

static void every_line_is_answered_once(void) {
    play_site();
    P.cfg.loops = 2;
    P.cfg.max_concurrency = 64;
    P.cfg.max_per_host = 16;
    P.cfg.window_requests = 500;
    play_open();
    uint64_t held = 0;
    for (int i = 0; i < 10000; i++) {
        char path[32];
        snprintf(path, sizeof path, i % 50 == 0 ? "/sc/404?%d" : "/ok?%d", i);
        play_get(i % SITE_PORTS, path);
        if (i % 100 == 0) {
            play_read(P.records + 1, 1);
            held = P.submitted - P.records > held ? P.submitted - P.records : held;
        }
    }
    CHECK(play_finish(60 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(play_count("status_code", "404"), 200);
    CHECK_EQ(play_count("error", "null"), 10000);
    CHECK(held <= 500 + 2000); /* the window, and what was read late */
    for (int h = 0; h < SITE_PORTS; h++) {
        CHECK(atomic_load(&P.site.peak[h]) <= 16);
    }
    CHECK(atomic_load(&P.site.accepted) <= 16 * SITE_PORTS);
    hf_stats st;
    hf_engine_stats(P.e, &st);
    CHECK_EQ(st.records, 10000);
    CHECK_EQ(st.accepted, 10000);
    CHECK_EQ(st.lost_wakeups, 0);
    CHECK_EQ(st.in_flight_now + st.queued_now + st.parked_now + st.policy_now, 0);
    CHECK_EQ(st.bytes_out, st.bytes_drained);
    play_close();
}

/* Many hosts on two loops and a single slot: whoever finds none must be woken. */
static void two_loops_share_few_slots_without_a_hang(void) {
    play_site();
    P.cfg.loops = 2;
    P.cfg.max_concurrency = 1;
    play_open();
    for (int i = 0; i < 2000; i++) {
        play_get(i % SITE_PORTS, "/ok");
    }
    CHECK(play_finish(30 * (int64_t)SECOND));
    CHECK(play_each_once());
    hf_stats st;
    hf_engine_stats(P.e, &st);
    CHECK_EQ(st.records, 2000);
    play_close();
}

static void limits_hold_and_no_host_blocks_another(void) {
    play_site();
    P.cfg.max_concurrency = 6;
    P.cfg.max_per_host = 2;
    play_open();
    for (int i = 0; i < 40; i++) {
        play_get(0, "/slow/30");
    }
    int64_t from = hf_now();
    for (int i = 0; i < 20; i++) {
        play_get(1 + i % 4, "/ok");
    }
    CHECK(play_read(20, 10 * (int64_t)SECOND) >= 0);
    /* Forty at thirty milliseconds, two at a time, would be six tenths of a second. */
    for (uint64_t i = 40; i < 60; i++) {
        CHECK(P.counts[i] == 1 && P.came[i] - from < 400000);
    }
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(atomic_load(&P.site.peak[0]), 2);
    play_close();
}

static void one_host_is_served_in_order(void) {
    play_site();
    P.cfg.max_per_host = 1;
    play_open();
    for (int i = 0; i < 60; i++) {
        char path[32];
        snprintf(path, sizeof path, "/ok?%d", i);
        play_get(0, path);
    }
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    int wrong = 0;
    for (int i = 0; i < 60; i++) {
        char path[32];
        snprintf(path, sizeof path, "/ok?%d", i);
        wrong += strcmp(P.site.first_paths[0][i], path) != 0;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(atomic_load(&P.site.accepted), 1); /* kept alive */
    CHECK(play_has(0, "reused", "false") && play_has(59, "reused", "true"));
    play_close();
}

static void check_deadline(uint64_t seq, const char *type, double limit) {
    char raw[64];
    snprintf(raw, sizeof raw, "\"%s\"", type);
    CHECK(play_has(seq, "error.type", raw));
    double total = play_number(seq, "timing.total");
    CHECK(total >= limit && total < limit + 0.25);
    double overrun = play_number(seq, "limits.overrun");
    CHECK(overrun >= 0 && overrun < 0.25);
}

static void deadlines_are_kept_within_a_quarter_of_a_second(void) {
    play_site();
    P.cfg.timeout = 400000;
    P.cfg.hard_timeout = 600000;
    P.cfg.first_byte_timeout = 300000;
    P.cfg.idle_timeout = 200000;
    P.cfg.max_per_host = 0;
    play_open();
    play_get(0, "/slow/250"); /* idle: nothing for a fifth of a second */
    play_get(0, "/head");
    play_get(0, "/slow/100");
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(play_each_once());
    check_deadline(0, "idle_timeout", 0.2);
    check_deadline(1, "idle_timeout", 0.2);
    CHECK(play_has(1, "truncated", "\"time\"") && play_has(1, "body", "\"abc\""));
    CHECK(play_has(1, "status_code", "200"));
    CHECK(play_has(2, "error", "null"));
    play_close();
    play_site();
    P.cfg.timeout = 400000;
    P.cfg.first_byte_timeout = 300000;
    play_open();
    play_get(0, "/hold");
    play_get(0, "/head");
    CHECK(play_finish(5 * (int64_t)SECOND));
    check_deadline(0, "first_byte_timeout", 0.3);
    check_deadline(1, "timeout", 0.4);
    play_close();
}

static void the_jobs_deadline_counts_the_queue_as_well(void) {
    play_site();
    P.cfg.max_per_host = 1;
    P.cfg.deadline = 300000;
    play_open();
    /* In one piece, so that the last one's deadline is not a moment behind that of the
     * one before, whose place it would have in that moment. */
    char lines[256];
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        n += (size_t)snprintf(lines + n, sizeof lines - n,
                              "http://127.0.0.1:%d/slow/200\n", P.site.ports[0]);
    }
    play_lines(lines, n);
    P.submitted += 3;
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(play_has(0, "error", "null"));
    CHECK(play_has(1, "error.type", "\"deadline\"") &&
          play_has(1, "error.phase", "\"first_byte\""));
    CHECK(play_has(2, "error.type", "\"deadline\"") &&
          play_has(2, "error.phase", "\"queue\"") && play_has(2, "attempts", "[]"));
    CHECK(play_has(2, "timing.queue", "null"));
    play_close();
}

/* us. A sanitizer makes each of a thousand ends several times as slow. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLACK 1000000
#else
#define SLACK 250000
#endif

/* A thousand deadlines in one moment are no reason for the others to wait. */
static void a_mass_expiry_delays_nobody(void) {
    play_site();
    P.cfg.max_concurrency = 1100;
    P.cfg.max_per_host = 0;
    P.cfg.timeout = 700000;
    play_open();
    int64_t before = starved();
    for (int i = 0; i < 1000; i++) {
        play_get(i % SITE_PORTS, "/hold");
    }
    CHECK(play_finish(20 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(play_count("error.type", "\"timeout\""), 1000);
    hf_stats st;
    hf_engine_stats(P.e, &st);
    CHECK((int64_t)st.overrun_max < SLACK + starved() - before);
    play_close();
}

static void answers_that_break_off_are_told_as_such(void) {
    play_site();
    play_open();
    play_get(0, "/cut");
    play_get(0, "/interim");
    play_get(0, "/close");
    play_get(0, "/go/go/ok");
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(play_has(0, "error.type", "\"incomplete\"") &&
          play_has(0, "truncated", "\"disconnect\"") &&
          play_has(0, "body", "\"xxxxxxxxxx\""));
    /* An interim status is no status of the response. */
    CHECK(play_has(1, "status_code", "null") && play_has(1, "headers", "null"));
    CHECK(play_has(1, "size", "null"));
    CHECK(play_has(2, "error", "null"));
    CHECK(play_has(3, "status_code", "200") && play_has(3, "error", "null"));
    play_close();
}

static void cancelling_ends_what_waits_and_what_runs(void) {
    play_site();
    P.cfg.max_per_host = 1;
    play_open();
    play_get(0, "/hold");
    play_get(0, "/ok?a");
    play_get(0, "/ok?b");
    play_get(1, "/ok");
    play_read(1, 5 * (int64_t)SECOND);
    CHECK_EQ(hf_engine_cancel(P.e, 0), 0);
    CHECK_EQ(hf_engine_cancel(P.e, 2), 0);
    CHECK_EQ(hf_engine_cancel(P.e, 3), 0);   /* answered already */
    CHECK_EQ(hf_engine_cancel(P.e, 999), 0); /* never heard of */
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(play_has(0, "error.type", "\"cancelled\""));
    CHECK(play_has(1, "error", "null") || play_has(1, "error.type", "\"cancelled\""));
    CHECK(play_has(3, "error", "null"));
    play_close();
}

static void a_stop_lets_what_is_under_way_end_in_its_time(void) {
    for (int report = 0; report < 2; report++) {
        play_site();
        P.cfg.max_per_host = 2;
        P.cfg.report_unanswered = report;
        play_open();
        play_get(0, "/slow/300");
        play_get(0, "/hold");
        play_get(0, "/ok"); /* never starts */
        while (atomic_load(&P.site.requests[0]) < 2) {
            play_read(1, 10000);
        }
        int64_t from = hf_now();
        CHECK_EQ(hf_engine_stop(P.e, 600000), 0);
        char err[128];
        size_t used;
        CHECK_EQ(hf_engine_submit_lines(P.e, (const uint8_t *)"http://h/\n", 10, 1,
                                        &used, err, sizeof err),
                 HF_ECLOSED);
        CHECK(play_read(UINT64_MAX, 5 * (int64_t)SECOND) == HF_EEND);
        int64_t took = hf_now() - from;
        CHECK(took >= 590000 && took < 1500000);
        CHECK(play_has(0, "error", "null"));
        CHECK_EQ(P.records, report ? 3 : 1);
        if (report) {
            CHECK_EQ(play_count("error.type", "\"shutdown\""), 2);
        }
        hf_stats st;
        hf_engine_stats(P.e, &st);
        CHECK_EQ(st.dropped, report ? 0 : 2);
        play_close();
    }
}

static void a_second_stop_shortens_the_time(void) {
    play_site();
    P.cfg.report_unanswered = 1;
    play_open();
    for (int i = 0; i < 5; i++) {
        play_get(0, "/hold");
    }
    while (atomic_load(&P.site.requests[0]) < 5) {
        play_read(1, 10000);
    }
    int64_t from = hf_now();
    CHECK_EQ(hf_engine_stop(P.e, 10 * (int64_t)SECOND), 0);
    CHECK_EQ(hf_engine_stop(P.e, 0), 0);
    CHECK_EQ(hf_engine_stop(P.e, 10 * (int64_t)SECOND), 0); /* cannot lengthen it */
    CHECK(play_read(UINT64_MAX, 5 * (int64_t)SECOND) == HF_EEND);
    CHECK(hf_now() - from < 2 * SECOND);
    CHECK(play_each_once());
    CHECK_EQ(play_count("error.type", "\"shutdown\""), 5);
    play_close();
}

static int count_fds(void) {
    int n = 0;
    for (int fd = 0; fd < 4096; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void closing_with_a_hundred_under_way_is_quick_and_leaves_nothing(void) {
    int before = count_fds();
    for (int round = 0; round < 3; round++) {
        play_site();
        P.cfg.loops = 2;
        P.cfg.max_per_host = 0;
        play_open();
        for (int i = 0; i < 100; i++) {
            play_get(i % SITE_PORTS, i % 2 ? "/hold" : "/head");
        }
        play_get(0, "/big/3000000");
        for (int i = 0; i < 500; i++) {
            play_get(i % SITE_PORTS, "/slow/5000");
        }
        if (round > 0) {
            play_read(1, 100000);
        }
        int64_t from = hf_now();
        play_close();
        CHECK(hf_now() - from < SECOND);
    }
    CHECK_EQ(count_fds(), before);
}

/* In the child every call says so, touches nothing, and a new engine works. */
static int child(void) {
    char err[256] = "";
    uint8_t buf[64];
    hf_event ev;
    hf_verdict verdict = {0};
    size_t used;
    uint64_t seq;
    int bad = hf_engine_submit_lines(P.e, (const uint8_t *)"http://h/\n", 10, 1, &used,
                                     err, sizeof err) != HF_EFORK;
    bad |= (strstr(err, "parent") == NULL) << 1;
    bad |= (hf_engine_submit(P.e, buf, 0, &used, &seq, err, sizeof err) != HF_EFORK)
           << 2;
    const uint8_t *data;
    bad |= (hf_engine_read(P.e, buf, sizeof buf, 1000) != HF_EFORK ||
            hf_engine_view(P.e, &data, 1000) != HF_EFORK)
           << 3;
    bad |= (hf_engine_drain(P.e, 1, 1000, err, sizeof err) != HF_EFORK) << 4;
    bad |= (hf_engine_events(P.e, &ev, 1, 1000) != HF_EFORK) << 5;
    bad |= (hf_engine_verdicts(P.e, &verdict, 1) != HF_EFORK) << 6;
    bad |=
        (hf_engine_cancel(P.e, 0) != HF_EFORK || hf_engine_stop(P.e, 0) != HF_EFORK ||
         hf_engine_wait_room(P.e, 1000) != HF_EFORK)
        << 7;
    bad |= (hf_engine_finish(P.e) != HF_EFORK || hf_engine_resume(P.e) != HF_EFORK ||
            hf_engine_output_arm(P.e) != HF_EFORK ||
            hf_engine_skip(P.e, buf, 8) != HF_EFORK)
           << 8;
    hf_engine_interrupt(P.e);
    hf_engine_free(P.e);
    if (bad) {
        fprintf(stderr, "    in the child: %x\n", (unsigned)bad);
    }
    return bad;
}

static void a_child_is_told_and_the_parent_goes_on(void) {
    play_site();
    play_open();
    play_get(0, "/ok");
    play_get(0, "/slow/300");
    play_read(1, 5 * (int64_t)SECOND);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        _exit(child() != 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    for (int i = 0; i < 100; i++) {
        play_get(i % SITE_PORTS, "/ok");
    }
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(play_count("error", "null"), 102);
    play_close();
}

static void the_window_bounds_what_is_held(void) {
    play_site();
    P.cfg.window_requests = 1;
    P.cfg.max_per_host = 1;
    play_open();
    char err[128];
    size_t used;
    play_get(0, "/slow/300");
    char line[64];
    int n = snprintf(line, sizeof line, "http://127.0.0.1:%d/ok\n", P.site.ports[0]);
    CHECK_EQ(
        hf_engine_submit_lines(P.e, (uint8_t *)line, (size_t)n, 1, &used, err, 128),
        HF_EFULL);
    CHECK_EQ(used, 0);
    /* Waiting must wait, also for a window of one. */
    int64_t from = hf_now();
    CHECK_EQ(hf_engine_wait_room(P.e, 50000), HF_EAGAIN);
    CHECK(hf_now() - from >= 45000);
    CHECK_EQ(hf_engine_wait_room(P.e, 5 * (int64_t)SECOND), 0);
    CHECK(hf_now() - from < 2 * SECOND);
    play_get(0, "/ok");
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(play_each_once());
    play_close();
}

/* --- blocked calls -----------------------------------------------------------------
 */

static int64_t outcome_of[3];

static void *wait_for_room(void *arg) {
    outcome_of[0] = hf_engine_wait_room(P.e, 20 * (int64_t)SECOND);
    return arg;
}

static void *wait_for_events(void *arg) {
    hf_event ev;
    outcome_of[1] = hf_engine_events(P.e, &ev, 1, 20 * (int64_t)SECOND);
    return arg;
}

static void *wait_for_records(void *arg) {
    uint8_t buf[16];
    outcome_of[2] = hf_engine_read(P.e, buf, sizeof buf, 20 * (int64_t)SECOND);
    return arg;
}

static void an_interrupt_ends_every_blocked_call(void) {
    play_site();
    P.cfg.window_requests = 1;
    play_open();
    play_get(0, "/hold");
    pthread_t t[3];
    int64_t from = hf_now();
    REQUIRE(pthread_create(&t[0], NULL, wait_for_room, NULL) == 0);
    REQUIRE(pthread_create(&t[1], NULL, wait_for_events, NULL) == 0);
    REQUIRE(pthread_create(&t[2], NULL, wait_for_records, NULL) == 0);
    usleep(50000);
    hf_engine_interrupt(P.e);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        CHECK_EQ(outcome_of[i], HF_EINTR);
    }
    CHECK(hf_now() - from < 5 * SECOND);
    CHECK_EQ(hf_engine_wait_room(P.e, 1000), HF_EAGAIN); /* once */
    play_close();
}

/* A reader that does not read: records park, deadlines fire, nothing is lost. */
static void a_reader_that_sleeps_loses_nothing_and_delays_no_deadline(void) {
    play_site();
    P.cfg.ring_bytes = 65536;
    P.cfg.timeout = 500000;
    P.cfg.max_concurrency = 32;
    P.cfg.max_per_host = 0;
    play_open();
    for (int i = 0; i < 4; i++) {
        play_get(0, "/hold");
    }
    for (int i = 0; i < 40; i++) {
        play_get(1 + i % 4, i % 4 ? "/big/7000" : "/big/200000");
    }
    hf_stats st;
    int64_t until = hf_now() + 5 * (int64_t)SECOND;
    do {
        usleep(20000);
        hf_engine_stats(P.e, &st);
    } while ((st.deadlines_fired < 4 || st.parked_now < 4) && hf_now() < until);
    CHECK_EQ(st.deadlines_fired, 4);
    CHECK(st.overrun_max < 250000);
    CHECK(st.parked_now >= 4);
    CHECK(st.ring_full > 0);
    CHECK(play_finish(10 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(play_count("error.type", "\"timeout\""), 4);
    play_close();
}

static packed frame;

static void packed_requests_carry_method_body_and_limits(void) {
    play_site();
    play_open();
    char url[64];
    char err[128];
    size_t used;
    uint64_t seq;
    for (int i = 0; i < 3; i++) {
        static const char *const paths[] = {"/ok", "/hold", "/ok"};
        snprintf(url, sizeof url, "http://127.0.0.1:%d%s", P.site.ports[0], paths[i]);
        packed_begin(&frame);
        packed_text(&frame, HF_TAG_URL, url);
        packed_text(&frame, HF_TAG_ID, i == 0 ? "\"a\"" : "2");
        packed_text(&frame, HF_TAG_BODY, "hello");
        if (i == 1) {
            packed_i64(&frame, HF_TAG_TIMEOUT, 200000);
        }
        if (i == 2) {
            packed_text(&frame, HF_TAG_METHOD, "G T");
        }
        CHECK_EQ(
            hf_engine_submit(P.e, frame.bytes, frame.n, &used, &seq, err, sizeof err),
            0);
        CHECK_EQ(seq, i);
        CHECK_EQ(used, frame.n);
        P.submitted++;
    }
    CHECK_EQ(
        hf_engine_submit(P.e, frame.bytes, frame.n - 1, &used, &seq, err, sizeof err),
        HF_EINVAL);
    CHECK_EQ(used, 0);
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(play_has(0, "id", "\"a\"") && play_has(0, "method", "\"POST\""));
    CHECK(play_has(0, "error", "null"));
    check_deadline(1, "timeout", 0.2);
    CHECK(play_has(2, "error.type", "\"invalid_request\""));
    play_close();
}

static void a_paused_engine_starts_nothing_before_it_is_told(void) {
    play_site();
    P.cfg.paused = 1;
    play_open();
    CHECK_EQ(hf_engine_verdicts(P.e, NULL, 0), 0); /* news asks for none */
    play_get(0, "/ok");
    play_read(1, 100000);
    CHECK_EQ(P.records, 0);
    CHECK_EQ(atomic_load(&P.site.requests[0]), 0);
    CHECK_EQ(hf_engine_resume(P.e), 0);
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(play_each_once());
    play_close();
}

static void numbers_that_were_answered_before_are_skipped(void) {
    play_site();
    play_open();
    uint8_t bitmap[1] = {0x05}; /* 0 and 2 */
    CHECK_EQ(hf_engine_skip(P.e, bitmap, 8), 0);
    for (int i = 0; i < 4; i++) {
        play_get(0, "/ok");
    }
    CHECK(play_finish(5 * (int64_t)SECOND));
    CHECK(P.records == 2 && P.counts[1] == 1 && P.counts[3] == 1);
    hf_stats st;
    hf_engine_stats(P.e, &st);
    CHECK(st.inputs == 4 && st.skipped == 2 && st.accepted == 2);
    play_close();
}

static void bad_configurations_are_named(void) {
    hf_config cfg;
    char err[256] = "";
    hf_config_default(&cfg);
    cfg.libcurl = "/nonexistent.so";
    CHECK(hf_engine_new(&cfg, err, sizeof err) == NULL);
    CHECK(strstr(err, "/nonexistent.so") != NULL);
    cfg.libcurl = getenv("HARDFETCH_LIBCURL");
    cfg.hard_timeout = 1;
    CHECK(hf_engine_new(&cfg, err, sizeof err) == NULL);
    CHECK(strstr(err, "hard_timeout") != NULL);
    hf_engine_free(NULL);
}

/* Callers of every blocking call, until they are told that it is closed. */
static void *waits_for_room(void *e) {
    while (hf_engine_wait_room(e, 200000) != HF_ECLOSED) {
    }
    return NULL;
}

static void *waits_for_records(void *e) {
    uint8_t bytes[4096];
    while (hf_engine_read(e, bytes, sizeof bytes, 200000) != HF_ECLOSED) {
    }
    return NULL;
}

static void *waits_for_events(void *e) {
    hf_event events[4];
    while (hf_engine_events(e, events, 4, 200000) != HF_ECLOSED) {
    }
    return NULL;
}

static void *closes(void *e) {
    hf_engine_close(e);
    return NULL;
}

static void a_close_ends_the_calls_under_way_and_those_to_come(void) {
    void *(*const callers[])(void *) = {waits_for_room, waits_for_records,
                                        waits_for_events, closes};
    pthread_t threads[4];
    hf_stats st;
    play_site();
    play_open();
    play_get(0, "/hold");
    for (int i = 0; i < 4; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, callers[i], P.e) == 0);
    }
    hf_engine_close(P.e);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    char err[64];
    size_t used;
    CHECK_EQ(hf_engine_submit_lines(P.e, (const uint8_t *)"x\n", 2, 1, &used, err, 64),
             HF_ECLOSED);
    CHECK_EQ(hf_engine_stats(P.e, &st), HF_ECLOSED);
    CHECK_EQ(hf_engine_output_arm(P.e), HF_ECLOSED);
    hf_engine_cancel(P.e, 0); /* memory only, which is still there */
    hf_engine_interrupt(P.e);
    play_close();
}

static void what_never_started_is_freed(void) {
    char err[64];
    hf_engine_free(hf_engine_alloc());
    hf_engine *e = hf_engine_alloc();
    hf_engine_close(e);
    hf_engine_close(e);
    hf_engine_free(e);
    CHECK_EQ(hf_engine_start(NULL, &P.cfg, err, sizeof err), HF_ENOMEM);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    RUN(every_line_is_answered_once);
    RUN(two_loops_share_few_slots_without_a_hang);
    RUN(limits_hold_and_no_host_blocks_another);
    RUN(one_host_is_served_in_order);
    RUN(deadlines_are_kept_within_a_quarter_of_a_second);
    RUN(the_jobs_deadline_counts_the_queue_as_well);
    RUN(a_mass_expiry_delays_nobody);
    RUN(answers_that_break_off_are_told_as_such);
    RUN(cancelling_ends_what_waits_and_what_runs);
    RUN(a_stop_lets_what_is_under_way_end_in_its_time);
    RUN(a_second_stop_shortens_the_time);
    RUN(closing_with_a_hundred_under_way_is_quick_and_leaves_nothing);
    RUN(a_child_is_told_and_the_parent_goes_on);
    RUN(the_window_bounds_what_is_held);
    RUN(an_interrupt_ends_every_blocked_call);
    RUN(a_reader_that_sleeps_loses_nothing_and_delays_no_deadline);
    RUN(packed_requests_carry_method_body_and_limits);
    RUN(a_paused_engine_starts_nothing_before_it_is_told);
    RUN(numbers_that_were_answered_before_are_skipped);
    RUN(bad_configurations_are_named);
    RUN(a_close_ends_the_calls_under_way_and_those_to_come);
    RUN(what_never_started_is_freed);
    return check_result();
}
