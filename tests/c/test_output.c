/* Records out of two rings: whole lines in order, whatever takes them, and an answer to
 * everything that a descriptor can do. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "fence.h"
#include "output.h"

enum { RINGS = 2, LINES = 4000, CAPACITY = 1 << 16 };

static hf_shared shared;
static hf_shard shards[RINGS];
static hf_output out;
static hf_atomic_u32 finished;
static char text[256];
static const hf_errbuf err = {text, sizeof text};

static void open_output(void) {
    memset(&shared, 0, sizeof shared);
    memset(shards, 0, sizeof shards);
    hf_init(&finished, 0);
    REQUIRE(hf_wake_init(&shared.output, err) == 0);
    shared.shards = shards;
    shared.n_shards = RINGS;
    for (int i = 0; i < RINGS; i++) {
        REQUIRE(hf_ring_init(&shards[i].ring, CAPACITY, &shared.output, NULL, err) ==
                0);
    }
    hf_init(&shared.outstanding, 1);
    REQUIRE(hf_output_init(&out, &shared, &finished) == 0);
}

static void close_output(void) {
    hf_output_free(&out);
    for (int i = 0; i < RINGS; i++) {
        hf_ring_free(&shards[i].ring);
    }
    hf_wake_free(&shared.output);
}

static void end_input(void) {
    hf_store(&finished, 1, HF_SEQ_CST);
    hf_add(&shared.outstanding, (uint64_t)-1, HF_SEQ_CST);
    hf_wake_notify(&shared.output);
}

/* For other threads, which must not touch the counters of check.h. */
static void must(int holds) {
    if (!holds) {
        abort();
    }
}

/* A line that tells its ring, number and length, so that any tear shows. */
static size_t make_line(char *p, int ring, int number, size_t n) {
    int head = snprintf(p, 64, "%d %d %zu ", ring, number, n);
    size_t used = (size_t)head;
    memset(p + used, 'a' + number % 26, n);
    p[used + n] = '\n';
    return used + n + 1;
}

static int framed; /* 1: each line goes as a frame, behind its length */

static int push_line(hf_ring *r, int ring, int number, size_t n) {
    char *p = malloc(n + 80);
    must(p != NULL);
    size_t len = make_line(p + 4 * framed, ring, number, n);
    if (framed) {
        for (int i = 0; i < 4; i++) {
            p[i] = (char)(len >> (8 * i) & 0xff);
        }
        len += 4;
    }
    if (hf_ring_by_ref(r, len)) {
        int rc = hf_ring_push_ref(r, (uint8_t *)p, len);
        if (rc != 0) {
            free(p);
        }
        return rc;
    }
    struct iovec part = {p, len};
    int rc = hf_ring_push(r, &part, 1);
    free(p);
    return rc;
}

static void *produce(void *arg) {
    int ring = *(int *)arg;
    hf_ring *r = &shards[ring].ring;
    uint64_t random = 77u + (uint64_t)ring;
    for (int i = 0; i < LINES; i++) {
        size_t n = fence_random(&random) % 700;
        n = i % 50 == 7 ? 20000 : n;
        while (push_line(r, ring, i, n) != 0) {
            hf_ring_wake_consumer(r);
            sched_yield();
        }
        if (i % 3 == 0) {
            hf_ring_wake_consumer(r);
        }
    }
    hf_ring_wake_consumer(r);
    return NULL;
}

/* Follows the bytes that came out. */
typedef struct follower {
    char buf[1 << 17];
    size_t n;
    int next[RINGS];
    int bad;
} follower;

static void check_line(follower *f, const char *line, size_t n) {
    int ring = -1;
    int number = -1;
    size_t want = 0;
    char copy[80];
    size_t m = n < sizeof copy - 1 ? n : sizeof copy - 1;
    memcpy(copy, line, m);
    copy[m] = '\0';
    char whole[24000];
    if (sscanf(copy, "%d %d %zu ", &ring, &number, &want) != 3 || ring < 0 ||
        ring >= RINGS || want > 21000 || number != f->next[ring] ||
        make_line(whole, ring, number, want) != n + 1 || memcmp(whole, line, n) != 0) {
        if (f->bad++ == 0) {
            fprintf(stderr, "    torn: %.60s\n", copy);
        }
        return;
    }
    f->next[ring]++;
}

