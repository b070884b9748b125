/* Sockets and what the kernel is told of them. */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "poller.h"
#include "tcpstate.h"

static hf_poller p;
static hf_stat ctls, sets, waits;
static int wake_fd;
static char text[128];

static void open_poller(void) {
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    memset(&p, 0, sizeof p);
    p.ctls = &ctls;
    p.sets = &sets;
    p.waits = &waits;
    REQUIRE(wake_fd >= 0 && hf_poller_init(&p, wake_fd, (hf_errbuf){text, 128}) == 0);
}

static void close_poller(void) {
    hf_poller_free(&p);
    close(wake_fd);
}

/* What one wait brings of fd: its events, 0 for none. Reads all raw events. */
static uint32_t events_of(int fd, int64_t within) {
    struct epoll_event raw[HF_POLL_EVENTS];
    int64_t now = hf_now();
    int n = hf_poller_wait(&p, now + within, now, raw);
    uint32_t got = 0;
    for (int i = 0; i < n; i++) {
        hf_happening h;
        if (hf_poller_read(&p, &raw[i], &h) && h.what == HF_AT_SOCKET && h.fd == fd) {
            got = h.events;
        }
    }
    return got;
}

static void pair(int fds[2]) {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) ==
            0);
}

static void the_clock_and_the_wake_end_a_wait(void) {
    open_poller();
    struct epoll_event raw[HF_POLL_EVENTS];
    hf_happening h;
    int64_t from = hf_now();
    int n = hf_poller_wait(&p, from + 30000, from, raw);
    int64_t took = hf_now() - from;
    REQUIRE(n == 1 && hf_poller_read(&p, &raw[0], &h));
    CHECK(h.what == HF_AT_TIMER && took >= 30000 && took < 1000000);
    uint64_t one = 1;
    REQUIRE(write(wake_fd, &one, sizeof one) == sizeof one);
    n = hf_poller_wait(&p, HF_NEVER, hf_now(), raw);
    REQUIRE(n == 1 && hf_poller_read(&p, &raw[0], &h));
    CHECK_EQ(h.what, HF_AT_WAKE);
    /* A time that has passed does not wait, and sets no timer. */
    uint64_t before = hf_stat_read(&sets);
    CHECK_EQ(hf_poller_wait(&p, 1, hf_now(), raw), 0);
    CHECK_EQ(hf_stat_read(&sets), before);
    close_poller();
}

/* The timer is set to the sooner time, and again after it has fired. */
static void a_later_time_costs_no_call_and_is_kept_all_the_same(void) {
    open_poller();
    struct epoll_event raw[HF_POLL_EVENTS];
    hf_happening h;
    uint64_t one = 1;
    int64_t from = hf_now();
    uint64_t before = hf_stat_read(&sets);
    REQUIRE(write(wake_fd, &one, sizeof one) == sizeof one);
    for (int64_t at = from + 40000; at <= from + 60000; at += 10000) {
        CHECK_EQ(hf_poller_wait(&p, at, from, raw), 1); /* the wake, not yet read */
    }
    CHECK_EQ(hf_stat_read(&sets), before + 1);
    REQUIRE(hf_poller_read(&p, &raw[0], &h) && h.what == HF_AT_WAKE);
    int64_t at = from + 60000;
    while (hf_now() < at) {
        int n = hf_poller_wait(&p, at, hf_now(), raw);
        for (int i = 0; i < n; i++) {
            hf_poller_read(&p, &raw[i], &h);
        }
        REQUIRE(hf_now() < at + 1000000);
    }
    CHECK(hf_stat_read(&sets) <= before + 2); /* less where the machine slept past it */
    close_poller();
}

