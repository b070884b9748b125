/* A small HTTP/1.1 server for benches: one thread, epoll, keep-alive.
 *
 *     bench_server [--delay-ms N] [--body FILE] [--size BYTES] [--addresses N]
 *
 * Prints its port on 127.0.0.1 and serves until its stdin ends or it is killed; with
 * --addresses it has the same port on 127.0.0.2, .3 and so on, each a host of its own
 * for its clients. Every GET gets the body (1 KiB of text unless told), --delay-ms
 * after it came; a path that starts with /hang gets nothing, ever.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 512, HEAD_MAX = 8192, SPARE = 16 };

typedef struct conn {
    uint32_t gen;
    size_t in_len;
    size_t owed;    /* bytes of answers still to be written */
    size_t sent;    /* of the answer under way */
    bool wants_out; /* registered for EPOLLOUT */
    char in[HEAD_MAX];
} conn;

typedef struct late {
    int64_t due; /* us */
    int fd;
    uint32_t gen;
} late;

static int epfd;
static conn **conns;
static int n_conns;
static uint32_t next_gen;
static char *answer;
static size_t answer_len;
static int64_t delay;
static late *queue; /* a ring: the delay is the same for all, so first in first out */
static size_t q_head, q_len, q_cap;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static conn *conn_at(int fd) {
    return fd < n_conns ? conns[fd] : NULL;
}

static void watch(int op, int fd, uint32_t events) {
    struct epoll_event ev = {.events = events, .data.fd = fd};
    if (epoll_ctl(epfd, op, fd, &ev) != 0) {
        die("epoll_ctl");
    }
}

static void hang_up(int fd) {
    free(conns[fd]);
    conns[fd] = NULL;
    close(fd);
}

/* Writes what is owed. Returns false when the connection has ended. */
static bool flush(int fd, conn *c) {
    while (c->owed > 0) {
        size_t left = answer_len - c->sent;
        ssize_t n = send(fd, answer + c->sent, left, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            hang_up(fd);
            return false;
        }
        c->owed -= (size_t)n;
        c->sent = (c->sent + (size_t)n) % answer_len;
    }
    if ((c->owed > 0) != c->wants_out) {
        c->wants_out = c->owed > 0;
        watch(EPOLL_CTL_MOD, fd, EPOLLIN | (c->wants_out ? EPOLLOUT : 0u));
    }
    return true;
}

static void put_off(int fd, const conn *c) {
    if (q_len == q_cap) {
        size_t cap = q_cap < 1024 ? 1024 : q_cap * 2;
        late *grown = malloc(cap * sizeof *grown);
        if (grown == NULL) {
            die("malloc");
        }
        for (size_t i = 0; i < q_len; i++) {
            grown[i] = queue[(q_head + i) % q_cap];
        }
        free(queue);
        queue = grown;
        q_cap = cap;
        q_head = 0;
    }
    queue[(q_head + q_len++) % q_cap] = (late){now() + delay, fd, c->gen};
}

/* Answers what is due. Returns ms until the next, -1 without one. */
static int answer_late(void) {
    int64_t t = now();
    while (q_len > 0) {
        late *l = &queue[q_head];
        if (l->due > t) {
            return (int)((l->due - t + 999) / 1000);
        }
        conn *c = conn_at(l->fd);
        if (c != NULL && c->gen == l->gen) {
            c->owed += answer_len;
            flush(l->fd, c);
        }
        q_head = (q_head + 1) % q_cap;
        q_len--;
    }
    return -1;
}

/* Takes each whole request out of the input. */
static void take_requests(int fd, conn *c) {
    char *at = c->in;
    char *end = c->in + c->in_len;
    char *stop;
    while ((stop = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)) != NULL) {
        bool hangs = end - at > 9 && memcmp(at, "GET /hang", 9) == 0;
        at = stop + 4;
        if (hangs) {
            continue;
        }
        if (delay > 0) {
            put_off(fd, c);
        } else {
            c->owed += answer_len;
        }
    }
    c->in_len = (size_t)(end - at);
    memmove(c->in, at, c->in_len);
}

