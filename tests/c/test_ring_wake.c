/* Who wakes whom, and when not: one step at a time. */
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

#include "ring_play.h"

static int readable(const hf_wake *w) {
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    return poll(&p, 1, 0);
}

static void a_push_wakes_only_when_told_to_and_only_a_sleeper(void) {
    hf_wake w;
    hf_ring r;
    hf_ring *all[] = {&r};
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 64, &w, NULL, no_text) == 0);
    CHECK_EQ(push(&r, "one"), 0);
    hf_ring_wake_consumer(&r);
    CHECK(!readable(&w));
    hf_ring_advance(&r, 3);
    CHECK(!hf_ring_ready(&r));
    hf_wake_prepare(&w);
    hf_ring_wake_consumer(&r); /* nothing new */
    CHECK(!readable(&w));
    CHECK_EQ(push(&r, "two"), 0);
    CHECK(!readable(&w));
    hf_ring_wake_consumer(&r);
    CHECK(readable(&w));
    CHECK_EQ(hf_wake_wait(&w, -1), 0);
    CHECK(!readable(&w));
    CHECK(!hf_wake_cancel(&w));
    CHECK_EQ(hf_ring_wait(&w, all, 1, -1), 0); /* data stands: no sleep */
    hf_ring_advance(&r, 3);
    CHECK_EQ(hf_ring_wait(&w, all, 1, 1000), HF_EAGAIN);
    CHECK_EQ(hf_load(&w.sleeping, HF_RELAXED), 0);
    CHECK_EQ(hf_stat_read(&w.wakeups), 1);
    CHECK_EQ(hf_stat_read(&w.lost), 0);
    hf_ring_free(&r);
    hf_wake_free(&w);
}

static void a_lost_wake_up_is_counted(void) {
    hf_wake w;
    hf_ring r;
    hf_ring *all[] = {&r};
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 64, &w, NULL, no_text) == 0);
    /* What a broken producer would do: announce without a look at the flag, and let
     * its data show only afterwards. */
    hf_store(&r.announced, 3, HF_RELEASE);
    CHECK_EQ(hf_ring_wait(&w, all, 1, 1000), 0);
    CHECK_EQ(hf_stat_read(&w.lost), 1);
    hf_ring_free(&r);
    hf_wake_free(&w);
}

static void data_not_yet_announced_is_no_lost_wake_up(void) {
    hf_wake w;
    hf_ring r;
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 64, &w, NULL, no_text) == 0);
    hf_wake_prepare(&w);
    CHECK_EQ(push(&r, "x"), 0);
    CHECK_EQ(hf_wake_wait(&w, 0), HF_EAGAIN);
    CHECK(!hf_ring_overdue(&r));
    CHECK(hf_wake_cancel(&w));
    hf_ring_wake_consumer(&r);
    CHECK(hf_ring_overdue(&r));
    hf_ring_free(&r);
    hf_wake_free(&w);
}

static void a_kick_ends_the_next_wait(void) {
    hf_wake w;
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    hf_wake_kick(&w);
    hf_wake_kick(&w);
    CHECK_EQ(hf_ring_wait(&w, NULL, 0, -1), 0);
    CHECK_EQ(hf_ring_wait(&w, NULL, 0, 0), HF_EAGAIN);
    hf_wake_free(&w);
    hf_wake_free(&w); /* a second time is harmless */
}

static void on_alarm(int number) {
    (void)number;
}

static void a_signal_ends_a_wait(void) {
    hf_wake w;
    struct sigaction act = {.sa_handler = on_alarm}, old;
    struct itimerval soon = {.it_interval = {0, 5000}, .it_value = {0, 5000}},
                     off = {{0, 0}, {0, 0}};
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    sigaction(SIGALRM, &act, &old);
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK_EQ(hf_ring_wait(&w, NULL, 0, -1), HF_EINTR);
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    CHECK_EQ(hf_load(&w.sleeping, HF_RELAXED), 0);
    hf_wake_free(&w);
}

