/* A small HTTP server in a thread of the test: some ports on 127.0.0.1, each a host of
 * its own. What it answers is in the path:
 *
 *     /ok        200 at once              /slow/MS   200 after MS milliseconds
 *     /hold      never                    /head      a head, and never a body
 *     /close     200, then closes         /cut       ten of a hundred bytes, then
 * closes /interim   103, then closes         /big/N     N bytes /sc/NNN    that status
 * /go/PATH   302 to /PATH             /to/N/PATH 302 to /PATH of host N, a digit
 *     /lines/N   a head of N bytes        /line/N   N bytes of one line, then closes
 *
 * It counts what is under way per port. Counters are atomic; all else is its thread's.
 */
#ifndef SITE_H
#define SITE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"

enum { SITE_PORTS = 8, SITE_CONNS = 8192 };

typedef struct site_conn {
    int fd;        /* -1 = free */
    int host;      /* index of its port */
    char in[4096]; /* request as far as it came */
    size_t n;
    char *out; /* answer not yet sent; owned */
    size_t out_at, out_len;
    int64_t reply_at; /* us, 0 = nothing is due */
    int busy;         /* a request is under way */
    int closes;       /* after the answer */
} site_conn;

typedef struct site {
    int ports[SITE_PORTS];
    int listeners[SITE_PORTS];
    int epfd, stopfd;
    pthread_t thread;
    site_conn *conns; /* by descriptor */
    int most;         /* highest descriptor seen */
    atomic_int under_way[SITE_PORTS], peak[SITE_PORTS], requests[SITE_PORTS];
    atomic_int accepted, dropped;
    pthread_mutex_t lock;
    char first_paths[SITE_PORTS][64][32]; /* of each port, in order of arrival */
    int n_paths[SITE_PORTS];
} site;

static inline void site_must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        abort();
    }
}

static inline void site_drop(site *s, site_conn *c) {
    if (c->busy) {
        atomic_fetch_sub(&s->under_way[c->host], 1);
        atomic_fetch_add(&s->dropped, 1);
    }
    close(c->fd);
    free(c->out);
    memset(c, 0, sizeof *c);
    c->fd = -1;
}

static inline void site_flush(site *s, site_conn *c) {
    while (c->out_at < c->out_len) {
        ssize_t w =
            send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (w < 0 && errno == EAGAIN) {
            struct epoll_event ev = {EPOLLIN | EPOLLOUT, {.fd = c->fd}};
            epoll_ctl(s->epfd, EPOLL_CTL_MOD, c->fd, &ev);
            return;
        }
        if (w < 0) {
            site_drop(s, c);
            return;
        }
        c->out_at += (size_t)w;
    }
    free(c->out);
    c->out = NULL;
    c->out_at = c->out_len = 0;
    if (c->reply_at == 0 && c->busy == 2) { /* all of the answer is out */
        c->busy = 0;
        atomic_fetch_sub(&s->under_way[c->host], 1);
        if (c->closes) {
            site_drop(s, c);
        }
    }
}

static inline void site_send(site *s, site_conn *c, const char *head, size_t body) {
    size_t n = strlen(head);
    c->out = malloc(n + body);
    site_must(c->out != NULL, "malloc");
    memcpy(c->out, head, n);
    memset(c->out + n, 'x', body);
    c->out_at = 0;
    c->out_len = n + body;
    site_flush(s, c);
}

static inline void site_answer(site *s, site_conn *c, int status, const char *more,
                               size_t length, size_t sent) {
    char head[512];
    snprintf(
        head, sizeof head,
        "HTTP/1.1 %d X\r\nContent-Type: text/plain\r\n%sContent-Length: %zu\r\n\r\n",
        status, more, length);
    c->busy = 2;
    site_send(s, c, head, sent);
}

