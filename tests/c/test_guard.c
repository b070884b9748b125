#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "err.h"

/* us of slack on a busy machine. TSan holds signals back and sleeps at exit. */
#if defined(__SANITIZE_THREAD__)
#define SLACK 1000000
#else
#define SLACK 40000
#endif

static volatile sig_atomic_t dumps;

static void count_dump(int signum) {
    (void)signum;
    dumps++;
}

static int dump_signal;

static void set_up(void) {
    dump_signal = hf_guard_free_signal(0);
    REQUIRE(dump_signal > SIGRTMIN);
    struct sigaction act = {.sa_handler = count_dump};
    sigaction(dump_signal, &act, NULL);
    int kick = hf_guard_free_signal(dump_signal);
    REQUIRE(kick > 0 && kick < dump_signal);
    REQUIRE(hf_guard_signals(kick, dump_signal) == HF_OK);
}

/* Sleeps as a system call does, without going on after EINTR. Returns us slept. */
static int64_t sleep_once(int64_t us) {
    int64_t start = hf_now();
    struct timespec ts = {us / 1000000, (us % 1000000) * 1000};
    nanosleep(&ts, NULL);
    return hf_now() - start;
}

/* Sleeps whatever signals come. */
static void sleep_through(int64_t us) {
    int64_t end = hf_now() + us;
    while (hf_now() < end)
        sleep_once(end - hf_now());
}

static void a_late_thread_is_kicked_out_of_its_system_call(void) {
    int64_t id = hf_guard_arm(50000, 10000000, 0);
    REQUIRE(id > 0);
    int64_t slept = sleep_once(5000000);
    CHECK(slept >= 50000);
    CHECK(slept < 50000 + HF_GUARD_KICK_AFTER + SLACK);
    hf_guard_disarm(id);
}

static void kicks_go_on_until_the_deadline_is_acknowledged(void) {
    int64_t id = hf_guard_arm(10000, 10000000, 0);
    for (int i = 0; i < 4; i++)
        CHECK(sleep_once(5000000) < 100000 + SLACK);
    CHECK_EQ(hf_guard_ack(id, 5000000), HF_OK);
    CHECK(sleep_once(150000) >= 150000);
    hf_guard_disarm(id);
}

static void a_disarmed_watch_does_nothing(void) {
    int64_t id = hf_guard_arm(20000, 20000, 1);
    hf_guard_disarm(id);
    CHECK(sleep_once(120000) >= 120000);
    CHECK_EQ(hf_guard_ack(id, 1), HF_EINVAL);
    int64_t next = hf_guard_arm(10000000, 1000000, 0);
    CHECK(next != id);
    hf_guard_disarm(id);
    CHECK_EQ(hf_guard_ack(next, 10000000), HF_OK);
    hf_guard_disarm(next);
}

static void an_earlier_watch_armed_later_is_still_on_time(void) {
    int64_t late = hf_guard_arm(10000000, 1000000, 0);
    sleep_through(20000); /* the guard's thread now sleeps until the late one */
    int64_t early = hf_guard_arm(30000, 1000000, 0);
    CHECK(sleep_once(5000000) < 30000 + HF_GUARD_KICK_AFTER + SLACK);
    hf_guard_disarm(early);
    hf_guard_disarm(late);
}

static void many_watches_are_kept_apart(void) {
    enum { MANY = 200 };
    int64_t ids[MANY];
    for (int i = 0; i < MANY; i++)
        ids[i] = hf_guard_arm(60000000, 1000000, 1);
    for (int i = 0; i < MANY; i++) {
        CHECK(ids[i] > 0);
        CHECK_EQ(hf_guard_ack(ids[i], 60000000), HF_OK);
        hf_guard_disarm(ids[i]);
        CHECK_EQ(hf_guard_ack(ids[i], 1), HF_EINVAL);
    }
}