static void follow(follower *f, const char *p, size_t n) {
    while (n > 0) {
        size_t take = n < sizeof f->buf - f->n ? n : sizeof f->buf - f->n;
        must(take > 0);
        memcpy(f->buf + f->n, p, take);
        f->n += take;
        p += take;
        n -= take;
        size_t at = 0;
        char *nl;
        while ((nl = memchr(f->buf + at, '\n', f->n - at)) != NULL) {
            check_line(f, f->buf + at, (size_t)(nl - f->buf) - at);
            at = (size_t)(nl - f->buf) + 1;
        }
        memmove(f->buf, f->buf + at, f->n - at);
        f->n -= at;
    }
}

static follower seen;

static void start_producers(pthread_t threads[RINGS]) {
    static int numbers[RINGS] = {0, 1};
    memset(&seen, 0, sizeof seen);
    for (int i = 0; i < RINGS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, produce, &numbers[i]) == 0);
    }
}

static void check_all_seen(void) {
    CHECK_EQ(seen.bad, 0);
    CHECK_EQ(seen.n, 0);
    for (int i = 0; i < RINGS; i++) {
        CHECK_EQ(seen.next[i], LINES);
    }
    CHECK_EQ(hf_stat_read(&shared.output.lost), 0);
}

static void *join_then_end(void *arg) {
    pthread_t *threads = arg;
    for (int i = 0; i < RINGS; i++) {
        pthread_join(threads[i], NULL);
    }
    end_input();
    return NULL;
}

static void reading_in_any_piece_never_tears_a_line(void) {
    open_output();
    pthread_t threads[RINGS];
    pthread_t last;
    start_producers(threads);
    REQUIRE(pthread_create(&last, NULL, join_then_end, threads) == 0);
    uint64_t random = 5;
    static uint8_t buf[30000];
    int64_t n;
    while ((n = hf_output_read(&out, buf, 1 + fence_random(&random) % sizeof buf,
                               1000000)) >= 0) {
        follow(&seen, (const char *)buf, (size_t)n);
    }
    CHECK_EQ(n, HF_EEND);
    pthread_join(last, NULL);
    check_all_seen();
    close_output();
}

/* Checks the frames of a view; each must be whole. */
static void follow_frames(follower *f, const uint8_t *p, size_t n) {
    while (n > 0) {
        must(n > 4);
        size_t len = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        must(len > 0 && len <= n - 4);
        check_line(f, (const char *)p + 4, len - 1);
        p += 4 + len;
        n -= 4 + len;
    }
}

static void frames_are_given_whole_in_place(void) {
    open_output();
    framed = 1;
    pthread_t threads[RINGS];
    pthread_t last;
    start_producers(threads);
    REQUIRE(pthread_create(&last, NULL, join_then_end, threads) == 0);
    const uint8_t *data;
    int64_t n;
    bool in_place = false;
    while ((n = hf_output_view(&out, &data, 1000000)) >= 0) {
        follow_frames(&seen, data, (size_t)n);
        in_place = in_place || (n > 0 && data != out.joined.data);
    }
    CHECK_EQ(n, HF_EEND);
    CHECK(data == NULL && in_place);
    CHECK(out.joined.data != NULL); /* the end of a ring has cut some */
    pthread_join(last, NULL);
    check_all_seen();
    framed = 0;
    close_output();
}

static void a_view_holds_its_place_until_the_next(void) {
    open_output();
    framed = 1;
    const uint8_t *data;
    CHECK_EQ(hf_output_view(&out, &data, 0), 0);
    REQUIRE(push_line(&shards[0].ring, 0, 0, 100) == 0);
    int64_t n = hf_output_view(&out, &data, 0);
    CHECK(n > 100 && hf_ring_used(&shards[0].ring) == (uint64_t)n);
    end_input();
    CHECK_EQ(hf_output_view(&out, &data, 1000000), HF_EEND);
    CHECK_EQ(hf_ring_used(&shards[0].ring), 0);
    framed = 0;
    close_output();
}

typedef struct reader {
    int fd;
    int pause; /* us between two reads */
} reader;

static void *read_slowly(void *arg) {
    reader *r = arg;
    char buf[3000];
    ssize_t n;
    uint64_t random = 9;
    while ((n = read(r->fd, buf, 1 + fence_random(&random) % sizeof buf)) > 0) {
        follow(&seen, buf, (size_t)n);
        if (r->pause > 0 && random % 8 == 0) {
            usleep((useconds_t)r->pause);
        }
    }
    return NULL;
}

