#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "clock.h"

/* A pipe that polls writable takes this much without blocking (POSIX: PIPE_BUF). */
#define PIPE_PIECE ((size_t)PIPE_BUF)
/* How long a busy consumer waits before it looks again. */
#define LINGER_NS 1000000
/* Bytes of one write to a socket or pipe, so that a stop is noticed between two. */
#define STREAM_PIECE ((size_t)128 << 10)
/* One write to a file ends at a multiple of this. The page cache then takes it in one
 * folio of the largest order that Linux keeps on its lists per processor
 * (PAGE_ALLOC_COSTLY_ORDER). Larger ones come from memory that may have lain free for
 * long, which in a virtual machine the host has to bring back first: the copy was seen
 * to take up to five times as long. Writes that end elsewhere leave smaller folios.
 */
#define FILE_PIECE ((size_t)32 << 10)
/* Bytes of frames that are given at once: they hold their place in the ring meanwhile.
 */
#define VIEW_MOST ((size_t)256 << 10)
/* Memory for a joined frame that is worth keeping. */
#define KEEP ((size_t)1 << 20)

int hf_output_init(hf_output *o, hf_shared *shared, const hf_atomic_u32 *finished) {
    memset(o, 0, sizeof *o);
    o->shared = shared;
    o->again = -1;
    o->joined = hf_buf_make(SIZE_MAX);
    o->finished = finished;
    o->n = shared->n_shards;
    o->rings = calloc((size_t)o->n, sizeof *o->rings);
    if (o->rings == NULL) {
        return HF_ENOMEM;
    }
    for (int i = 0; i < o->n; i++) {
        o->rings[i] = &shared->shards[i].ring;
    }
    return 0;
}

/* Held any longer it would keep the reader from seeing the end of the pipe. */
static void close_again(hf_output *o) {
    if (o->again >= 0) {
        close(o->again);
    }
    o->again = -1;
}

void hf_output_free(hf_output *o) {
    if (o->rings != NULL) {
        close_again(o);
    }
    hf_buf_free(&o->joined);
    free(o->rings);
    o->rings = NULL;
}

/* Nothing more can come: no input, no answer outstanding, nothing in the rings. */
static bool at_end(hf_output *o) {
    if (hf_load(o->finished, HF_SEQ_CST) == 0 ||
        hf_load(&o->shared->outstanding, HF_SEQ_CST) != 0) {
        return false;
    }
    for (int i = 0; i < o->n; i++) {
        if (hf_ring_used(o->rings[i]) > 0) {
            return false;
        }
    }
    return true;
}

static void limit(struct iovec seg[2], int *n, size_t most) {
    if (seg[0].iov_len >= most) {
        seg[0].iov_len = most;
        *n = 1;
    } else if (*n > 1 && seg[1].iov_len > most - seg[0].iov_len) {
        seg[1].iov_len = most - seg[0].iov_len;
    }
}

/* What stands first in the ring whose turn it is, no more of it than was seen when its
 * turn began: that ends with a record. Returns the number of segments. */
static int peek(hf_output *o, struct iovec seg[2]) {
    for (int tries = 0; tries <= o->n; tries++) {
        int n = hf_ring_peek(o->rings[o->current], seg);
        if (n > 0) {
            if (o->left == 0) {
                o->left = seg[0].iov_len + (n > 1 ? seg[1].iov_len : 0);
            }
            limit(seg, &n, o->left);
            return n;
        }
        o->left = 0;
        o->current = (o->current + 1) % o->n;
    }
    return 0;
}

static void advance(hf_output *o, size_t n) {
    hf_ring_advance(o->rings[o->current], n);
    hf_stat_add(&o->drained, n);
    o->left -= n < o->left ? n : o->left;
    if (o->left == 0) {
        o->current = (o->current + 1) % o->n;
    }
}

static bool ready(hf_output *o) {
    for (int i = 0; i < o->n; i++) {
        if (hf_ring_ready(o->rings[i])) {
            return true;
        }
    }
    return at_end(o);
}

static int take_interrupt(hf_output *o) {
    return hf_load(&o->interrupted, HF_ACQUIRE) != 0 &&
                   hf_xchg(&o->interrupted, 0, HF_ACQ_REL) != 0
               ? HF_EINTR
               : 0;
}

static bool any_overdue(hf_output *o) {
    for (int i = 0; i < o->n; i++) {
        if (hf_ring_overdue(o->rings[i])) {
            return true;
        }
    }
    return false;
}

/* Sleeps until a record or the end may have come. Returns 0, HF_EAGAIN, HF_EINTR. */
static int sleep_for(hf_output *o, int64_t timeout) {
    hf_wake *w = &o->shared->output;
    hf_wake_prepare(w);
    if (ready(o)) {
        hf_wake_cancel(w);
        return 0;
    }
    int rc = hf_wake_wait(w, timeout);
    bool overdue = rc == HF_EAGAIN && any_overdue(o);
    if (hf_wake_cancel(w) && overdue) {
        hf_stat_add(&w->lost, 1);
    }
    int interrupt = take_interrupt(o);
    return interrupt != 0 ? interrupt : rc;
}

