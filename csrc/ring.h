/* Bytes and slots from one producer thread to one consumer thread, and the wake-up of
 * whichever of them sleeps.
 *
 * Invariant: head <= tail <= head + capacity, both free-running 64-bit positions that
 * are masked only on access. Bytes in [head, tail) belong to the consumer, all others
 * to the producer. The tail moves by whole records only, so whatever the consumer sees
 * ends at a record boundary. A record that travels by reference stands at a position
 * of its own, where one byte of the ring is left unused for it; so the tail alone says
 * whether anything waits, and the head alone says what is done with.
 *
 * It is not a queue for several producers, never blocks by itself and never drops.
 */
#ifndef HF_RING_H
#define HF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "atomics.h"
#include "err.h"

/* Two cache lines: the adjacent-line prefetcher pulls them in pairs. */
#define HF_RING_PAD 128

/* References that may wait at once. */
#ifndef HF_RING_REFS
#define HF_RING_REFS 64
#endif

/* A sleeper and how to wake it. One sleeper may wait for many rings; any number of
 * threads may notify.
 */
typedef struct hf_wake {
    int fd;                 /* eventfd, non-blocking; owned */
    hf_atomic_u32 sleeping; /* 1: the sleeper may be blocked and wants a write to fd */
    hf_stat wakeups;        /* waits that a write to fd ended */
    hf_stat lost;           /* waits that ended by time with announced data unread */
} hf_wake;

/* A record by reference. Written by the producer only. */
typedef struct hf_ref {
    uint64_t pos;  /* where it stands among the bytes */
    uint8_t *heap; /* malloc'ed; the consumer frees it */
    size_t len;    /* bytes */
} hf_ref;

typedef struct hf_ring {
    uint8_t *data;          /* owned */
    size_t capacity;        /* bytes, a power of two */
    hf_wake *consumer_wake; /* may be NULL */
    hf_wake *producer_wake; /* may be NULL */
    hf_ref refs[HF_RING_REFS];
    uint8_t pad0[HF_RING_PAD];

    /* Written by the producer. */
    hf_atomic_u64 tail;      /* end of what is published */
    hf_atomic_u32 ref_tail;  /* references published, free-running */
    hf_atomic_u32 closed;    /* 1: nothing more will be published */
    hf_atomic_u64 announced; /* tail at the last hf_ring_wake_consumer */
    hf_stat bytes_in;        /* record bytes published, by reference included */
    uint64_t tail_pos;       /* private copy of tail */
    uint64_t head_seen;      /* private, maybe old, copy of head */
    uint64_t told_pos;       /* private copy of announced */
    size_t ref_bytes;        /* private: referenced bytes not known to be done */
    uint32_t ref_pushed;     /* private copy of ref_tail */
    uint32_t ref_freed;      /* private: references known to be done */
    uint8_t pad1[HF_RING_PAD];

    /* Written by the consumer. */
    hf_atomic_u64 head;      /* start of what is unread */
    hf_atomic_u32 abandoned; /* 1: the consumer will read nothing more */
    hf_stat bytes_out;       /* record bytes advanced over, by reference included */
    uint64_t head_pos;       /* private copy of head */
    size_t ref_off;          /* private: bytes done of the reference at head */
    uint32_t ref_head;       /* private: references done */
    uint32_t ref_seen;       /* private, maybe old, copy of ref_tail */
    bool ended;              /* private: hf_ring_ended has said so */
    uint8_t pad2[HF_RING_PAD];

    /* Written by both. */
    hf_atomic_u32 waiting; /* 1: the producer found no room and wants to be told */
    uint8_t pad3[HF_RING_PAD];
} hf_ring;

/* Opens the eventfd.  Owns: w holds it until hf_wake_free.
 * Returns 0, or HF_ESYS with err set.
 */
int hf_wake_init(hf_wake *w, hf_errbuf err);

/* Closes the eventfd. No thread may notify or wait any more. */
void hf_wake_free(hf_wake *w);

/* Announces that the sleeper is about to block. It must then look once more at all that
 * it waits for, and call hf_wake_wait only if that is nothing; hf_wake_cancel follows
 * in both cases.
 * Thread: the sleeper.
 */
void hf_wake_prepare(hf_wake *w);

/* Waits for a write to the eventfd and takes it.
 * Thread: the sleeper, after hf_wake_prepare.
 * Blocks: up to timeout (us); a negative timeout never ends.
 * Returns 0 when woken (perhaps for nothing), HF_EAGAIN after the time, HF_EINTR on a
 * signal, HF_ESYS when poll fails.
 */
int hf_wake_wait(hf_wake *w, int64_t timeout);

/* Ends what hf_wake_prepare began.
 * Thread: the sleeper.
 * Returns true when nobody has been moved to wake it since.
 */
bool hf_wake_cancel(hf_wake *w);

/* Wakes the sleeper if it sleeps. What it shall see must have been stored before with
 * HF_SEQ_CST.
 * Thread: any.  Blocks: no.
 */
void hf_wake_notify(hf_wake *w);

/* Makes the next or current wait return, whether the sleeper has prepared or not.
 * Thread: any; also from a signal handler.  Blocks: no.
 */
void hf_wake_kick(hf_wake *w);

/* Makes an empty ring.
 * Owns: the ring frees its memory in hf_ring_free; the wakes stay the caller's and
 *       must outlive the ring. Either may be NULL: that side is then never woken.
 * Returns 0, HF_EINVAL for a capacity that is no power of two from 8 up, HF_ENOMEM.
 */