static void serve(int fd, uint32_t events) {
    conn *c = conn_at(fd);
    if (c == NULL) {
        return;
    }
    if ((events & EPOLLIN) != 0) {
        ssize_t n = recv(fd, c->in + c->in_len, sizeof c->in - c->in_len, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            hang_up(fd);
            return;
        }
        c->in_len += n > 0 ? (size_t)n : 0;
        take_requests(fd, c);
        if (c->in_len == sizeof c->in) {
            hang_up(fd);
            return;
        }
    } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        hang_up(fd);
        return;
    }
    if (c->owed > 0) {
        flush(fd, c);
    }
}

static void enter(int fd) {
    if (fd >= n_conns) {
        int n = fd * 2 + SPARE;
        conns = realloc(conns, (size_t)n * sizeof(conn *));
        if (conns == NULL) {
            die("realloc");
        }
        memset(conns + n_conns, 0, (size_t)(n - n_conns) * sizeof(conn *));
        n_conns = n;
    }
    conns[fd] = malloc(sizeof(conn));
    if (conns[fd] == NULL) {
        die("malloc");
    }
    memset(conns[fd], 0, offsetof(conn, in));
    conns[fd]->gen = ++next_gen;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(EPOLL_CTL_ADD, fd, EPOLLIN);
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        enter(fd);
    }
}

static char *read_body(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
        die(path);
    }
    *n = (size_t)ftell(f);
    rewind(f);
    char *body = malloc(*n + 1);
    if (body == NULL || fread(body, 1, *n, f) != *n) {
        die(path);
    }
    fclose(f);
    return body;
}

static void make_answer(const char *path, size_t size) {
    char head[256];
    char *body;
    if (path != NULL) {
        body = read_body(path, &size);
    } else {
        body = malloc(size + 1);
        for (size_t i = 0; body != NULL && i < size; i++) {
            body[i] = "<p>hello \"there\"</p>\n"[i % 21];
        }
    }
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 200 OK\r\nServer: bench\r\n"
                     "Date: Mon, 02 Nov 2026 10:00:00 GMT\r\n"
                     "Content-Type: text/html; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: keep-alive\r\n\r\n",
                     size);
    answer_len = (size_t)n + size;
    answer = malloc(answer_len);
    if (answer == NULL || body == NULL) {
        die("malloc");
    }
    memcpy(answer, head, (size_t)n);
    memcpy(answer + n, body, size);
    free(body);
}

/* Listens on 127.0.0.number. *port is 0 for any free one, and is set then. */
static int listen_at(uint32_t number, uint16_t *port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(*port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + number)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0) {
        die("listen");
    }
    *port = ntohs(a.sin_port);
    watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    return fd;
}

/* Returns the highest number of a listening socket; the lowest is *first. */
static int listen_all(uint32_t addresses, int *first) {
    uint16_t port = 0;
    *first = listen_at(1, &port);
    int last = *first;
    for (uint32_t i = 2; i <= addresses; i++) {
        last = listen_at(i, &port);
    }
    printf("%d\n", port);
    fflush(stdout);
    return last;
}

static void loop(int first, int last) {
    struct epoll_event ev[EVENTS];
    for (;;) {
        int n = epoll_wait(epfd, ev, EVENTS, answer_late());
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd >= first && fd <= last) {
                accept_all(fd);
            } else if (fd == STDIN_FILENO) {
                return; /* whoever started us has gone */
            } else {
                serve(fd, ev[i].events);
            }
        }
    }
}

int main(int argc, char **argv) {
    static const struct option known[] = {{"delay-ms", required_argument, NULL, 'd'},
                                          {"body", required_argument, NULL, 'b'},
                                          {"size", required_argument, NULL, 's'},
                                          {"addresses", required_argument, NULL, 'a'},
                                          {NULL, 0, NULL, 0}};
    const char *path = NULL;
    size_t size = 1024;
    uint32_t addresses = 1;
    int got;
    while ((got = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (got == 'd') {
            delay = (int64_t)strtol(optarg, NULL, 10) * 1000;
        } else if (got == 'b') {
            path = optarg;
        } else if (got == 's') {
            size = strtoul(optarg, NULL, 10);
        } else if (got == 'a') {
            addresses = (uint32_t)strtoul(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    make_answer(path, size);
    epfd = epoll_create1(EPOLL_CLOEXEC);
    int first;
    int last = listen_all(addresses, &first);
    watch(EPOLL_CTL_ADD, STDIN_FILENO, EPOLLIN);
    loop(first, last);
    return 0;
}