int hf_output_arm(hf_output *o) {
    hf_wake *w = &o->shared->output;
    uint64_t drain;
    while (read(w->fd, &drain, sizeof drain) > 0) {
    }
    hf_wake_prepare(w);
    return ready(o) || hf_load(&o->interrupted, HF_ACQUIRE) != 0;
}

/* Waits for something to take. Returns segments, 0 after the time, or HF_E…. */
static int await(hf_output *o, struct iovec seg[2], int64_t timeout) {
    int64_t until = hf_now() + timeout;
    for (;;) {
        int n = peek(o, seg);
        if (n > 0) {
            return n;
        }
        if (at_end(o)) {
            return HF_EEND;
        }
        int64_t left = until - hf_now();
        if (left <= 0) {
            return take_interrupt(o);
        }
        int rc = sleep_for(o, left);
        if (rc == HF_EINTR) {
            return rc;
        }
    }
}

int64_t hf_output_read(hf_output *o, uint8_t *buf, size_t cap, int64_t timeout) {
    struct iovec seg[2];
    int n = await(o, seg, timeout);
    size_t done = 0;
    if (n <= 0) {
        return n;
    }
    while (n > 0 && done < cap) {
        size_t piece = seg[0].iov_len < cap - done ? seg[0].iov_len : cap - done;
        memcpy(buf + done, seg[0].iov_base, piece);
        done += piece;
        advance(o, piece);
        n = peek(o, seg);
    }
    return (int64_t)done;
}

/* --- frames ------------------------------------------------------------------------
 */

/* Bytes of the frame at p, its length included. */
static size_t frame_size(const uint8_t *p) {
    size_t n = 0;
    for (int i = 3; i >= 0; i--) {
        n = n << 8 | p[i];
    }
    return n + 4;
}

/* Bytes of the whole frames that stand first in n bytes, up to VIEW_MOST. */
static size_t whole_frames(const uint8_t *p, size_t n) {
    size_t at = 0;
    while (n - at >= 4) {
        size_t size = frame_size(p + at);
        if (size > n - at || (at > 0 && at + size > VIEW_MOST)) {
            break;
        }
        at += size;
    }
    return at;
}

/* Copies the first n bytes of two segments. */
static void gather(uint8_t *to, const struct iovec seg[2], size_t n) {
    size_t first = seg[0].iov_len < n ? seg[0].iov_len : n;
    memcpy(to, seg[0].iov_base, first);
    memcpy(to + first, seg[1].iov_base, n - first);
}

/* Puts together the frame that the end of the ring cuts. Returns its bytes. */
static int64_t join(hf_output *o, const struct iovec seg[2]) {
    uint8_t head[4];
    gather(head, seg, sizeof head);
    size_t size = frame_size(head);
    hf_buf_reset(&o->joined, KEEP);
    if (hf_buf_reserve(&o->joined, size) != 0) {
        return HF_ENOMEM;
    }
    gather(o->joined.data, seg, size);
    return (int64_t)size;
}

int64_t hf_output_view(hf_output *o, const uint8_t **data, int64_t timeout) {
    struct iovec seg[2];
    *data = NULL;
    if (o->viewed > 0) {
        advance(o, o->viewed);
        o->viewed = 0;
    }
    int n = await(o, seg, timeout);
    if (n <= 0) {
        return n;
    }
    int64_t size = (int64_t)whole_frames(seg[0].iov_base, seg[0].iov_len);
    *data = seg[0].iov_base;
    if (size == 0) {
        size = join(o, seg);
        *data = o->joined.data;
    }
    o->viewed = size > 0 ? (size_t)size : 0;
    return size;
}

/* --- descriptors -------------------------------------------------------------------
 */

typedef enum sink_kind { SINK_FILE, SINK_PIPE, SINK_SOCKET } sink_kind;

/* A descriptor as it is written to. */
typedef struct sink {
    int fd;
    sink_kind kind;
    size_t piece; /* a write ends at the next multiple of this */
    size_t at;    /* bytes that stand in it, where that is known */
} sink;

/* Opens a pipe or terminal once more, so that it can be non-blocking for us without
 * being so for all who share the caller's description. -1 when that can't be. */
static int open_again(hf_output *o, int fd, const struct stat *st) {
    if (o->again >= 0 && o->again_dev == st->st_dev && o->again_ino == st->st_ino) {
        return o->again;
    }
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    close_again(o);
    o->again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    o->again_dev = st->st_dev;
    o->again_ino = st->st_ino;
    return o->again;
}

/* Never blocks: a file, or one of the memory devices, as /dev/null. */
static bool is_ready_always(const struct stat *st) {
    return S_ISREG(st->st_mode) || S_ISBLK(st->st_mode) ||
           (S_ISCHR(st->st_mode) && major(st->st_rdev) == 1);
}

