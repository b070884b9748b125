#include "poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tcpstate.h"

/* Marks in the generation half of an event's data. */
#define MARK_WAKE 0xffffffffu
#define MARK_TIMER 0xfffffffeu

/* Sockets for which asking each is cheaper than one wait that tells of all. */
#define FEW 2

static uint64_t pack(uint32_t gen, int fd) {
    return (uint64_t)gen << 32 | (uint32_t)fd;
}

static int ctl(hf_poller *p, int op, int fd, uint32_t events, uint32_t gen) {
    struct epoll_event ev = {.events = events, .data.u64 = pack(gen, fd)};
    hf_stat_add(p->ctls, 1);
    return epoll_ctl(p->epfd, op, fd, &ev);
}

int hf_poller_init(hf_poller *p, int wake_fd, hf_errbuf err) {
    pthread_mutex_init(&p->lock, NULL);
    p->armed_at = HF_NEVER;
    p->epfd = epoll_create1(EPOLL_CLOEXEC);
    p->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->epfd < 0 || p->timerfd < 0) {
        return hf_fail_sys(err, p->epfd < 0 ? "epoll_create1" : "timerfd_create");
    }
    if (ctl(p, EPOLL_CTL_ADD, wake_fd, EPOLLIN, MARK_WAKE) != 0 ||
        ctl(p, EPOLL_CTL_ADD, p->timerfd, EPOLLIN, MARK_TIMER) != 0) {
        return hf_fail_sys(err, "epoll_ctl");
    }
    return 0;
}

void hf_poller_free(hf_poller *p) {
    if (p->epfd >= 0) {
        close(p->epfd);
    }
    if (p->timerfd >= 0) {
        close(p->timerfd);
    }
    free(p->socks);
    free(p->dirty);
    pthread_mutex_destroy(&p->lock);
    p->epfd = p->timerfd = -1;
    p->socks = NULL;
    p->dirty = NULL;
    p->cap = p->n_dirty = p->cap_dirty = 0;
}

hf_sock *hf_poller_find(const hf_poller *p, int fd) {
    return fd >= 0 && fd < p->cap && p->socks[fd].gen != 0 ? &p->socks[fd] : NULL;
}

static int reserve_fd(hf_poller *p, int fd) {
    if (fd < p->cap) {
        return 0;
    }
    int cap = p->cap < 64 ? 64 : p->cap;
    while (cap <= fd) {
        cap *= 2;
    }
    pthread_mutex_lock(&p->lock);
    hf_sock *socks = realloc(p->socks, (size_t)cap * sizeof *socks);
    if (socks != NULL) {
        memset(socks + p->cap, 0, (size_t)(cap - p->cap) * sizeof *socks);
        p->socks = socks;
        p->cap = cap;
    }
    pthread_mutex_unlock(&p->lock);
    return socks != NULL ? 0 : HF_ENOMEM;
}

static hf_sock *enter(hf_poller *p, int fd, bool ours, bool tls) {
    if (reserve_fd(p, fd) != 0) {
        return NULL;
    }
    if (++p->next_gen >= MARK_TIMER) {
        p->next_gen = 1;
    }
    hf_sock *s = &p->socks[fd];
    bool listed = s->dirty; /* a number may come back while the list still names it */
    pthread_mutex_lock(&p->lock);
    *s = (hf_sock){
        .gen = p->next_gen, .ours = ours, .tls = tls, .dirty = listed, .next_fd = -1};
    pthread_mutex_unlock(&p->lock);
    return s;
}

hf_sock *hf_poller_opened(hf_poller *p, int fd, bool tls) {
    return enter(p, fd, true, tls);
}

/* Registers whatever the entry's state is in the kernel: a number may have been closed,
 * or registered, without our knowing. */
static int arm(hf_poller *p, int fd, hf_sock *s, uint32_t events) {
    int op = s->armed != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int rc = ctl(p, op, fd, events, s->gen);
    if (rc != 0 && errno == ENOENT) {
        rc = ctl(p, EPOLL_CTL_ADD, fd, events, s->gen);
    } else if (rc != 0 && errno == EEXIST) {
        rc = ctl(p, EPOLL_CTL_MOD, fd, events, s->gen);
    }
    s->armed = rc == 0 ? events : 0;
    return rc == 0 || errno == EBADF ? 0 : HF_ESYS;
}

