/* One host's pace. tests/test_pace_twin.py holds it against the Python it is a twin of;
 * this says in short what must hold. */
#include "pace.h"

#include "check.h"
#include "err.h"

#define SECOND 1000000

static hf_host_limits limits;
static hf_pace pace;
static int64_t until;

static void begin(void) {
    limits = (hf_host_limits){.breaker_failures = 3, .breaker_open = 10 * SECOND};
    hf_pace_init(&pace, &limits);
}

static hf_grant start(int64_t now) {
    CHECK_EQ(hf_pace_ask(&pace, now, &until), HF_PACE_GO);
    return hf_pace_start(&pace, true, 0, now);
}

static void answer(hf_grant g, int status, int64_t now) {
    hf_pace_end e = {.type = HF_T_NONE, .origin = HF_O_SITE, .status = status};
    hf_pace_finish(&pace, g, &e, now);
}

static void fail(hf_grant g, int type, int origin, int64_t now) {
    hf_pace_end e = {.type = type, .origin = origin};
    hf_pace_finish(&pace, g, &e, now);
}

static void a_rate_spaces_starts_evenly(void) {
    begin();
    limits.rate = 4;
    start(SECOND);
    CHECK_EQ(hf_pace_ask(&pace, SECOND, &until), HF_PACE_WAIT);
    CHECK_EQ(until, SECOND + SECOND / 4);
    start(SECOND + SECOND / 4);
}

static void a_closed_gate_lets_one_probe_through_and_opens_for_all_with_it(void) {
    begin();
    hf_pace_close_gate(&pace, 5 * SECOND, SECOND);
    CHECK_EQ(hf_pace_ask(&pace, 2 * SECOND, &until), HF_PACE_WAIT);
    CHECK_EQ(until, 5 * SECOND);
    hf_grant probe = start(5 * SECOND);
    CHECK(probe.probe);
    CHECK_EQ(hf_pace_ask(&pace, 5 * SECOND, &until), HF_PACE_WAIT);
    CHECK_EQ(until, INT64_MAX);
    answer(probe, 200, 6 * SECOND);
    CHECK(!start(6 * SECOND).probe);
}

static void a_probe_that_passes_opens_no_gate_that_was_prolonged_meanwhile(void) {
    begin();
    hf_pace_close_gate(&pace, 5 * SECOND, SECOND);
    hf_grant probe = start(5 * SECOND);
    hf_pace_close_gate(&pace, 60 * SECOND, 5 * SECOND);
    answer(probe, 200, 6 * SECOND);
    CHECK_EQ(hf_pace_ask(&pace, 6 * SECOND, &until), HF_PACE_WAIT);
    CHECK_EQ(until, 60 * SECOND);
}

static void a_probe_that_tells_nothing_is_tried_again_soon(void) {
    begin();
    hf_pace_close_gate(&pace, 5 * SECOND, SECOND);
    fail(start(5 * SECOND), HF_T_PROXY_TIMEOUT, HF_O_PROXY, 6 * SECOND);
    CHECK_EQ(hf_pace_ask(&pace, 6 * SECOND, &until), HF_PACE_WAIT);
    CHECK_EQ(until, 7 * SECOND);
    CHECK(start(7 * SECOND).probe);
}

static void the_breaker_opens_after_failures_in_a_row_and_closes_by_one_probe(void) {
    begin();
    fail(start(0), HF_T_CONNECT_REFUSED, HF_O_SITE, 0);
    fail(start(0), HF_T_CONNECT_REFUSED, HF_O_SITE, 0);
    answer(start(0), 500, 0); /* it is there: the count begins anew */
    for (int i = 0; i < 3; i++) {
        fail(start(1), HF_T_CONNECT_REFUSED, HF_O_SITE, 1);
    }
    CHECK_EQ(hf_pace_ask(&pace, 2, &until), HF_PACE_REFUSE);
    hf_grant probe = start(1 + 10 * SECOND);
    CHECK(probe.probe);
    CHECK_EQ(hf_pace_ask(&pace, 1 + 10 * SECOND, &until), HF_PACE_WAIT);
    fail(probe, HF_T_CONNECT_REFUSED, HF_O_SITE, 11 * SECOND);
    CHECK_EQ(hf_pace_ask(&pace, 12 * SECOND, &until), HF_PACE_REFUSE);
    answer(start(30 * SECOND), 200, 30 * SECOND);
    CHECK_EQ(hf_pace_ask(&pace, 30 * SECOND, &until), HF_PACE_GO);
}

static void a_proxy_s_failures_do_not_open_the_site_s_breaker(void) {
    begin();
    for (int i = 0; i < 20; i++) {
        fail(start(i), HF_T_PROXY_REFUSED, HF_O_PROXY, i);
        fail(start(i), HF_T_CANCELLED, HF_O_LOCAL, i);
    }
    CHECK_EQ(hf_pace_ask(&pace, 20, &until), HF_PACE_GO);
}

static void refusals_cut_the_adaptive_rate_and_errors_never_raise_it(void) {
    begin();
    limits.adaptive = 1;
    limits.breaker_failures = 0;
    hf_pace_init(&pace, &limits);
    int64_t now = 0;
    for (int i = 0; i < 200; i++) {
        while (hf_pace_ask(&pace, now, &until) == HF_PACE_WAIT) {
            now = until;
        }
        answer(hf_pace_start(&pace, true, 0, now), 200, now);
    }
    double high = pace.adaptive.rate;
    CHECK(high > 4);
    now += SECOND;
    hf_grant g = start(now);
    now += SECOND;
    fail(g, HF_T_CONNECT_REFUSED, HF_O_SITE, now);
    CHECK(pace.adaptive.rate == high);
    answer(start(now), 429, now);
    CHECK(pace.adaptive.rate < 0.7 * high);
}

int main(void) {
    RUN(a_rate_spaces_starts_evenly);
    RUN(a_closed_gate_lets_one_probe_through_and_opens_for_all_with_it);
    RUN(a_probe_that_passes_opens_no_gate_that_was_prolonged_meanwhile);
    RUN(a_probe_that_tells_nothing_is_tried_again_soon);
    RUN(the_breaker_opens_after_failures_in_a_row_and_closes_by_one_probe);
    RUN(a_proxy_s_failures_do_not_open_the_site_s_breaker);
    RUN(refusals_cut_the_adaptive_rate_and_errors_never_raise_it);
    return check_result();
}