/* A head of n bytes in lines of a hundred, and no body. */
static inline void site_lines(site *s, site_conn *c, size_t n) {
    char *head = malloc(n + 256);
    site_must(head != NULL, "malloc");
    size_t at = (size_t)snprintf(head, 256, "HTTP/1.1 200 X\r\nContent-Length: 0\r\n");
    for (; at < n; at += 100) {
        memset(head + at, 'l', 100);
        head[at + 1] = ':';
        memcpy(head + at + 98, "\r\n", 2);
    }
    memcpy(head + at, "\r\n", 3);
    c->busy = 2;
    site_send(s, c, head, 0);
    free(head);
}

static inline void site_respond(site *s, site_conn *c, const char *path) {
    char more[128] = "";
    if (strncmp(path, "/hold", 5) == 0) {
        return;
    }
    if (strncmp(path, "/head", 5) == 0) {
        site_send(s, c, "HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nabc", 0);
        return;
    }
    if (strncmp(path, "/slow/", 6) == 0) {
        c->reply_at = hf_now() + strtol(path + 6, NULL, 10) * 1000;
        return;
    }
    if (strncmp(path, "/interim", 8) == 0) {
        c->busy = 2;
        c->closes = 1;
        site_send(s, c, "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n", 0);
        return;
    }
    if (strncmp(path, "/lines/", 7) == 0) {
        site_lines(s, c, strtoul(path + 7, NULL, 10));
        return;
    }
    if (strncmp(path, "/line/", 6) == 0) {
        c->busy = 2;
        c->closes = 1;
        site_send(s, c, "HTTP/1.1 200 X\r\nX: ", strtoul(path + 6, NULL, 10));
        return;
    }
    size_t length = strncmp(path, "/big/", 5) == 0 ? strtoul(path + 5, NULL, 10) : 5;
    int status = strncmp(path, "/sc/", 4) == 0 ? (int)strtol(path + 4, NULL, 10) : 200;
    if (strncmp(path, "/go/", 4) == 0) {
        snprintf(more, sizeof more, "Location: %.100s\r\n", path + 3);
        status = 302;
    }
    if (strncmp(path, "/to/", 4) == 0) {
        snprintf(more, sizeof more, "Location: http://127.0.0.1:%d%.60s\r\n",
                 s->ports[path[4] - '0'], path + 5);
        status = 302;
    }
    c->closes = strncmp(path, "/close", 6) == 0 || strncmp(path, "/cut", 4) == 0;
    if (c->closes) {
        memcpy(more, "Connection: close\r\n", 20);
    }
    if (strncmp(path, "/cut", 4) == 0) {
        site_answer(s, c, 200, more, 100, 10);
    } else {
        site_answer(s, c, status, more, length, length);
    }
}

static inline void site_request(site *s, site_conn *c) {
    char path[64] = "";
    sscanf(c->in, "%*s %63s", path);
    int h = c->host;
    int now = atomic_fetch_add(&s->under_way[h], 1) + 1;
    int peak = atomic_load(&s->peak[h]);
    while (now > peak && !atomic_compare_exchange_weak(&s->peak[h], &peak, now)) {
    }
    atomic_fetch_add(&s->requests[h], 1);
    pthread_mutex_lock(&s->lock);
    if (s->n_paths[h] < 64) {
        snprintf(s->first_paths[h][s->n_paths[h]++], 32, "%.31s", path);
    }
    pthread_mutex_unlock(&s->lock);
    c->busy = 1;
    site_respond(s, c, path);
}

static inline void site_read(site *s, site_conn *c) {
    ssize_t r = recv(c->fd, c->in + c->n, sizeof c->in - 1 - c->n, 0);
    if (r <= 0) {
        if (r == 0 || errno != EAGAIN) {
            site_drop(s, c);
        }
        return;
    }
    c->n += (size_t)r;
    c->in[c->n] = '\0';
    char *end = strstr(c->in, "\r\n\r\n");
    if (end == NULL || c->busy) {
        return;
    }
    /* Bodies of requests are read with the head or passed over: tests send short ones.
     */
    c->n = 0;
    site_request(s, c);
}