static void reuse_of_our_socket_costs_no_epoll_ctl(void) {
    open_poller();
    int fds[2];
    pair(fds);
    hf_sock *s = hf_poller_opened(&p, fds[0], false);
    REQUIRE(s && hf_poller_find(&p, fds[0]) == s);
    CHECK_EQ(hf_poller_want(&p, fds[0], EPOLLIN, &p), 0);
    hf_poller_reconcile(&p);
    uint64_t before = hf_stat_read(&ctls);
    for (int i = 0; i < 100; i++) {
        hf_poller_want(&p, fds[0], 0, &p);
        hf_poller_want(&p, fds[0], EPOLLIN, &p);
        hf_poller_reconcile(&p);
    }
    hf_poller_want(&p, fds[0], 0, &p);
    hf_poller_reconcile(&p);
    CHECK_EQ(hf_stat_read(&ctls), before);
    REQUIRE(write(fds[1], "x", 1) == 1);
    CHECK((events_of(fds[0], 1000000) & EPOLLIN) != 0);
    hf_poller_closing(&p, fds[0]);
    CHECK(hf_poller_find(&p, fds[0]) == NULL);
    CHECK_EQ(events_of(fds[0], 0), 0);
    close(fds[0]);
    close(fds[1]);
    close_poller();
}

static void an_idle_socket_that_speaks_or_ends_is_shut_down_once(void) {
    open_poller();
    for (int ends = 0; ends < 2; ends++) {
        int fds[2];
        pair(fds);
        hf_poller_opened(&p, fds[0], false);
        hf_poller_want(&p, fds[0], EPOLLIN, &p);
        hf_poller_reconcile(&p);
        hf_poller_want(&p, fds[0], 0, &p);
        hf_poller_reconcile(&p);
        if (ends) {
            shutdown(fds[1], SHUT_RDWR);
        } else {
            REQUIRE(write(fds[1], "late", 4) == 4);
        }
        uint32_t events = events_of(fds[0], 1000000);
        REQUIRE(events != 0);
        hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), events);
        CHECK(send(fds[0], "x", 1, MSG_NOSIGNAL) < 0);
        CHECK_EQ(events_of(fds[0], 0), 0);
        /* It is never watched again, whatever libcurl wants of it. */
        hf_poller_want(&p, fds[0], EPOLLIN, &p);
        hf_poller_reconcile(&p);
        CHECK_EQ(events_of(fds[0], 0), 0);
        hf_poller_closing(&p, fds[0]);
        close(fds[0]);
        close(fds[1]);
    }
    close_poller();
}

/* Sockets that go idle, the last of them with bytes left in it: `many` at once, which
 * one wait tells of, or one alone, which is asked. */
static void rest(int many, bool tls, uint32_t watched) {
    int fds[8][2];
    for (int i = 0; i < many; i++) {
        pair(fds[i]);
        hf_poller_opened(&p, fds[i][0], tls);
        hf_poller_want(&p, fds[i][0], watched, &p);
    }
    hf_poller_reconcile(&p);
    int *last = fds[many - 1];
    CHECK(!hf_tcp_unread(last[0]));
    REQUIRE(write(last[1], "more", 4) == 4);
    CHECK(hf_tcp_unread(last[0]));
    for (int i = 0; i < many; i++) {
        hf_poller_want(&p, fds[i][0], 0, &p);
    }
    hf_poller_look_at_rested(&p);
    for (int i = 0; i < many; i++) {
        bool dead = !tls && i == many - 1;
        CHECK_EQ(hf_poller_find(&p, fds[i][0])->dead, dead);
        CHECK_EQ(send(fds[i][0], "x", 1, MSG_NOSIGNAL), dead ? -1 : 1);
        hf_poller_closing(&p, fds[i][0]);
        close(fds[i][0]);
        close(fds[i][1]);
    }
}

static void what_is_left_unread_ends_a_socket_that_goes_idle(void) {
    open_poller();
    for (int many = 1; many <= 8; many++) {
        rest(many, false, EPOLLIN);
        rest(many, false, EPOLLIN | EPOLLOUT);
        rest(many, false, EPOLLOUT);
        rest(many, true, EPOLLIN);
    }
    close_poller();
}

