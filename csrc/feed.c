/* The way in: lines and packed requests become requests of the shards.
 *
 * The part of the engine that one feeder at a time runs. Contracts: api.h.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "engine.h"

int hf_engine_skip(hf_engine *e, const uint8_t *bitmap, uint64_t nbits) {
    if (hf_engine_forked(e)) {
        return HF_EFORK;
    }
    uint8_t *copy = malloc((size_t)(nbits + 7) / 8 + 1);
    if (copy == NULL) {
        return HF_ENOMEM;
    }
    memcpy(copy, bitmap, (size_t)(nbits + 7) / 8);
    pthread_mutex_lock(&e->submit);
    free(e->skip);
    e->skip = copy;
    e->skip_bits = nbits;
    pthread_mutex_unlock(&e->submit);
    return 0;
}

static bool skipped(hf_engine *e) {
    uint64_t seq = e->next_seq;
    if (seq >= e->skip_bits || (e->skip[seq / 8] >> (seq % 8) & 1) == 0) {
        return false;
    }
    e->next_seq++;
    hf_stat_add(&e->inputs, 1);
    hf_stat_add(&e->skipped, 1);
    return true;
}

/* Room for one more? Only the feeder adds, so what is seen here can only get better. */
static bool has_room(hf_engine *e, uint64_t batch, uint64_t charge) {
    const hf_config *c = &e->settings.c;
    uint64_t held = hf_load(&e->shared.outstanding, HF_SEQ_CST) + batch;
    uint64_t bytes = hf_load(&e->shared.charged, HF_SEQ_CST) + charge;
    return held < (uint64_t)c->window_requests &&
           (held == 0 || bytes < (uint64_t)c->window_bytes);
}

typedef struct batch {
    uint64_t n;
    uint64_t charge;
    int64_t now;
} batch;

static void admit(hf_engine *e, hf_request *r, batch *b) {
    uint32_t shard =
        hf_request_invalid(r)
            ? (uint32_t)(e->next_seq % (uint64_t)e->shared.n_shards)
            : hf_shard_of(&e->shared, r->url.hostport, r->url.hostport_len);
    r->seq = e->next_seq++;
    r->accepted = b->now;
    hf_requests_append(&e->batches[shard], r);
    b->n++;
    b->charge += r->charge;
}

static void deliver(hf_engine *e, const batch *b) {
    if (b->n == 0) {
        return;
    }
    hf_stat_add(&e->inputs, b->n);
    hf_stat_add(&e->accepted, b->n);
    hf_add(&e->shared.charged, b->charge, HF_SEQ_CST);
    hf_add(&e->shared.outstanding, b->n, HF_SEQ_CST);
    for (int32_t i = 0; i < e->shared.n_shards; i++) {
        hf_shard_post(&e->shards[i], &e->batches[i]);
    }
}

/* Takes the lock of submissions, unless the engine can't be used. */
static int begin_submit(hf_engine *e, hf_errbuf err) {
    if (hf_engine_forked(e)) {
        return hf_engine_usable(
            e, err); /* the lock may be held by a thread that is not here */
    }
    pthread_mutex_lock(&e->submit);
    int rc = hf_engine_usable(e, err);
    if (rc != 0) {
        pthread_mutex_unlock(&e->submit);
    }
    return rc;
}

/* One line without its end. Returns 0, HF_EAGAIN for JSON, HF_ENOMEM. */
static int take_line(hf_engine *e, const uint8_t *p, size_t len, batch *b) {
    hf_slice line = hf_line_trim(p, len);
    if (line.n == 0) {
        return 0;
    }
    if (hf_line_is_json(line)) {
        return HF_EAGAIN;
    }
    if (skipped(e)) {
        return 0;
    }
    hf_request *r = hf_request_line(&e->settings, line.p, line.n);
    if (r == NULL) {
        return HF_ENOMEM;
    }
    admit(e, r, b);
    return 0;
}