static void a_producer_that_wants_room_is_told_once(void) {
    hf_wake w;
    hf_ring r;
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 8, NULL, &w, no_text) == 0);
    CHECK_EQ(push(&r, "12345678"), 0);
    hf_ring_advance(&r, 1);
    CHECK(!readable(&w)); /* nobody wants room */
    CHECK_EQ(push(&r, "abc"), HF_EFULL);
    CHECK_EQ(hf_ring_want_room(&r), 0);
    hf_ring_advance(&r, 1);
    CHECK_EQ(hf_wake_wait(&w, 0), 0);
    hf_ring_advance(&r, 1);
    CHECK(!readable(&w));
    CHECK_EQ(push(&r, "abc"), 0);
    CHECK_EQ(push(&r, "d"), HF_EFULL);
    hf_ring_advance(&r, 1);
    CHECK_EQ(hf_ring_want_room(&r), 1); /* the head moved in between */
    CHECK_EQ(push(&r, "d"), 0);
    hf_ring_free(&r);
    hf_wake_free(&w);
}

static void a_part_of_a_reference_makes_no_room(void) {
    hf_wake w;
    hf_ring r;
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 8, NULL, &w, no_text) == 0);
    CHECK_EQ(push_ref(&r, "0123456789012345678901234567890123456789"), 0);
    CHECK_EQ(push_ref(&r, "x"), HF_EFULL);
    CHECK_EQ(hf_ring_want_room(&r), 0);
    CHECK(gives(&r, "0123456789012345678901234567890123456789"));
    hf_ring_advance(&r, 39);
    CHECK(!readable(&w));
    hf_ring_advance(&r, 1);
    CHECK(readable(&w));
    CHECK_EQ(push_ref(&r, "x"), 0);
    hf_ring_free(&r);
    hf_wake_free(&w);
}

static void an_abandoned_ring_lets_its_producer_go(void) {
    hf_wake w;
    hf_ring r;
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 8, NULL, &w, no_text) == 0);
    CHECK_EQ(push(&r, "12345678"), 0);
    CHECK_EQ(hf_ring_want_room(&r), 0);
    hf_ring_abandon(&r);
    CHECK_EQ(hf_wake_wait(&w, 0), 0);
    CHECK_EQ(hf_ring_want_room(&r), HF_EPIPE);
    hf_ring_free(&r);
    hf_wake_free(&w);
}

static void a_closed_ring_ends_when_it_is_empty(void) {
    hf_wake w;
    hf_ring r;
    hf_ring *all[] = {&r};
    REQUIRE(hf_wake_init(&w, no_text) == 0);
    REQUIRE(hf_ring_init(&r, 8, &w, NULL, no_text) == 0);
    CHECK_EQ(push(&r, "last"), 0);
    CHECK(!hf_ring_ended(&r));
    hf_ring_close(&r);
    CHECK(!hf_ring_ended(&r));
    hf_ring_advance(&r, 4);
    CHECK_EQ(hf_ring_wait(&w, all, 1, -1), 0); /* the end is worth a look */
    CHECK(hf_ring_ended(&r));
    CHECK(!hf_ring_ready(&r));
    CHECK_EQ(hf_ring_wait(&w, all, 1, 0), HF_EAGAIN);
    hf_ring_free(&r);
    hf_wake_free(&w);
}

int main(void) {
    RUN(a_push_wakes_only_when_told_to_and_only_a_sleeper);
    RUN(a_lost_wake_up_is_counted);
    RUN(data_not_yet_announced_is_no_lost_wake_up);
    RUN(a_kick_ends_the_next_wait);
    RUN(a_signal_ends_a_wait);
    RUN(a_producer_that_wants_room_is_told_once);
    RUN(a_part_of_a_reference_makes_no_room);
    RUN(an_abandoned_ring_lets_its_producer_go);
    RUN(a_closed_ring_ends_when_it_is_empty);
    return check_result();
}