static inline void site_accept(site *s, int host) {
    int fd;
    while ((fd = accept4(s->listeners[host], NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        site_must(fd < SITE_CONNS, "too many connections");
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        site_conn *c = &s->conns[fd];
        memset(c, 0, sizeof *c);
        c->fd = fd;
        c->host = host;
        s->most = fd > s->most ? fd : s->most;
        atomic_fetch_add(&s->accepted, 1);
        struct epoll_event ev = {EPOLLIN, {.fd = fd}};
        epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev);
    }
}

static inline int site_run_due(site *s) {
    int64_t now = hf_now();
    int64_t next = now + 100000;
    for (int fd = 0; fd <= s->most; fd++) {
        site_conn *c = &s->conns[fd];
        if (c->fd < 0 || c->reply_at == 0) {
            continue;
        }
        if (c->reply_at <= now) {
            c->reply_at = 0;
            site_answer(s, c, 200, "", 5, 5);
        } else if (c->reply_at < next) {
            next = c->reply_at;
        }
    }
    return (int)((next - now + 999) / 1000);
}

static inline void site_event(site *s, const struct epoll_event *ev) {
    int fd = ev->data.fd;
    for (int h = 0; h < SITE_PORTS; h++) {
        if (fd == s->listeners[h]) {
            site_accept(s, h);
            return;
        }
    }
    site_conn *c = &s->conns[fd];
    if (c->fd >= 0 && (ev->events & EPOLLOUT) != 0) {
        site_flush(s, c);
    }
    if (c->fd >= 0 && (ev->events & ~(uint32_t)EPOLLOUT) != 0) {
        site_read(s, c);
    }
}

static inline void *site_thread(void *arg) {
    site *s = arg;
    struct epoll_event events[256];
    for (;;) {
        int n = epoll_wait(s->epfd, events, 256, site_run_due(s));
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == s->stopfd) {
                return NULL;
            }
            site_event(s, &events[i]);
        }
    }
}

static inline void site_listen(site *s, int h) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    site_must(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 &&
                  listen(fd, 4096) == 0 &&
                  getsockname(fd, (struct sockaddr *)&a, &n) == 0,
              "listen");
    s->listeners[h] = fd;
    s->ports[h] = ntohs(a.sin_port);
    struct epoll_event ev = {EPOLLIN, {.fd = fd}};
    epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev);
}

static inline void site_start(site *s) {
    memset(s, 0, sizeof *s);
    s->conns = calloc(SITE_CONNS, sizeof *s->conns);
    site_must(s->conns != NULL, "calloc");
    for (int i = 0; i < SITE_CONNS; i++) {
        s->conns[i].fd = -1;
    }
    s->epfd = epoll_create1(EPOLL_CLOEXEC);
    s->stopfd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&s->lock, NULL);
    for (int h = 0; h < SITE_PORTS; h++) {
        site_listen(s, h);
    }
    struct epoll_event ev = {EPOLLIN, {.fd = s->stopfd}};
    epoll_ctl(s->epfd, EPOLL_CTL_ADD, s->stopfd, &ev);
    site_must(pthread_create(&s->thread, NULL, site_thread, s) == 0, "pthread_create");
}

static inline void site_stop(site *s) {
    uint64_t one = 1;
    site_must(write(s->stopfd, &one, sizeof one) == sizeof one, "write");
    pthread_join(s->thread, NULL);
    for (int i = 0; i <= s->most; i++) {
        if (s->conns[i].fd >= 0) {
            site_drop(s, &s->conns[i]);
        }
    }
    for (int h = 0; h < SITE_PORTS; h++) {
        close(s->listeners[h]);
    }
    close(s->epfd);
    close(s->stopfd);
    free(s->conns);
    pthread_mutex_destroy(&s->lock);
}

#endif
