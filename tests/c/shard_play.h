/* Shards without loops: the test plays the loops, policy and the reader, in virtual
 * time. Whoever includes this says before how many shards there are: PLAY_SHARDS.
 */
#ifndef SHARD_PLAY_H
#define SHARD_PLAY_H

#include <stddef.h>

#include "fence.h"
#include "packed.h"
#include "shard.h"
#include "strict_json.h"

enum { MOST = 20000 }; /* requests of one play */

static hf_config cfg;
static hf_settings settings;
static hf_shared shared;
static hf_shard shards[PLAY_SHARDS];
static int64_t now;
static uint64_t next_seq;
static uint64_t records;
static uint8_t counts[MOST]; /* records of each request */
static int bad_lines;

static inline void play_open(void) {
    char text[128];
    hf_errbuf err = {text, sizeof text};
    make_settings(&settings, &cfg);
    memset(&shared, 0, sizeof shared);
    memset(counts, 0, sizeof counts);
    shared.settings = &settings;
    shared.shards = shards;
    shared.n_shards = PLAY_SHARDS;
    REQUIRE(hf_wake_init(&shared.output, err) == 0);
    REQUIRE(hf_wake_init(&shared.policy, err) == 0);
    REQUIRE(hf_wake_init(&shared.room, err) == 0);
    hf_exits_init(&shared.exits);
    for (int i = 0; i < PLAY_SHARDS; i++) {
        REQUIRE(hf_shard_init(&shards[i], &shared, i, err) == 0);
    }
    now = 1000000;
    next_seq = records = 0;
    bad_lines = 0;
}

static inline void play_close(void) {
    for (int i = 0; i < PLAY_SHARDS; i++) {
        hf_shard_free(&shards[i]);
    }
    hf_exits_free(&shared.exits);
    hf_wake_free(&shared.output);
    hf_wake_free(&shared.policy);
    hf_wake_free(&shared.room);
    hf_settings_free(&settings);
}

/* Posts a request of the line to the shard, as an engine does. */
static inline hf_request *play_submit(hf_shard *s, const char *line, int64_t deadline) {
    hf_request *r = hf_request_line(&settings, (const uint8_t *)line, strlen(line));
    REQUIRE(r && next_seq < MOST);
    r->seq = next_seq++;
    r->accepted = now;
    r->limits.job = deadline;
    hf_requests list = {NULL, NULL, 0};
    hf_requests_append(&list, r);
    hf_add(&shared.outstanding, 1, HF_SEQ_CST);
    hf_add(&shared.charged, r->charge, HF_SEQ_CST);
    hf_shard_post(s, &list);
    return r;
}

static inline void play_end(hf_shard *s, hf_request *r, int type) {
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    if (type == HF_T_NONE) {
        hf_response_header(r->response, (const uint8_t *)head, sizeof head - 1);
        hf_outcome_ok(&r->outcome);
    } else {
        hf_outcome_set(&r->outcome, type, HF_P_BODY,
                       type == HF_T_CANCELLED ? HF_O_LOCAL : HF_O_SITE, NULL);
    }
    hf_shard_finish(s, r, now);
}

/* What a loop does with dues. */
static inline void play_due(hf_shard *s) {
    hf_due *d;
    while ((d = hf_heap_pop(&s->heap, now)) != NULL) {
        if (d->kind == HF_KIND_HOST) {
            hf_schedule_due(&s->schedule,
                            (hf_host *)(void *)((char *)d - offsetof(hf_host, due)));
            continue;
        }
        hf_request *r = (hf_request *)(void *)((char *)d - offsetof(hf_request, due));
        if (r->state == HF_R_RUNNING) {
            play_end(s, r, HF_T_TIMEOUT);
        } else {
            hf_shard_due(s, r, now);
        }
    }
}

/* Takes whole lines out of the ring, notes whose they are, and shows each to `each`. */
static inline void play_read(hf_shard *s, void (*each)(const uint8_t *line, size_t n)) {
    static uint8_t text[1 << 21];
    struct iovec seg[2];
    int k;
    while ((k = hf_ring_peek(&s->ring, seg)) > 0) {
        size_t n = 0;
        for (int i = 0; i < k; i++) {
            REQUIRE(n + seg[i].iov_len <= sizeof text);
            memcpy(text + n, seg[i].iov_base, seg[i].iov_len);
            n += seg[i].iov_len;
        }
        hf_ring_advance(&s->ring, n);
        uint8_t *nl;
        for (uint8_t *p = text; (nl = memchr(p, '\n', n - (size_t)(p - text)));
             p = nl + 1) {
            size_t len;
            size_t line = (size_t)(nl - p);
            const uint8_t *v =
                json_object(p, line) ? json_find(p, line, "seq", &len) : NULL;
            uint64_t seq = v ? strtoull((const char *)v, NULL, 10) : MOST;
            bad_lines += seq >= MOST || counts[seq]++ != 0;
            each(p, line);
            records++;
        }
    }
}

/* Whether each request has come out once and nothing is held by anyone. */
static inline int play_answered(void) {
    uint64_t missing = 0;
    uint64_t held = 0;
    uint64_t waiting = 0;
    for (uint64_t i = 0; i < next_seq; i++) {
        missing += counts[i] != 1;
    }
    for (int i = 0; i < PLAY_SHARDS; i++) {
        held += !hf_shard_idle(&shards[i]);
        waiting += hf_stat_read(&shards[i].counts.policy);
        hf_shard_publish(&shards[i]);
    }
    uint64_t left = hf_load(&shared.outstanding, HF_SEQ_CST) +
                    hf_load(&shared.charged, HF_SEQ_CST) +
                    hf_load(&shared.in_flight, HF_SEQ_CST);
    if (missing == 0 && bad_lines == 0 && records == next_seq &&
        held + waiting + left == 0) {
        return 1;
    }
    fprintf(stderr,
            "    missing %llu, bad %d, records %llu of %llu, held %llu, waiting %llu, "
            "left %llu\n",
            (unsigned long long)missing, bad_lines, (unsigned long long)records,
            (unsigned long long)next_seq, (unsigned long long)held,
            (unsigned long long)waiting, (unsigned long long)left);
    return 0;
}

#endif