static void one_wait_tells_of_all_that_rest(void) {
    open_poller();
    int fds[8][2];
    for (int i = 0; i < 8; i++) {
        pair(fds[i]);
        hf_poller_opened(&p, fds[i][0], false);
        hf_poller_want(&p, fds[i][0], EPOLLIN, &p);
    }
    hf_poller_reconcile(&p);
    uint64_t before = hf_stat_read(p.waits);
    for (int i = 0; i < 8; i++) {
        hf_poller_want(&p, fds[i][0], 0, &p);
    }
    hf_poller_look_at_rested(&p);
    hf_poller_look_at_rested(&p);
    CHECK_EQ(hf_stat_read(p.waits) - before, 1);
    /* One that works again is nobody's leftover. */
    hf_poller_want(&p, fds[0][0], 0, &p);
    hf_poller_want(&p, fds[0][0], EPOLLIN, &p);
    REQUIRE(write(fds[0][1], "an answer", 9) == 9);
    hf_poller_look_at_rested(&p);
    for (int i = 0; i < 8; i++) {
        CHECK(!hf_poller_find(&p, fds[i][0])->dead);
        hf_poller_closing(&p, fds[i][0]);
        close(fds[i][0]);
        close(fds[i][1]);
    }
    close_poller();
}

static void under_tls_nothing_may_come_between_answers_of_http1(void) {
    open_poller();
    int fds[2];
    pair(fds);
    hf_poller_opened(&p, fds[0], true)->http1 = true;
    hf_poller_want(&p, fds[0], EPOLLIN, &p);
    hf_poller_reconcile(&p);
    hf_poller_want(&p, fds[0], 0, &p);
    hf_poller_reconcile(&p);
    REQUIRE(write(fds[1], "late", 4) == 4);
    uint32_t events = events_of(fds[0], 1000000);
    hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), events);
    CHECK(hf_poller_find(&p, fds[0])->dead);
    CHECK(send(fds[0], "x", 1, MSG_NOSIGNAL) < 0);
    hf_poller_closing(&p, fds[0]);
    close(fds[0]);
    close(fds[1]);
    close_poller();
}

static void what_was_due_before_it_went_idle_is_no_end(void) {
    open_poller();
    for (int kind = 0; kind < 3; kind++) { /* in clear, TLS, TLS with HTTP/1 */
        int fds[2];
        char buf[8];
        pair(fds);
        hf_poller_opened(&p, fds[0], kind > 0)->http1 = kind > 1;
        hf_poller_want(&p, fds[0], EPOLLIN | EPOLLOUT, &p);
        hf_poller_reconcile(&p);
        REQUIRE(write(fds[1], "answer", 6) == 6);
        uint32_t events = events_of(fds[0], 1000000);
        CHECK_EQ(events, EPOLLIN | EPOLLOUT);
        /* Another event of the same wait has made libcurl read it. */
        REQUIRE(read(fds[0], buf, sizeof buf) == 6);
        hf_poller_want(&p, fds[0], 0, &p);
        hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), events);
        hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), EPOLLOUT);
        CHECK(!hf_poller_find(&p, fds[0])->dead);
        CHECK_EQ(send(fds[0], "x", 1, MSG_NOSIGNAL), 1);
        hf_poller_reconcile(&p);
        CHECK_EQ(events_of(fds[0], 0), 0);
        shutdown(fds[1], SHUT_RDWR);
        events = events_of(fds[0], 1000000);
        hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), events);
        CHECK(hf_poller_find(&p, fds[0])->dead);
        hf_poller_closing(&p, fds[0]);
        close(fds[0]);
        close(fds[1]);
    }
    close_poller();
}

static void under_tls_a_ticket_is_no_end(void) {
    open_poller();
    int fds[2];
    pair(fds);
    hf_poller_opened(&p, fds[0], true);
    hf_poller_want(&p, fds[0], EPOLLIN, &p);
    hf_poller_reconcile(&p);
    hf_poller_want(&p, fds[0], 0, &p);
    hf_poller_reconcile(&p);
    REQUIRE(write(fds[1], "ticket", 6) == 6);
    uint32_t events = events_of(fds[0], 1000000);
    hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), events);
    CHECK(send(fds[0], "x", 1, MSG_NOSIGNAL) == 1);
    CHECK_EQ(events_of(fds[0], 0), 0); /* or the loop would spin */
    /* Used again, it reads as before. */
    hf_poller_want(&p, fds[0], EPOLLIN, &p);
    hf_poller_reconcile(&p);
    CHECK((events_of(fds[0], 1000000) & EPOLLIN) != 0);
    hf_poller_want(&p, fds[0], 0, &p);
    hf_poller_reconcile(&p);
    char buf[16];
    REQUIRE(read(fds[0], buf, sizeof buf) == 6);
    shutdown(fds[1], SHUT_RDWR);
    events = events_of(fds[0], 1000000);
    CHECK(events != 0);
    hf_poller_idle_event(&p, fds[0], hf_poller_find(&p, fds[0]), events);
    CHECK(send(fds[0], "x", 1, MSG_NOSIGNAL) < 0);
    hf_poller_closing(&p, fds[0]);
    close(fds[0]);
    close(fds[1]);
    close_poller();
}