int hf_ring_init(hf_ring *r, size_t capacity, hf_wake *consumer_wake,
                 hf_wake *producer_wake, hf_errbuf err);

/* Frees the ring and the references still in it. Both threads must be done with it. */
void hf_ring_free(hf_ring *r);

/* ---- The producer's thread. None of these blocks. ---- */

/* True when a record of len bytes is to travel by reference. */
static inline bool hf_ring_by_ref(const hf_ring *r, size_t len) {
    return len > r->capacity / 8;
}

/* Publishes one whole record made of n parts. Wakes nobody: see hf_ring_wake_consumer.
 * Returns 0, HF_EFULL when there is no room now, HF_EINVAL when there never can be.
 */
int hf_ring_push(hf_ring *r, const struct iovec *parts, int n);

/* n bytes in one piece at the tail, to be encoded into.
 * Valid: until the next call of the producer's on this ring.
 * Returns NULL when there is no room, or none in one piece: then encode elsewhere and
 * push.
 */
uint8_t *hf_ring_reserve(hf_ring *r, size_t n);

/* The same for a record that is made in parts: n bytes in one piece behind the first
 * `used` bytes of it, which stand at the tail unpublished.
 */
uint8_t *hf_ring_extend(hf_ring *r, size_t used, size_t n);

/* Copies n bytes to where hf_ring_extend would give them, across the ring's end too.
 * Returns 0 or HF_EFULL.
 */
int hf_ring_append(hf_ring *r, size_t used, const uint8_t *from, size_t n);

/* Publishes the first n bytes at the tail, which were reserved, extended or appended,
 * as whole records.
 */
void hf_ring_commit(hf_ring *r, size_t n);

/* Publishes one whole record by reference, behind all that was published before.
 * Owns: heap (from malloc) passes to the ring on 0, else stays the caller's.
 * Returns 0, HF_EFULL while HF_RING_REFS references wait, or while the new one would
 * take those waiting past 4 x capacity (it is let in when none waits, whatever its
 * length), HF_EINVAL for no bytes.
 */
int hf_ring_push_ref(hf_ring *r, uint8_t *heap, size_t len);

/* Bytes that hf_ring_push would take now. */
size_t hf_ring_free_space(hf_ring *r);

/* Wakes the consumer if it sleeps and something was published since the last call.
 * Once per iteration of a loop is enough, and required before it blocks.
 */
void hf_ring_wake_consumer(hf_ring *r);

/* Asks to be told through producer_wake when the head moves. Called after HF_EFULL,
 * before the producer blocks.
 * Returns 1 when the head has moved meanwhile: try again; 0 when the producer may
 * block; HF_EPIPE when the consumer has abandoned the ring.
 */
int hf_ring_want_room(hf_ring *r);

/* Says that nothing more will be published, and wakes the consumer. */
void hf_ring_close(hf_ring *r);

/* ---- The consumer's thread. None but hf_ring_wait blocks. ---- */

/* What stands first: published bytes in up to two segments, or one reference (what is
 * left of it) as one segment. Segments end at a record boundary.
 * Valid: until hf_ring_advance has passed over it.
 * Returns the number of segments, 0 when nothing waits.
 */
int hf_ring_peek(hf_ring *r, struct iovec out[2]);

/* Passes over the first n bytes of what hf_ring_peek gave; frees a reference once it is
 * done with, and wakes a producer that waits for room.
 */
void hf_ring_advance(hf_ring *r, size_t n);

/* The look once more that must follow hf_wake_prepare: true when something waits, or
 * the ring was closed since.
 */
bool hf_ring_ready(hf_ring *r);

/* True when the ring is closed and empty. */
bool hf_ring_ended(hf_ring *r);

/* After a wait that ended by time, before hf_wake_cancel: true when the producer has
 * finished waking us for data that stands unread. With hf_wake_cancel true too, the
 * wake-up was lost.
 */
bool hf_ring_overdue(hf_ring *r);

/* Waits until one of the n rings has something: prepare, look once more, wait, cancel;
 * counts lost wake-ups. Rings that have ended are passed over.
 * Blocks: up to timeout (us), negative: without end.
 * Returns 0 when something may be there, HF_EAGAIN after the time, HF_EINTR, HF_ESYS.
 */
int hf_ring_wait(hf_wake *w, hf_ring *const *rings, int n, int64_t timeout);

/* Says that nothing more will be read, and wakes a producer that waits for room. */
void hf_ring_abandon(hf_ring *r);

/* ---- Any thread. ---- */

/* Record bytes published and not yet passed over, by reference included; near enough
 * for statistics.
 */
uint64_t hf_ring_used(const hf_ring *r);

/* Slots of one size over the same ring: whole slots in, whole slots out. `ring` may be
 * given to each function above that neither publishes nor advances.
 */
typedef struct hf_slots {
    hf_ring ring;
    size_t slot_size; /* bytes */
} hf_slots;

/* Makes an empty ring for at least count slots. Owns and returns as hf_ring_init. */
int hf_slots_init(hf_slots *s, size_t slot_size, size_t count, hf_wake *consumer_wake,
                  hf_wake *producer_wake, hf_errbuf err);

void hf_slots_free(hf_slots *s);

/* Copies one slot in. Thread: the producer. Returns 0 or HF_EFULL. */
int hf_slots_push(hf_slots *s, const void *slot);

/* Copies up to max slots out. Thread: the consumer. Returns the count. */
int hf_slots_pop(hf_slots *s, void *slots, int max);

#endif