static sink sink_of(hf_output *o, int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0 || is_ready_always(&st)) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        return (sink){fd, SINK_FILE, FILE_PIECE, at < 0 ? 0 : (size_t)at};
    }
    if (S_ISSOCK(st.st_mode)) {
        return (sink){fd, SINK_SOCKET, STREAM_PIECE, 0};
    }
    int again = S_ISFIFO(st.st_mode) || isatty(fd) ? open_again(o, fd, &st) : -1;
    return again >= 0 ? (sink){again, SINK_PIPE, STREAM_PIECE, 0}
                      : (sink){fd, SINK_PIPE, PIPE_PIECE, 0};
}

/* One write that does not block: the piece is what the descriptor takes at once. */
static ssize_t write_some(const sink *to, struct iovec seg[2], int n) {
    limit(seg, &n, to->piece - to->at % to->piece);
    if (to->kind == SINK_SOCKET) {
        struct msghdr m = {.msg_iov = seg, .msg_iovlen = (size_t)n};
        return sendmsg(to->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return writev(to->fd, seg, n);
}

/* A wake-up while we wait for the sink: an interrupt, or one for nothing. */
static int take_wake(hf_output *o) {
    uint64_t count;
    while (read(o->shared->output.fd, &count, sizeof count) > 0) {
    }
    return take_interrupt(o);
}

static int told(const struct pollfd *p) {
    if ((p->revents & POLLNVAL) != 0) {
        return HF_EIO;
    }
    return (p->revents & POLLERR) != 0 ? HF_EPIPE : p->revents != 0;
}

/* Waits until fd takes bytes. Returns 1, 0 after the time, HF_EINTR, HF_EPIPE, HF_EIO.
 */
static int writable(hf_output *o, int fd, int64_t timeout) {
    struct pollfd p[2] = {{.fd = fd, .events = POLLOUT},
                          {.fd = o->shared->output.fd, .events = POLLIN}};
    int64_t until = hf_now() + timeout;
    for (;;) {
        int64_t left = until - hf_now();
        left = left > 0 ? left : 0;
        struct timespec ts = {left / 1000000, left % 1000000 * 1000};
        int rc = ppoll(p, 2, &ts, NULL);
        if (rc < 0) {
            return errno == EINTR ? HF_EINTR : HF_EIO;
        }
        if (p[0].revents != 0) {
            return told(&p[0]);
        }
        int interrupt = take_wake(o);
        if (interrupt != 0 || rc == 0) {
            return interrupt;
        }
    }
}

static int64_t write_failed(hf_errbuf err) {
    if (errno == EPIPE) {
        return HF_EPIPE;
    }
    if (errno == EINTR) {
        return HF_EINTR;
    }
    hf_fail_sys(err, "write");
    return HF_EIO;
}

/* Writes what waits, while the sink takes it. A sink that would block on write itself
 * is asked first, the others when they have refused. Returns bytes written or a
 * failure. */
static int64_t pump(hf_output *o, sink *to, int64_t until, hf_errbuf err) {
    struct iovec seg[2];
    int64_t done = 0;
    bool ask = to->kind == SINK_PIPE && to->piece == PIPE_PIECE;
    int n;
    while ((n = peek(o, seg)) > 0) {
        if (ask) {
            int64_t left = until - hf_now();
            int rc = writable(o, to->fd, left > 0 ? left : 0);
            if (rc <= 0) {
                return done > 0 ? done : rc;
            }
        }
        ssize_t w = write_some(to, seg, n);
        if (w < 0 && errno != EAGAIN) {
            return done > 0 && errno == EINTR ? done : write_failed(err);
        }
        ask = w < 0 || (to->kind == SINK_PIPE && to->piece == PIPE_PIECE);
        if (w > 0) {
            advance(o, (size_t)w);
            to->at += (size_t)w;
            done += w;
        }
        if (hf_now() >= until) {
            break;
        }
    }
    return done;
}

/* A busy consumer looks again after a moment instead of asking to be woken: the loop
 * then saves a write to the eventfd per record, and a write to the sink carries many.
 */
static bool linger(hf_output *o) {
    struct timespec moment = {0, LINGER_NS};
    struct iovec seg[2];
    nanosleep(&moment, NULL);
    return peek(o, seg) > 0;
}

int64_t hf_output_drain(hf_output *o, int fd, int64_t timeout, hf_errbuf err) {
    struct iovec seg[2];
    int64_t until = hf_now() + timeout;
    sink to = sink_of(o, fd);
    int64_t done = 0;
    int n = await(o, seg, timeout);
    if (n == HF_EEND) {
        close_again(o);
    }
    if (n <= 0) {
        return n;
    }
    do {
        int64_t wrote = pump(o, &to, until, err);
        if (wrote <= 0) {
            return done > 0 && wrote != HF_EPIPE && wrote != HF_EIO ? done : wrote;
        }
        done += wrote;
    } while (hf_now() < until && linger(o));
    return done;
}