/* Runs act in a child with stderr into a pipe. Returns its exit code, or -signal. */
static int in_child(void (*act)(void), char *text, size_t cap, int64_t *took) {
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    int64_t start = hf_now();
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], 2);
        close(fds[0]);
        close(fds[1]);
        act();
        _exit(dumps == 1 ? 0 : 1);
    }
    close(fds[1]);
    size_t n = 0;
    ssize_t got = 1;
    while (n + 1 < cap && (got = read(fds[0], text + n, cap - 1 - n)) != 0) {
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            break;
    }
    text[n] = '\0';
    close(fds[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *took = hf_now() - start;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void stuck_for_ever(void) {
    hf_guard_arm(50000, 100000, 1);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    sleep_through(20000000);
}

static void a_stuck_thread_that_blocks_all_signals_ends_the_process(void) {
    char text[4096];
    int64_t took;
    CHECK_EQ(in_child(stuck_for_ever, text, sizeof text, &took), HF_GUARD_EXIT);
    CHECK(took >= 150000 + HF_GUARD_TELL_WAIT_EXITS);
    CHECK(took < 150000 + HF_GUARD_TELL_WAIT_EXITS + 4 * SLACK);
    CHECK(strstr(text, "its deadline of 0.050 s") != NULL);
    CHECK(strstr(text, "code 70") != NULL);
}

static void stuck_for_a_while(void) {
    int64_t id = hf_guard_arm(20000, 30000, 0);
    sleep_through(150000 + HF_GUARD_TELL_WAIT);
    hf_guard_disarm(id);
}

static void with_raise_the_stacks_are_printed_once_and_the_process_lives(void) {
    char text[4096];
    int64_t took;
    CHECK_EQ(in_child(stuck_for_a_while, text, sizeof text, &took), 0);
    CHECK(took >= HF_GUARD_TELL_WAIT);
    char *first = strstr(text, "hardfetch.deadline");
    CHECK(first != NULL && strstr(first + 1, "hardfetch.deadline") == NULL);
    CHECK(strstr(text, "code 70") == NULL);
}

static void *bring_stacks(void *arg) {
    const char text[] = "here it stands\n";
    int64_t id = *(int64_t *)arg;
    while (hf_guard_tell(id, text, sizeof text - 1) == 0)
        sleep_once(1000);
    sleep_through(20000);
    if (hf_guard_tell(id, text, sizeof text - 1) != 0)
        _exit(3); /* twice */
    return NULL;
}

static void stuck_with_help(int exits) {
    pthread_t t;
    int64_t id = hf_guard_arm(50000, 50000, exits);
    if (hf_guard_tell(id, "x", 1) != 0 || hf_guard_tell(id + 1, "x", 1) != 0)
        _exit(4);
    pthread_create(&t, NULL, bring_stacks, &id);
    sleep_through(exits ? 20000000 : 300000 + HF_GUARD_TELL_WAIT);
    pthread_join(t, NULL);
    hf_guard_disarm(id);
    _exit(dumps == 0 ? 0 : 5);
}

static void stuck_with_help_to_the_end(void) {
    stuck_with_help(1);
}

static void stuck_with_help_for_a_while(void) {
    stuck_with_help(0);
}

static void stacks_that_are_brought_are_told_once_and_no_signal_is_raised(void) {
    char text[4096];
    int64_t took;
    CHECK_EQ(in_child(stuck_with_help_to_the_end, text, sizeof text, &took),
             HF_GUARD_EXIT);
    CHECK(took >= 98000);
    CHECK(took < 100000 + 4 * SLACK);
    CHECK(strstr(text, "stacks follow\nhere it stands\n") != NULL);
    CHECK_EQ(in_child(stuck_with_help_for_a_while, text, sizeof text, &took), 0);
    char *first = strstr(text, "here it stands");
    CHECK(first != NULL && strstr(first + 1, "here it stands") == NULL);
}

/* Fills a pipe that nobody reads and makes it stderr. */
static void stuck_with_a_full_stderr(void) {
    int fds[2];
    if (pipe(fds) != 0)
        _exit(1);
    struct pollfd p = {.fd = fds[1], .events = POLLOUT};
    char block[4096] = {0};
    while (poll(&p, 1, 0) == 1) {
        if (write(fds[1], block, sizeof block) < 0)
            _exit(1);
    }
    dup2(fds[1], 2);
    stuck_for_ever();
}

static void a_stderr_that_nobody_reads_does_not_keep_the_process_alive(void) {
    char text[64];
    int64_t took;
    CHECK_EQ(in_child(stuck_with_a_full_stderr, text, sizeof text, &took),
             HF_GUARD_EXIT);
    CHECK(took >= HF_GUARD_DUMP_LIMIT);
    CHECK(took < HF_GUARD_DUMP_LIMIT + HF_GUARD_TELL_WAIT_EXITS + 150000 + 4 * SLACK);
}

static void a_forked_child_has_no_watch_and_can_arm_its_own(void) {
    int64_t id = hf_guard_arm(50000, 20000, 1);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        sleep_through(200000);
        if (hf_guard_ack(id, 1) != HF_EINVAL)
            _exit(1);
        dup2(open("/dev/null", O_WRONLY), 2);
#if defined(__SANITIZE_THREAD__)
        _exit(HF_GUARD_EXIT); /* it allows no thread here */
#endif
        stuck_for_ever();
        _exit(2);
    }
    hf_guard_disarm(id);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), HF_GUARD_EXIT);
}

static void *arm_and_leave(void *arg) {
    *(int64_t *)arg = hf_guard_arm(20000, 20000, 1);
    return NULL;
}

static void the_watch_of_a_thread_that_ended_is_dropped(void) {
    int64_t id = 0;
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, arm_and_leave, &id) == 0);
    pthread_join(t, NULL);
    REQUIRE(id > 0);
    sleep_through(150000);
    CHECK_EQ(hf_guard_ack(id, 1), HF_EINVAL);
}

static void bad_signals_are_refused(void) {
    CHECK_EQ(hf_guard_signals(0, dump_signal), HF_EINVAL);
    CHECK_EQ(hf_guard_signals(dump_signal, dump_signal), HF_EINVAL);
    CHECK_EQ(hf_guard_signals(SIGRTMAX + 1, 0), HF_EINVAL);
}

static void after_the_stop_nothing_is_armed(void) {
    int64_t id = hf_guard_arm(20000, 20000, 1);
    hf_guard_stop();
    CHECK_EQ(hf_guard_ack(id, 1), HF_EINVAL);
    CHECK(hf_guard_arm(1000, 1000, 1) < 0);
    sleep_through(100000);
}

int main(void) {
    set_up();
    /* First, while this process has no thread of the guard. */
    RUN(a_stuck_thread_that_blocks_all_signals_ends_the_process);
    RUN(stacks_that_are_brought_are_told_once_and_no_signal_is_raised);
    RUN(with_raise_the_stacks_are_printed_once_and_the_process_lives);
    RUN(a_stderr_that_nobody_reads_does_not_keep_the_process_alive);
    RUN(a_late_thread_is_kicked_out_of_its_system_call);
    RUN(kicks_go_on_until_the_deadline_is_acknowledged);
    RUN(a_disarmed_watch_does_nothing);
    RUN(an_earlier_watch_armed_later_is_still_on_time);
    RUN(many_watches_are_kept_apart);
    RUN(a_forked_child_has_no_watch_and_can_arm_its_own);
    RUN(the_watch_of_a_thread_that_ended_is_dropped);
    RUN(bad_signals_are_refused);
    RUN(after_the_stop_nothing_is_armed);
    return check_result();
}
