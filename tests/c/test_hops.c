/* Redirects from host to host over several loops, against a site on loopback. */
#include "engine_play.h"

#define SECOND 1000000

static void open_engine(int per_host) {
    play_site();
    P.cfg.loops = 4;
    P.cfg.max_concurrency = 64;
    P.cfg.max_per_host = per_host;
    P.cfg.report_unanswered = 1;
    play_open();
}

static void nothing_is_left(void) {
    hf_stats st;
    hf_engine_stats(P.e, &st);
    CHECK_EQ(st.in_flight_now + st.queued_now + st.parked_now + st.policy_now, 0);
}

/* Eight hosts that send everybody on to the next one, three times. */
static void hops_keep_every_hosts_limit(void) {
    open_engine(2);
    for (int i = 0; i < 1200; i++) {
        char path[64];
        snprintf(path, sizeof path, "/to/%d/to/%d/to/%d/ok?%d", (i + 1) % SITE_PORTS,
                 (i + 3) % SITE_PORTS, i % 3 == 0 ? (i + 3) % SITE_PORTS : i % 7, i);
        play_get(i % SITE_PORTS, path);
    }
    CHECK(play_finish(60 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK_EQ(play_count("status_code", "200"), 1200);
    CHECK_EQ(play_count("error", "null"), 1200);
    for (int h = 0; h < SITE_PORTS; h++) {
        CHECK(atomic_load(&P.site.peak[h]) <= 2);
    }
    hf_stats st;
    hf_engine_stats(P.e, &st);
    CHECK_EQ(st.redirects, 3600);
    CHECK_EQ(st.started, 1200);
    nothing_is_left();
    play_close();
}

/* Most hops wait for one host, which is slow, while requests are cancelled; a stop ends
 * the rest. */
static void waits_end_by_cancel_and_by_stop(void) {
    open_engine(1);
    for (int i = 0; i < 400; i++) {
        char path[64];
        snprintf(path, sizeof path, i % 8 == 0 ? "/ok?%d" : "/to/7/slow/5?%d", i);
        play_get(i % SITE_PORTS, path);
    }
    play_read(20, SECOND);
    for (uint64_t i = 0; i < 400; i += 2) {
        hf_engine_cancel(P.e, i);
    }
    play_read(250, 2 * (int64_t)SECOND);
    hf_engine_stop(P.e, 20000);
    CHECK(play_finish(20 * (int64_t)SECOND));
    CHECK(play_each_once());
    CHECK(play_count("error.type", "\"cancelled\"") > 0);
    CHECK(atomic_load(&P.site.peak[7]) <= 1);
    nothing_is_left();
    play_close();
}

/* Freed while tickets are under way: the sanitizers say the rest. */
static void an_engine_can_go_in_the_middle(void) {
    for (int round = 0; round < 8; round++) {
        open_engine(1);
        for (int i = 0; i < 200; i++) {
            char path[64];
            snprintf(path, sizeof path, "/to/%d/to/%d/ok", (i + round) % SITE_PORTS,
                     (i * 3) % SITE_PORTS);
            play_get(i % SITE_PORTS, path);
        }
        play_read((uint64_t)round * 8, SECOND);
        play_close();
    }
}

int main(void) {
    RUN(hops_keep_every_hosts_limit);
    RUN(waits_end_by_cancel_and_by_stop);
    RUN(an_engine_can_go_in_the_middle);
    return check_result();
}