static void disarm(hf_poller *p, int fd, hf_sock *s) {
    if (s->armed != 0) {
        ctl(p, EPOLL_CTL_DEL, fd, 0, 0);
        s->armed = 0;
    }
}

void hf_poller_closing(hf_poller *p, int fd) {
    hf_sock *s = hf_poller_find(p, fd);
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    s->gen = 0;
    s->ours = false;
    pthread_mutex_unlock(&p->lock);
    s->opener = NULL;
    /* close alone would not do: a forked child may hold the socket open, and then its
     * events would come for ever. */
    disarm(p, fd, s);
}

static int mark_dirty(hf_poller *p, int fd, hf_sock *s) {
    if (s->dirty) {
        return 0;
    }
    if (p->n_dirty == p->cap_dirty) {
        int cap = p->cap_dirty < 64 ? 64 : p->cap_dirty * 2;
        int *dirty = realloc(p->dirty, (size_t)cap * sizeof *dirty);
        if (dirty == NULL) {
            return HF_ENOMEM;
        }
        p->dirty = dirty;
        p->cap_dirty = cap;
    }
    p->dirty[p->n_dirty++] = fd;
    s->dirty = true;
    return 0;
}

/* A socket of libcurl's own: told at once, and forgotten at REMOVE. */
static int want_foreign(hf_poller *p, int fd, hf_sock *s, uint32_t want) {
    if (want == 0) {
        disarm(p, fd, s);
        s->gen = 0;
        return 0;
    }
    s->want = want;
    return arm(p, fd, s, want);
}

void hf_poller_discard(hf_poller *p, int fd, hf_sock *s) {
    shutdown(fd, SHUT_RDWR);
    disarm(p, fd, s);
    s->dead = true;
}

/* One that the kernel does not watch for bytes, or for which there is no room, is
 * looked at now. */
static void note_rested(hf_poller *p, int fd, hf_sock *s) {
    if ((s->armed & EPOLLIN) != 0 && p->n_rested < HF_POLL_RESTED) {
        p->rested[p->n_rested++] = fd;
    } else if (hf_tcp_unread(fd)) {
        hf_poller_discard(p, fd, s);
    }
}

/* Whether fd still rests, in clear, as it did when it was noted. */
static hf_sock *at_rest(const hf_poller *p, int fd) {
    hf_sock *s = hf_poller_find(p, fd);
    bool rests = s != NULL && s->ours && !s->tls && !s->dead && s->want == 0;
    return rests ? s : NULL;
}

void hf_poller_look_at_rested(hf_poller *p) {
    struct epoll_event raw[HF_POLL_EVENTS];
    int n = HF_POLL_EVENTS;
    if (p->n_rested > FEW) {
        hf_stat_add(p->waits, 1);
        n = epoll_wait(p->epfd, raw, HF_POLL_EVENTS, 0);
    }
    bool told = n >= 0 && n < HF_POLL_EVENTS; /* of all that is ready */
    for (int i = 0; told && i < n; i++) {
        int fd = (int)(uint32_t)raw[i].data.u64;
        hf_sock *s = at_rest(p, fd);
        bool came = raw[i].events != EPOLLOUT; /* else it may be written to, as ever */
        if (s != NULL && came && s->gen == (uint32_t)(raw[i].data.u64 >> 32)) {
            hf_poller_discard(p, fd, s);
        }
    }
    for (int i = 0; !told && i < p->n_rested; i++) {
        hf_sock *s = at_rest(p, p->rested[i]);
        if (s != NULL && hf_tcp_unread(p->rested[i])) {
            hf_poller_discard(p, p->rested[i], s);
        }
    }
    p->n_rested = 0;
}

