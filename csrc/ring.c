#include "ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Waking. ---- */

int hf_wake_init(hf_wake *w, hf_errbuf err) {
    memset(w, 0, sizeof *w);
    hf_init(&w->sleeping, 0);
    w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return w->fd < 0 ? hf_fail_sys(err, "eventfd") : 0;
}

void hf_wake_free(hf_wake *w) {
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

void hf_wake_prepare(hf_wake *w) {
    /* Partner: the load in hf_wake_notify. This store and the look once more after it,
     * the store of what is waited for and that load: all four are seq_cst, or both
     * sides may read the other's old value, on x86 too. */
    hf_store(&w->sleeping, 1, HF_SEQ_CST);
}

int hf_wake_wait(hf_wake *w, int64_t timeout) {
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    struct timespec ts = {.tv_sec = timeout / 1000000,
                          .tv_nsec = timeout % 1000000 * 1000};
    int rc = ppoll(&p, 1, timeout < 0 ? NULL : &ts, NULL);
    if (rc < 0)
        return errno == EINTR ? HF_EINTR : HF_ESYS;
    if (rc == 0)
        return HF_EAGAIN;
    uint64_t count;
    /* It cannot fail but by being empty, which is a wake-up for nothing. */
    if (read(w->fd, &count, sizeof count) == (ssize_t)sizeof count)
        hf_stat_add(&w->wakeups, 1);
    return 0;
}

bool hf_wake_cancel(hf_wake *w) {
    /* Relaxed: the sleeper's own flag; a notifier that still saw 1 writes to fd for
     * nothing. An exchange, not a store: it tells whether a notifier took the flag. */
    return hf_xchg(&w->sleeping, 0, HF_RELAXED) == 1;
}

void hf_wake_notify(hf_wake *w) {
    /* Load, partner: hf_wake_prepare. Exchange: of several notifiers one writes. It is
     * seq_cst because C11 lets a later seq_cst load read a weaker store that stands
     * before the sleeper's next seq_cst one. */
    if (hf_load(&w->sleeping, HF_SEQ_CST) && hf_xchg(&w->sleeping, 0, HF_SEQ_CST))
        hf_wake_kick(w);
}

void hf_wake_kick(hf_wake *w) {
    uint64_t one = 1;
    int saved = errno;
    /* EAGAIN means 2^64 - 2 wake-ups wait already: as good as one more. */
    while (write(w->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    errno = saved;
}

/* ---- Making and freeing. ---- */

#define HUGE_PAGE ((size_t)2 << 20)

/* A ring is walked through from end to end all the time: in pages of 4 KiB that is a
 * miss of the TLB each, twice. Without huge pages it works as well. */
static uint8_t *make_memory(size_t capacity) {
    if (capacity < HUGE_PAGE)
        return malloc(capacity);
    uint8_t *p = aligned_alloc(HUGE_PAGE, capacity);
    if (p)
        madvise(p, capacity, MADV_HUGEPAGE);
    return p;
}

int hf_ring_init(hf_ring *r, size_t capacity, hf_wake *consumer_wake,
                 hf_wake *producer_wake, hf_errbuf err) {
    memset(r, 0, sizeof *r);
    if (capacity < 8 || (capacity & (capacity - 1)) || capacity > SIZE_MAX / 8)
        return hf_fail(err, HF_EINVAL, "ring capacity %zu: must be a power of two",
                       capacity);
    r->data = make_memory(capacity);
    if (!r->data)
        return hf_fail(err, HF_ENOMEM, "ring of %zu bytes: out of memory", capacity);
    r->capacity = capacity;
    r->consumer_wake = consumer_wake;
    r->producer_wake = producer_wake;
    hf_init(&r->tail, 0);
    hf_init(&r->ref_tail, 0);
    hf_init(&r->closed, 0);
    hf_init(&r->announced, 0);
    hf_init(&r->head, 0);
    hf_init(&r->abandoned, 0);
    hf_init(&r->waiting, 0);
    return 0;
}

void hf_ring_free(hf_ring *r) {
    for (uint32_t i = r->ref_head; i != r->ref_pushed; i++)
        free(r->refs[i % HF_RING_REFS].heap);
    r->ref_head = r->ref_pushed;
    free(r->data);
    r->data = NULL;
}

/* ---- The producer. ---- */

static size_t free_as_seen(const hf_ring *r) {
    return r->capacity - (size_t)(r->tail_pos - r->head_seen);
}

/* Reloads the head only when the copy says full: most pushes touch no line of the
 * consumer's.
 */
static bool has_room(hf_ring *r, size_t n) {
    if (free_as_seen(r) >= n)
        return true;
    /* Partner: the store in move_head. What the consumer read is read. */
    r->head_seen = hf_load(&r->head, HF_ACQUIRE);
    return free_as_seen(r) >= n;
}

static void put(hf_ring *r, uint64_t pos, const uint8_t *from, size_t n) {
    size_t at = (size_t)(pos & (r->capacity - 1));
    size_t first = r->capacity - at < n ? r->capacity - at : n;
    if (first)
        hf_put(r->data + at, from, first);
    if (n > first)
        hf_put(r->data, from + first, n - first);
}

static void move_tail(hf_ring *r, uint64_t n, size_t record) {
    r->tail_pos += n;
    /* Partners: the load in hf_ring_peek (the bytes are there), and that in
     * hf_ring_ready (seq_cst: see hf_wake_prepare). */
    hf_store(&r->tail, r->tail_pos, HF_SEQ_CST);
    hf_stat_add(&r->bytes_in, record);
}

int hf_ring_push(hf_ring *r, const struct iovec *parts, int n) {
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += parts[i].iov_len;
    if (total > r->capacity)
        return HF_EINVAL;
    if (!has_room(r, total))
        return HF_EFULL;
    uint64_t pos = r->tail_pos;
    for (int i = 0; i < n; i++) {
        put(r, pos, parts[i].iov_base, parts[i].iov_len);
        pos += parts[i].iov_len;
    }
    move_tail(r, total, total);
    return 0;
}

uint8_t *hf_ring_extend(hf_ring *r, size_t used, size_t n) {
    size_t at = (size_t)((r->tail_pos + used) & (r->capacity - 1));
    if (n > r->capacity - at || !has_room(r, used + n))
        return NULL;
    return r->data + at;
}

uint8_t *hf_ring_reserve(hf_ring *r, size_t n) {
    return hf_ring_extend(r, 0, n);
}

int hf_ring_append(hf_ring *r, size_t used, const uint8_t *from, size_t n) {
    if (!has_room(r, used + n))
        return HF_EFULL;
    put(r, r->tail_pos + used, from, n);
    return 0;
}

void hf_ring_commit(hf_ring *r, size_t n) {
    move_tail(r, n, n);
}

static bool ref_fits(const hf_ring *r, size_t len) {
    uint32_t waiting = r->ref_pushed - r->ref_freed;
    size_t most = 4 * r->capacity;
    if (free_as_seen(r) < 1 || waiting == HF_RING_REFS)
        return false;
    return waiting == 0 || (len <= most && r->ref_bytes <= most - len);
}

/* The head has passed a reference's position: its slot is ours again. */
static void take_back_refs(hf_ring *r) {
    while (r->ref_freed != r->ref_pushed) {
        hf_ref ref;
        hf_get(&ref, &r->refs[r->ref_freed % HF_RING_REFS], sizeof ref);
        if ((int64_t)(r->head_seen - ref.pos) <= 0)
            break;
        r->ref_bytes -= ref.len;
        r->ref_freed++;
    }
}

int hf_ring_push_ref(hf_ring *r, uint8_t *heap, size_t len) {
    if (!heap || !len)
        return HF_EINVAL;
    if (!ref_fits(r, len)) {
        /* Partner: the store in move_head. The slot is read and the buffer freed. */
        r->head_seen = hf_load(&r->head, HF_ACQUIRE);
        take_back_refs(r);
        if (!ref_fits(r, len))
            return HF_EFULL;
    }
    hf_ref ref = {.pos = r->tail_pos, .heap = heap, .len = len};
    hf_put(&r->refs[r->ref_pushed % HF_RING_REFS], &ref, sizeof ref);
    r->ref_bytes += len;
    r->ref_pushed++;
    /* Partner: the load in hf_ring_peek. Before the tail, so that whoever sees the
     * tail past the reference sees the reference. */
    hf_store(&r->ref_tail, r->ref_pushed, HF_RELEASE);
    move_tail(r, 1, len);
    return 0;
}

size_t hf_ring_free_space(hf_ring *r) {
    has_room(r, r->capacity);
    return free_as_seen(r);
}

void hf_ring_wake_consumer(hf_ring *r) {
    if (!r->consumer_wake || r->told_pos == r->tail_pos)
        return;
    hf_wake_notify(r->consumer_wake);
    r->told_pos = r->tail_pos;
    /* Partner: the load in hf_ring_overdue. What notify did to the flag is done. */
    hf_store(&r->announced, r->told_pos, HF_RELEASE);
}

int hf_ring_want_room(hf_ring *r) {
    /* Partner: the load in tell_producer. Mirror of hf_wake_prepare. */
    hf_store(&r->waiting, 1, HF_SEQ_CST);
    /* Partner: the store in hf_ring_abandon. */
    if (hf_load(&r->abandoned, HF_SEQ_CST))
        return HF_EPIPE;
    /* Partner: the store in move_head. If it has moved, the flag stays up: that costs
     * one write to the eventfd for nothing, and saves an exchange. */
    uint64_t head = hf_load(&r->head, HF_SEQ_CST);
    if (head == r->head_seen)
        return 0;
    r->head_seen = head;
    return 1;
}

void hf_ring_close(hf_ring *r) {
    /* Partners: the loads in hf_ring_ready (seq_cst) and hf_ring_ended. */
    hf_store(&r->closed, 1, HF_SEQ_CST);
    if (r->consumer_wake)
        hf_wake_notify(r->consumer_wake);
}

/* ---- The consumer. ---- */

static bool ref_at_head(hf_ring *r, hf_ref *ref) {
    if (r->ref_head == r->ref_seen)
        return false;
    hf_get(ref, &r->refs[r->ref_head % HF_RING_REFS], sizeof *ref);
    return ref->pos == r->head_pos;
}

int hf_ring_peek(hf_ring *r, struct iovec out[2]) {
    /* Partner: the store in move_tail. */
    uint64_t tail = hf_load(&r->tail, HF_ACQUIRE);
    if (tail == r->head_pos)
        return 0;
    /* Partner: the store in hf_ring_push_ref. After the tail: see there. */
    r->ref_seen = (uint32_t)hf_load(&r->ref_tail, HF_ACQUIRE);
    size_t n = (size_t)(tail - r->head_pos);
    hf_ref ref;
    if (ref_at_head(r, &ref)) {
        out[0] = (struct iovec){ref.heap + r->ref_off, ref.len - r->ref_off};
        return 1;
    }
    if (r->ref_head != r->ref_seen && ref.pos - r->head_pos < n)
        n = (size_t)(ref.pos - r->head_pos);
    size_t at = (size_t)(r->head_pos & (r->capacity - 1));
    size_t first = r->capacity - at < n ? r->capacity - at : n;
    out[0] = (struct iovec){r->data + at, first};
    out[1] = (struct iovec){r->data, n - first};
    return n > first ? 2 : 1;
}

static void tell_producer(hf_ring *r) {
    /* Load, partner: hf_ring_want_room. Exchange: see hf_wake_notify. */
    if (hf_load(&r->waiting, HF_SEQ_CST) && hf_xchg(&r->waiting, 0, HF_SEQ_CST) &&
        r->producer_wake)
        hf_wake_kick(r->producer_wake);
}

static void move_head(hf_ring *r, uint64_t n) {
    r->head_pos += n;
    /* Partners: the loads in has_room and hf_ring_push_ref (what was read is read),
     * and that in hf_ring_want_room (seq_cst: see hf_wake_prepare). */
    hf_store(&r->head, r->head_pos, HF_SEQ_CST);
    tell_producer(r);
}

void hf_ring_advance(hf_ring *r, size_t n) {
    if (!n)
        return;
    hf_ref ref;
    hf_stat_add(&r->bytes_out, n);
    if (!ref_at_head(r, &ref)) {
        move_head(r, n);
        return;
    }
    r->ref_off += n;
    if (r->ref_off < ref.len)
        return;
    free(ref.heap);
    r->ref_off = 0;
    r->ref_head++;
    move_head(r, 1);
}

bool hf_ring_ready(hf_ring *r) {
    if (r->ended)
        return false;
    /* Partners: the stores in move_tail and hf_ring_close. */
    return hf_load(&r->tail, HF_SEQ_CST) != r->head_pos ||
           hf_load(&r->closed, HF_SEQ_CST);
}

bool hf_ring_ended(hf_ring *r) {
    /* Closed first: a tail loaded after it is the last one. Partners: the stores in
     * hf_ring_close and move_tail. */
    if (!r->ended && hf_load(&r->closed, HF_ACQUIRE))
        r->ended = hf_load(&r->tail, HF_RELAXED) == r->head_pos;
    return r->ended;
}

bool hf_ring_overdue(hf_ring *r) {
    /* Partner: the store in hf_ring_wake_consumer. */
    uint64_t told = hf_load(&r->announced, HF_ACQUIRE);
    return (int64_t)(told - r->head_pos) > 0;
}

static bool any_ready(hf_ring *const *rings, int n) {
    for (int i = 0; i < n; i++)
        if (hf_ring_ready(rings[i]))
            return true;
    return false;
}

int hf_ring_wait(hf_wake *w, hf_ring *const *rings, int n, int64_t timeout) {
    hf_wake_prepare(w);
    int rc = any_ready(rings, n) ? 0 : hf_wake_wait(w, timeout);
    bool overdue = false;
    for (int i = 0; rc == HF_EAGAIN && i < n; i++)
        overdue = hf_ring_overdue(rings[i]) || overdue;
    if (hf_wake_cancel(w) && overdue)
        hf_stat_add(&w->lost, 1);
    return rc == HF_EAGAIN && overdue ? 0 : rc;
}

void hf_ring_abandon(hf_ring *r) {
    /* Partner: the load in hf_ring_want_room. */
    hf_store(&r->abandoned, 1, HF_SEQ_CST);
    tell_producer(r);
}

uint64_t hf_ring_used(const hf_ring *r) {
    /* Out before in: the difference is never below nothing by much; clamp the rest. */
    uint64_t out = hf_stat_read(&r->bytes_out), in = hf_stat_read(&r->bytes_in);
    return in > out ? in - out : 0;
}

/* ---- Slots. ---- */

int hf_slots_init(hf_slots *s, size_t slot_size, size_t count, hf_wake *consumer_wake,
                  hf_wake *producer_wake, hf_errbuf err) {
    size_t capacity = 8;
    if (!slot_size || !count || count > SIZE_MAX / 32 / slot_size)
        return hf_fail(err, HF_EINVAL, "%zu slots of %zu bytes", count, slot_size);
    /* A slot may stand across the wrap, so the size need not divide the capacity. */
    while (capacity < slot_size * count)
        capacity *= 2;
    s->slot_size = slot_size;
    return hf_ring_init(&s->ring, capacity, consumer_wake, producer_wake, err);
}

void hf_slots_free(hf_slots *s) {
    hf_ring_free(&s->ring);
}

int hf_slots_push(hf_slots *s, const void *slot) {
    struct iovec part = {(void *)(uintptr_t)slot, s->slot_size};
    return hf_ring_push(&s->ring, &part, 1);
}

int hf_slots_pop(hf_slots *s, void *slots, int max) {
    struct iovec seg[2] = {{0}};
    int segments = hf_ring_peek(&s->ring, seg);
    if (!segments || max < 1)
        return 0;
    size_t have = seg[0].iov_len + (segments == 2 ? seg[1].iov_len : 0);
    size_t want = have / s->slot_size < (size_t)max ? have : (size_t)max * s->slot_size;
    size_t first = seg[0].iov_len < want ? seg[0].iov_len : want;
    hf_get(slots, seg[0].iov_base, first);
    if (want > first)
        hf_get((uint8_t *)slots + first, seg[1].iov_base, want - first);
    hf_ring_advance(&s->ring, want);
    return (int)(want / s->slot_size);
}