/* c-ares and eventfds: closed and opened again under the same number, unseen. */
static void numbers_of_foreign_sockets_may_come_back_unseen(void) {
    open_poller();
    for (int round = 0; round < 20; round++) {
        int fds[2];
        pair(fds);
        int fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 700);
        close(fds[0]);
        REQUIRE(fd >= 700);
        CHECK_EQ(hf_poller_want(&p, fd, EPOLLIN, &p), 0);
        REQUIRE(write(fds[1], "x", 1) == 1);
        CHECK((events_of(fd, 1000000) & EPOLLIN) != 0);
        if (round % 2 == 0) {
            CHECK_EQ(hf_poller_want(&p, fd, 0, &p), 0);
            CHECK(hf_poller_find(&p, fd) == NULL);
        }
        close(fd);
        close(fds[1]);
    }
    CHECK_EQ(hf_poller_want(&p, 700, EPOLLIN, &p), 0); /* closed: survivable */
    CHECK_EQ(hf_poller_want(&p, 701, 0, &p), 0);
    close_poller();
}

/* An event of the last user of a number must not reach the next one. */
static void an_event_of_an_older_socket_is_stale(void) {
    open_poller();
    int fds[2];
    pair(fds);
    hf_poller_opened(&p, fds[0], false);
    hf_poller_want(&p, fds[0], EPOLLIN, &p);
    hf_poller_reconcile(&p);
    REQUIRE(write(fds[1], "x", 1) == 1);
    struct epoll_event raw[HF_POLL_EVENTS];
    int64_t now = hf_now();
    REQUIRE(hf_poller_wait(&p, now + 1000000, now, raw) == 1);
    int fd = fds[0];
    hf_poller_closing(&p, fd);
    hf_happening h;
    CHECK(!hf_poller_read(&p, &raw[0], &h));
    hf_poller_opened(&p, fd, false);
    CHECK(!hf_poller_read(&p, &raw[0], &h));
    hf_poller_closing(&p, fd);
    close(fds[0]);
    close(fds[1]);
    close_poller();
}

static void shutting_all_down_spares_what_is_not_ours(void) {
    open_poller();
    int ours[2];
    int foreign[2];
    pair(ours);
    pair(foreign);
    hf_poller_opened(&p, ours[0], false);
    hf_poller_want(&p, foreign[0], EPOLLIN, &p);
    hf_poller_shutdown_all(&p);
    CHECK(send(ours[0], "x", 1, MSG_NOSIGNAL) < 0);
    CHECK_EQ(send(foreign[0], "x", 1, MSG_NOSIGNAL), 1);
    hf_poller_closing(&p, ours[0]);
    close(ours[0]);
    close(ours[1]);
    close(foreign[0]);
    close(foreign[1]);
    close_poller();
}

int main(void) {
    RUN(the_clock_and_the_wake_end_a_wait);
    RUN(a_later_time_costs_no_call_and_is_kept_all_the_same);
    RUN(reuse_of_our_socket_costs_no_epoll_ctl);
    RUN(an_idle_socket_that_speaks_or_ends_is_shut_down_once);
    RUN(what_is_left_unread_ends_a_socket_that_goes_idle);
    RUN(one_wait_tells_of_all_that_rest);
    RUN(under_tls_nothing_may_come_between_answers_of_http1);
    RUN(what_was_due_before_it_went_idle_is_no_end);
    RUN(under_tls_a_ticket_is_no_end);
    RUN(numbers_of_foreign_sockets_may_come_back_unseen);
    RUN(an_event_of_an_older_socket_is_stale);
    RUN(shutting_all_down_spares_what_is_not_ours);
    return check_result();
}