static int take_lines(hf_engine *e, const uint8_t *data, size_t len, int last,
                      size_t *used, batch *b) {
    while (*used < len) {
        const uint8_t *line = data + *used;
        const uint8_t *nl = memchr(line, '\n', len - *used);
        if (nl == NULL && !last) {
            return 0;
        }
        if (!has_room(e, b->n, b->charge)) {
            return HF_EFULL;
        }
        size_t n = nl != NULL ? (size_t)(nl - line) : len - *used;
        int rc = take_line(e, line, n, b);
        if (rc != 0) {
            return rc;
        }
        *used += n + (nl != NULL);
    }
    return 0;
}

int hf_engine_submit_lines(hf_engine *e, const uint8_t *data, size_t len, int last,
                           size_t *used, char *err, size_t errlen) {
    *used = 0;
    batch b = {0, 0, hf_now()};
    int rc = begin_submit(e, (hf_errbuf){err, errlen});
    if (rc != 0) {
        return rc;
    }
    rc = take_lines(e, data, len, last, used, &b);
    deliver(e, &b);
    pthread_mutex_unlock(&e->submit);
    return rc == HF_ENOMEM ? hf_fail((hf_errbuf){err, errlen}, rc, "no memory") : rc;
}

static int take_frames(hf_engine *e, const uint8_t *p, size_t len, size_t *used,
                       batch *b) {
    while (*used < len) {
        const uint8_t *f = p + *used;
        size_t left = len - *used;
        uint32_t n = left >= 4 ? (uint32_t)f[0] | (uint32_t)f[1] << 8 |
                                     (uint32_t)f[2] << 16 | (uint32_t)f[3] << 24
                               : UINT32_MAX;
        if (n > left - 4 || left < 4) {
            return HF_EINVAL;
        }
        if (!has_room(e, b->n, b->charge)) {
            return HF_EFULL;
        }
        if (!skipped(e)) {
            int rc;
            hf_request *r = hf_request_unpack(&e->settings, f + 4, n, &rc);
            if (r == NULL) {
                return rc;
            }
            admit(e, r, b);
        }
        *used += 4 + (size_t)n;
    }
    return 0;
}

int hf_engine_submit(hf_engine *e, const uint8_t *frames, size_t len, size_t *used,
                     uint64_t *seq, char *err, size_t errlen) {
    *used = 0;
    *seq = 0;
    hf_errbuf eb = {err, errlen};
    batch b = {0, 0, hf_now()};
    int rc = begin_submit(e, eb);
    if (rc != 0) {
        return rc;
    }
    *seq = e->next_seq;
    rc = take_frames(e, frames, len, used, &b);
    deliver(e, &b);
    pthread_mutex_unlock(&e->submit);
    if (rc == HF_EINVAL || rc == HF_ENOMEM) {
        return hf_fail(eb, rc,
                       rc == HF_EINVAL ? "a packed request is cut or unknown"
                                       : "no memory for a request");
    }
    return rc;
}

static bool low(hf_engine *e) {
    const hf_config *c = &e->settings.c;
    return hf_load(&e->shared.outstanding, HF_SEQ_CST) <=
               HF_LOW_WATER(c->window_requests) &&
           hf_load(&e->shared.charged, HF_SEQ_CST) <= HF_LOW_WATER(c->window_bytes);
}

int hf_engine_wait_room(hf_engine *e, int64_t timeout) {
    hf_wake *w = &e->shared.room;
    int rc = hf_engine_usable(e, (hf_errbuf){NULL, 0});
    if (rc != 0) {
        return rc;
    }
    /* Pairs with notify_room in shard.c, which counts down before it looks. */
    hf_wake_prepare(w);
    rc = low(e) ? 0 : hf_wake_wait(w, timeout);
    hf_wake_cancel(w);
    if (hf_engine_take_interrupt(&e->room_interrupted)) {
        return HF_EINTR;
    }
    return rc != 0 && rc != HF_EAGAIN ? rc : has_room(e, 0, 0) ? 0 : HF_EAGAIN;
}

int hf_engine_finish(hf_engine *e) {
    if (hf_engine_forked(e)) {
        return HF_EFORK;
    }
    /* Pairs with at_end in output.c, which looks again after it has prepared to sleep.
     */
    hf_store(&e->finished, 1, HF_SEQ_CST);
    hf_wake_notify(&e->shared.output);
    hf_wake_notify(&e->shared.policy);
    return 0;
}