int hf_poller_want(hf_poller *p, int fd, uint32_t want, void *owner) {
    hf_sock *s = hf_poller_find(p, fd);
    if (s == NULL) {
        if (want == 0) {
            return 0;
        }
        s = enter(p, fd, false, false);
        if (s == NULL) {
            return HF_ENOMEM;
        }
    }
    s->owner = owner;
    if (!s->ours) {
        return want_foreign(p, fd, s, want);
    }
    if (want == 0 && s->want != 0 && !s->tls) {
        note_rested(p, fd, s);
    }
    s->want = want;
    return mark_dirty(p, fd, s);
}

/* While idle a plain socket stays registered for reading: an event on it means that the
 * peer has closed it or sent something late. Under TLS tickets may come: only the end
 * counts, once bytes have come. */
static void reconcile_one(hf_poller *p, int fd, hf_sock *s) {
    uint32_t events = s->want != 0 ? s->want : s->armed & (EPOLLIN | EPOLLRDHUP);
    if (s->want == 0 && s->armed == 0) {
        return;
    }
    if (s->want == 0 && events == 0) {
        events = EPOLLIN;
    }
    if (!s->dead && events != s->armed) {
        arm(p, fd, s, events);
    }
}

void hf_poller_reconcile(hf_poller *p) {
    for (int i = 0; i < p->n_dirty; i++) {
        hf_sock *s = &p->socks[p->dirty[i]];
        s->dirty = false;
        if (s->gen != 0 && s->ours) {
            reconcile_one(p, p->dirty[i], s);
        }
    }
    p->n_dirty = 0;
}

void hf_poller_idle_event(hf_poller *p, int fd, hf_sock *s, uint32_t events) {
    if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) == 0) {
        char byte;
        ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            return; /* it had work when the event was taken, and has done it since */
        }
        if (n > 0 && s->tls && !s->http1) {
            arm(p, fd, s, EPOLLRDHUP);
            return;
        }
    }
    hf_poller_discard(p, fd, s);
}

static void set_timer(hf_poller *p, int64_t at) {
    if (at == p->armed_at) {
        return;
    }
    /* A later time is left alone: the early wake-up costs less than the call. */
    if (at > p->armed_at) {
        return;
    }
    struct itimerspec t = {.it_value = {at / 1000000, at % 1000000 * 1000}};
    if (at <= 0) {
        t.it_value = (struct timespec){0, 1}; /* zero would disarm */
    }
    hf_stat_add(p->sets, 1);
    timerfd_settime(p->timerfd, TFD_TIMER_ABSTIME, &t, NULL);
    p->armed_at = at;
}

int hf_poller_wait(hf_poller *p, int64_t at, int64_t now,
                   struct epoll_event raw[HF_POLL_EVENTS]) {
    int timeout = -1;
    if (at <= now) {
        timeout = 0;
    } else if (at != HF_NEVER) {
        set_timer(p, at);
    }
    hf_stat_add(p->waits, 1);
    int n = epoll_wait(p->epfd, raw, HF_POLL_EVENTS, timeout);
    return n > 0 ? n : 0;
}

bool hf_poller_read(hf_poller *p, const struct epoll_event *raw, hf_happening *out) {
    uint32_t gen = (uint32_t)(raw->data.u64 >> 32);
    int fd = (int)(uint32_t)raw->data.u64;
    uint64_t drain;
    *out = (hf_happening){HF_AT_SOCKET, fd, raw->events, NULL};
    if (gen == MARK_WAKE) {
        out->what = HF_AT_WAKE;
        return read(fd, &drain, sizeof drain) >= 0 || errno == EAGAIN;
    }
    if (gen == MARK_TIMER) {
        out->what = HF_AT_TIMER;
        p->armed_at = HF_NEVER;
        /* EAGAIN is normal: the event may be stale. */
        return read(fd, &drain, sizeof drain) >= 0 || errno == EAGAIN;
    }
    out->sock = hf_poller_find(p, fd);
    return out->sock != NULL && out->sock->gen == gen;
}

void hf_poller_shutdown_all(hf_poller *p) {
    pthread_mutex_lock(&p->lock);
    for (int fd = 0; fd < p->cap; fd++) {
        if (p->socks[fd].ours && p->socks[fd].gen != 0) {
            shutdown(fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&p->lock);
}