static void a_slow_pipe_gets_whole_lines_in_order(void) {
    open_output();
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    pthread_t threads[RINGS];
    pthread_t last;
    pthread_t consumer;
    reader r = {fds[0], 200};
    start_producers(threads);
    REQUIRE(pthread_create(&consumer, NULL, read_slowly, &r) == 0);
    REQUIRE(pthread_create(&last, NULL, join_then_end, threads) == 0);
    int64_t n;
    int64_t total = 0;
    while ((n = hf_output_drain(&out, fds[1], 20000, err)) >= 0) {
        total += n;
    }
    CHECK_EQ(n, HF_EEND);
    close(fds[1]);
    pthread_join(consumer, NULL);
    pthread_join(last, NULL);
    close(fds[0]);
    CHECK_EQ(total, hf_stat_read(&out.drained));
    check_all_seen();
    close_output();
}

static int some_line(void) {
    return push_line(&shards[0].ring, 0, 0, 500);
}

static void a_reader_that_went_away_is_epipe(void) {
    open_output();
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    signal(SIGPIPE, SIG_IGN);
    REQUIRE(some_line() == 0);
    CHECK(hf_output_drain(&out, fds[1], 50000, err) > 0);
    close(fds[0]);
    REQUIRE(some_line() == 0);
    CHECK_EQ(hf_output_drain(&out, fds[1], 1000000, err), HF_EPIPE);
    CHECK(hf_ring_used(&shards[0].ring) > 0);
    close(fds[1]);
    close_output();
}

static void a_full_disk_is_an_error_that_names_it(void) {
    open_output();
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(some_line() == 0);
    CHECK_EQ(hf_output_drain(&out, fd, 1000000, err), HF_EIO);
    CHECK(strstr(text, strerror(ENOSPC)) != NULL);
    close(fd);
    CHECK_EQ(hf_output_drain(&out, fd, 1000000, err), HF_EIO); /* closed: EBADF */
    close_output();
}

static size_t file_at;  /* where the next write to the file goes */
static int full_pieces; /* writes of 32 KiB */
static int crossing;    /* writes that go over a multiple of 32 KiB */

/* Stands in for libc's, to see what is written at once. */
ssize_t writev(int fd, const struct iovec *seg, int n) {
    ssize_t done = syscall(SYS_writev, fd, seg, n);
    size_t end = file_at + (done > 0 ? (size_t)done : 0);
    full_pieces += end - file_at == 32768;
    crossing += end > file_at && file_at / 32768 != (end - 1) / 32768;
    file_at = end;
    return done;
}

static void a_file_is_written_up_to_multiples_of_32_kib(void) {
    char name[] = "/tmp/hf-output-XXXXXX";
    open_output();
    int fd = mkstemp(name);
    REQUIRE(fd >= 0 && unlink(name) == 0);
    REQUIRE(write(fd, "before\n", 7) == 7);
    file_at = 7;
    full_pieces = crossing = 0;
    CHECK(push_line(&shards[0].ring, 0, 0, 5000) == 0);
    CHECK(push_line(&shards[0].ring, 0, 1, 200000) == 0);
    CHECK(push_line(&shards[0].ring, 0, 2, 5000) == 0);
    CHECK(hf_output_drain(&out, fd, 0, err) > 0);
    while (hf_output_drain(&out, fd, 0, err) > 0) {
    }
    CHECK(crossing == 0);
    CHECK(full_pieces == 5);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)file_at && file_at > 210000);
    close(fd);
    close_output();
}

static void fill_pipe(int fd) {
    static char junk[4096];
    REQUIRE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    while (write(fd, junk, sizeof junk) > 0) {
    }
    REQUIRE(fcntl(fd, F_SETFL, 0) == 0);
}

static void a_pipe_that_takes_nothing_costs_the_timeout_and_no_record(void) {
    open_output();
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    fill_pipe(fds[1]);
    REQUIRE(some_line() == 0);
    uint64_t used = hf_ring_used(&shards[0].ring);
    int64_t from = hf_now();
    CHECK_EQ(hf_output_drain(&out, fds[1], 100000, err), 0);
    int64_t took = hf_now() - from;
    CHECK(took >= 95000 && took < 2000000);
    CHECK_EQ(hf_ring_used(&shards[0].ring), used);
    close(fds[0]);
    close(fds[1]);
    close_output();
}

static void nothing_to_take_costs_the_timeout_and_the_end_is_told(void) {
    open_output();
    uint8_t buf[100];
    int64_t from = hf_now();
    CHECK_EQ(hf_output_read(&out, buf, sizeof buf, 50000), 0);
    CHECK(hf_now() - from >= 45000);
    hf_store(&finished, 1, HF_SEQ_CST);
    CHECK_EQ(hf_output_read(&out, buf, sizeof buf, 0), 0);
    REQUIRE(some_line() == 0);
    hf_store(&finished, 0, HF_SEQ_CST);
    end_input();
    int64_t total = 0;
    int64_t n;
    while ((n = hf_output_read(&out, buf, sizeof buf, 0)) > 0) {
        total += n;
    }
    CHECK(total > 500);
    CHECK_EQ(n, HF_EEND);
    CHECK_EQ(hf_output_read(&out, buf, sizeof buf, 1000000), HF_EEND);
    CHECK_EQ(hf_output_drain(&out, 1, 1000000, err), HF_EEND);
    close_output();
}

