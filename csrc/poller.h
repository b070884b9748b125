/* The only module that knows epoll and timerfd: which sockets libcurl wants watched,
 * and how little the kernel must be told about it.
 *
 * libcurl says REMOVE and ADD around each reuse of a connection. For sockets that we
 * opened ourselves the registration simply stays, so a kept-alive request costs no
 * epoll_ctl. For sockets that libcurl opened (c-ares, eventfds) each change is told at
 * once, since their numbers are closed and reused unseen.
 * Level-triggered only: libcurl does not promise to read until EAGAIN.
 */
#ifndef HF_POLLER_H
#define HF_POLLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "atomics.h"
#include "deadline.h"
#include "err.h"

enum { HF_POLL_EVENTS = 256, HF_POLL_RESTED = 64 }; /* taken by one wait; by one look */

typedef struct hf_sock {
    uint32_t gen;   /* counts the uses of this number; 0 = free */
    uint32_t want;  /* EPOLL… libcurl waits for; 0 = idle in the pool */
    uint32_t armed; /* EPOLL… registered, 0 = not */
    bool ours;      /* opened by us */
    bool tls;       /* bytes may rightly arrive while idle, unless http1 */
    bool http1;     /* TLS, and answers have come over it one after the other */
    bool dirty;     /* in the dirty list */
    bool dead;      /* shut down while idle: never watched again */
    void *owner;    /* lane whose multi uses it */
    void *opener;   /* transfer that opened it, or the first that uses it again, until
                       that one rests; else NULL */
    int next_fd;    /* another socket of that transfer's, -1 = none */
} hf_sock;

typedef struct hf_poller {
    int epfd;
    int timerfd;
    int64_t armed_at; /* us, what the timerfd is set to; HF_NEVER = disarmed */
    hf_sock *socks;   /* by number */
    int cap;
    int *dirty;
    int n_dirty;
    int cap_dirty;
    uint32_t next_gen;
    int n_rested;
    int rested[HF_POLL_RESTED]; /* in clear, went idle since the last look */
    pthread_mutex_t lock; /* socks' ours and gen, against hf_poller_shutdown_all */
    hf_stat *ctls;        /* counters of the shard */
    hf_stat *sets;
    hf_stat *waits;
} hf_poller;

/* One thing that happened. */
typedef struct hf_happening {
    enum { HF_AT_SOCKET, HF_AT_WAKE, HF_AT_TIMER } what;
    int fd;
    uint32_t events; /* EPOLL… */
    hf_sock *sock;   /* NULL unless HF_AT_SOCKET; valid until the next call */
} hf_happening;

/* Opens epoll and timer and watches wake_fd. Returns 0 or HF_ESYS, HF_ENOMEM. */
int hf_poller_init(hf_poller *p, int wake_fd, hf_errbuf err);
void hf_poller_free(hf_poller *p);

/* Enters a socket that we opened. Returns its entry or NULL without memory. */
hf_sock *hf_poller_opened(hf_poller *p, int fd, bool tls);

/* Forgets a socket that is about to be closed, before the close. */
void hf_poller_closing(hf_poller *p, int fd);

/* libcurl wants `want` (EPOLLIN, EPOLLOUT, 0) of fd. Returns 0, HF_ENOMEM, HF_ESYS. */
int hf_poller_want(hf_poller *p, int fd, uint32_t want, void *owner);

/* Tells the kernel what changed since the last time. */
void hf_poller_reconcile(hf_poller *p);

/* The entry of fd, or NULL when it is not known. */
hf_sock *hf_poller_find(const hf_poller *p, int fd);

/* An event came for an idle socket. If the peer has closed it, or sent what nobody
 * asked for, it is shut down, so that libcurl will not use it again. If it only went
 * idle after the event was taken, while others of the same wait were served, it stays.
 */
void hf_poller_idle_event(hf_poller *p, int fd, hf_sock *s, uint32_t events);

/* Discards sockets in clear that went idle although bytes are left in them: they would
 * be taken for the next answer, since libcurl reads no further than a body's length. To
 * be called before a connection may be used again; free where none went idle. */
void hf_poller_look_at_rested(hf_poller *p);

/* Shuts an idle socket down, so that libcurl's next attempt to use it fails. */
void hf_poller_discard(hf_poller *p, int fd, hf_sock *s);

/* Waits until something happens or the clock reaches `at` (us, HF_NEVER: no limit).
 * Returns the count put into raw, to be read with hf_poller_read. */
int hf_poller_wait(hf_poller *p, int64_t at, int64_t now,
                   struct epoll_event raw[HF_POLL_EVENTS]);

/* Reads one raw event. Returns false for one that is stale. */
bool hf_poller_read(hf_poller *p, const struct epoll_event *raw, hf_happening *out);

/* Shuts down every socket we opened, so that whoever is stuck on one returns.
 * Thread: the watchdog, while the loop is inside libcurl. */
void hf_poller_shutdown_all(hf_poller *p);

#endif