/* --- waking a blocked consumer -----------------------------------------------------
 */

static pthread_t sleeper;
static hf_atomic_u32 awake;

static void on_signal(int number) {
    (void)number;
}

/* Until the sleeper has returned: a single signal may come before it sleeps. */
static void *send_signals(void *arg) {
    (void)arg;
    while (hf_load(&awake, HF_ACQUIRE) == 0) {
        pthread_kill(sleeper, SIGUSR1);
        usleep(20000);
    }
    return NULL;
}

static void *interrupt_soon(void *arg) {
    (void)arg;
    usleep(50000);
    hf_store(&out.interrupted, 1, HF_RELEASE);
    hf_wake_kick(&shared.output);
    return NULL;
}

/* Runs a blocking call with someone to end it; returns what it gave. */
static int64_t blocked(int fd, void *(*end)(void *)) {
    uint8_t buf[64];
    pthread_t t;
    hf_init(&awake, 0);
    sleeper = pthread_self();
    REQUIRE(pthread_create(&t, NULL, end, NULL) == 0);
    int64_t from = hf_now();
    int64_t rc = fd < 0 ? hf_output_read(&out, buf, sizeof buf, 20000000)
                        : hf_output_drain(&out, fd, 20000000, err);
    CHECK(hf_now() - from < 10000000);
    hf_store(&awake, 1, HF_RELEASE);
    pthread_join(t, NULL);
    return rc;
}

static void signals_and_interrupts_end_a_blocked_call(void) {
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &act, NULL);
    open_output();
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    CHECK_EQ(blocked(-1, send_signals), HF_EINTR);
    CHECK_EQ(blocked(fds[1], send_signals), HF_EINTR);
    CHECK_EQ(blocked(-1, interrupt_soon), HF_EINTR);
    CHECK_EQ(blocked(fds[1], interrupt_soon), HF_EINTR);
    /* And while it is the pipe that it waits for. */
    fill_pipe(fds[1]);
    REQUIRE(some_line() == 0);
    CHECK_EQ(blocked(fds[1], send_signals), HF_EINTR);
    CHECK_EQ(blocked(fds[1], interrupt_soon), HF_EINTR);
    /* Once each: the next call just waits. */
    CHECK_EQ(hf_output_drain(&out, fds[1], 10000, err), 0);
    close(fds[0]);
    close(fds[1]);
    close_output();
}

static void arming_tells_what_is_there_and_wakes_for_what_comes(void) {
    open_output();
    uint64_t count;
    uint8_t buf[2000];
    CHECK_EQ(hf_output_arm(&out), 0);
    REQUIRE(some_line() == 0);
    hf_ring_wake_consumer(&shards[0].ring);
    CHECK(read(shared.output.fd, &count, sizeof count) == sizeof count);
    CHECK_EQ(hf_output_arm(&out), 1);
    CHECK(hf_output_read(&out, buf, sizeof buf, 0) > 500);
    CHECK_EQ(hf_output_arm(&out), 0);
    end_input();
    CHECK(read(shared.output.fd, &count, sizeof count) == sizeof count);
    CHECK_EQ(hf_output_arm(&out), 1);
    CHECK_EQ(hf_output_read(&out, buf, sizeof buf, 0), HF_EEND);
    close_output();
}

int main(void) {
    RUN(reading_in_any_piece_never_tears_a_line);
    RUN(frames_are_given_whole_in_place);
    RUN(a_view_holds_its_place_until_the_next);
    RUN(a_slow_pipe_gets_whole_lines_in_order);
    RUN(a_reader_that_went_away_is_epipe);
    RUN(a_full_disk_is_an_error_that_names_it);
    RUN(a_file_is_written_up_to_multiples_of_32_kib);
    RUN(a_pipe_that_takes_nothing_costs_the_timeout_and_no_record);
    RUN(nothing_to_take_costs_the_timeout_and_the_end_is_told);
    RUN(signals_and_interrupts_end_a_blocked_call);
    RUN(arming_tells_what_is_there_and_wakes_for_what_comes);
    return check_result();
}
