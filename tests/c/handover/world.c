/* The fake libcurl, and what is cut short besides. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

world W;

/* ---- libcurl. It asks for its timer when a transfer is added, and ends all that it
 * has at the next call. Each call is entered and left by steps of its own, so that it
 * may last as long as any other thread likes. ---- */

enum { HANDLES = 8 };

typedef struct easy {
    void *private;
    const char *url;
    size_t (*header)(char *, size_t, size_t, void *);
    void *header_data;
    int code;
    bool done;
} easy;

typedef struct multi {
    int (*timer)(CURLM *, long, void *);
    void *timer_data;
    easy *all[HANDLES];
    int n;
    CURLMsg msg;
} multi;

static void inside(const char *call) {
    if (st_ticks() == 0 || (W.hangs != NULL && strcmp(W.hangs, call) != 0))
        return;
    W.hanging = 1;
    st_block(ST_GO, NULL, 0, false, "inside libcurl", call, 0);
    if (W.stuck_until != NULL)
        st_block(ST_GATE, W.stuck_until, 0, false, "stuck", call, 0);
    W.hanging = 0;
}

static CURL *easy_init(void) {
    W.lives++;
    return (CURL *)calloc(1, sizeof(easy));
}
static void easy_cleanup(CURL *e) {
    W.lives--;
    free(e);
}
static int easy_setopt(CURL *curl, int option, ...) {
    easy *e = (easy *)curl;
    va_list ap;
    va_start(ap, option);
    switch (option) {
    case CURLOPT_PRIVATE:
        e->private = va_arg(ap, void *);
        break;
    case CURLOPT_URL:
        e->url = va_arg(ap, const char *);
        break;
    case CURLOPT_HEADERFUNCTION:
        e->header = va_arg(ap, size_t(*)(char *, size_t, size_t, void *));
        break;
    case CURLOPT_HEADERDATA:
        e->header_data = va_arg(ap, void *);
        break;
    default:
        break;
    }
    va_end(ap);
    return 0;
}
static int easy_getinfo(CURL *curl, int info, ...) {
    va_list ap;
    va_start(ap, info);
    void *out = va_arg(ap, void *);
    va_end(ap);
    if (info == CURLINFO_PRIVATE)
        memcpy(out, &((easy *)curl)->private, sizeof(void *));
    else
        memset(out, 0, info == CURLINFO_ACTIVESOCKET ? sizeof(int) : 8);
    return 0;
}
static CURLM *multi_init(void) {
    W.lives++;
    return (CURLM *)calloc(1, sizeof(multi));
}
static int multi_cleanup(CURLM *m) {
    W.lives--;
    free(m);
    return 0;
}
static int multi_setopt(CURLM *curlm, int option, ...) {
    multi *m = (multi *)curlm;
    va_list ap;
    va_start(ap, option);
    if (option == CURLMOPT_TIMERFUNCTION)
        m->timer = va_arg(ap, int (*)(CURLM *, long, void *));
    else if (option == CURLMOPT_TIMERDATA)
        m->timer_data = va_arg(ap, void *);
    va_end(ap);
    return 0;
}
static int multi_add(CURLM *curlm, CURL *e) {
    multi *m = (multi *)curlm;
    /* Admission ends while anything is parked: shard_admit.c. */
    const hf_loop *l = st_arg(st_self());
    ST_CHECK(l->shard->parked.first == NULL);
    inside("curl_multi_add_handle");
    ((easy *)e)->done = false;
    m->all[m->n++] = (easy *)e;
    return m->timer(curlm, 0, m->timer_data);
}
static int multi_remove(CURLM *curlm, CURL *e) {
    multi *m = (multi *)curlm;
    inside("curl_multi_remove_handle");
    for (int i = 0; i < m->n; i++)
        if (m->all[i] == (easy *)e) {
            m->n--;
            memmove(&m->all[i], &m->all[i + 1], (size_t)(m->n - i) * sizeof *m->all);
            m->all[m->n] = NULL;
            break;
        }
    return 0;
}
static void answer(easy *e) {
    char line[] = "HTTP/1.1 200 OK\r\n", end[] = "\r\n";
    e->done = true;
    e->code = strstr(e->url, "/no") != NULL ? CURLE_COULDNT_CONNECT : CURLE_OK;
    if (e->code == CURLE_OK) {
        e->header(line, 1, sizeof line - 1, e->header_data);
        e->header(end, 1, sizeof end - 1, e->header_data);
    }
}
static int multi_action(CURLM *curlm, curl_socket_t s, int events, int *running) {
    multi *m = (multi *)curlm;
    (void)s, (void)events;
    inside("curl_multi_socket_action");
    for (int i = 0; i < m->n; i++)
        if (!m->all[i]->done)
            answer(m->all[i]);
    m->timer(curlm, -1, m->timer_data);
    *running = 0;
    return 0;
}
static int multi_timeout(CURLM *m, long *ms) {
    (void)m;
    *ms = -1;
    return 0;
}
static CURLMsg *multi_info(CURLM *curlm, int *left) {
    multi *m = (multi *)curlm;
    *left = 0;
    for (int i = 0; i < m->n; i++)
        if (m->all[i]->done) {
            m->msg = (CURLMsg){CURLMSG_DONE, (CURL *)m->all[i], {NULL}};
            m->msg.data.result = m->all[i]->code;
            return &m->msg;
        }
    return NULL;
}
static CURLSH *share_init(void) {
    W.lives++;
    return (CURLSH *)calloc(1, 1);
}
static int share_setopt(CURLSH *s, int option, ...) {
    (void)s, (void)option;
    return 0;
}
static int share_cleanup(CURLSH *s) {
    W.lives--;
    free(s);
    return 0;
}
static void slist_free(struct curl_slist *l) {
    (void)l; /* no case has headers of its own */
}

/* In place of hf_curl_load. */
int __wrap_hf_curl_load(hf_curl *c, const char *path, hf_errbuf err) {
    (void)path, (void)err;
    memset(c, 0, sizeof *c);
    c->version = 0x080e00;
    c->curl_easy_init = easy_init;
    c->curl_easy_cleanup = easy_cleanup;
    c->curl_easy_setopt = easy_setopt;
    c->curl_easy_getinfo = easy_getinfo;
    c->curl_multi_init = multi_init;
    c->curl_multi_cleanup = multi_cleanup;
    c->curl_multi_setopt = multi_setopt;
    c->curl_multi_add_handle = multi_add;
    c->curl_multi_remove_handle = multi_remove;
    c->curl_multi_socket_action = multi_action;
    c->curl_multi_timeout = multi_timeout;
    c->curl_multi_info_read = multi_info;
    c->curl_share_init = share_init;
    c->curl_share_setopt = share_setopt;
    c->curl_share_cleanup = share_cleanup;
    c->curl_slist_free_all = slist_free;
    return 0;
}

/* In place of magazine.c's, which knows threads by the real ones. */
void __wrap_hf_magazine_open(void) {
}
void __wrap_hf_magazine_close(void) {
}

/* ---- Records. ---- */

/* A shard has one owner: its loop outside libcurl, or the watchdog that took it. */
static void check_owner(const hf_ring *ring) {
    const hf_engine *e = W.e;
    int i = 0;
    while (ring != &e->shards[i].ring)
        i++;
    const hf_loop *now = e->loops[i], *mine = st_arg(st_self());
    if (st_arg(st_self()) == &e->watchdog)
        ST_CHECK(now != NULL && now->heart.state == HF_HEART_LOST);
    else /* none is left to the engine that an hf_engine_close has not waited for */
        ST_CHECK((now == mine || now == NULL) && mine->heart.state == HF_HEART_OUT);
}

/* In place of record.c's functions. */
int __wrap_hf_record_fields(const char *const *names, uint64_t *out, hf_errbuf err) {
    (void)names, (void)err;
    *out = 0;
    return 0;
}
int __wrap_hf_encoder_init(hf_encoder *e, const hf_settings *settings) {
    e->settings = settings;
    return 0;
}
void __wrap_hf_encoder_free(hf_encoder *e) {
    e->settings = NULL;
}

/* In place of hf_record_write: eight bytes that tell of the seq. */
int __wrap_hf_record_write(hf_encoder *enc, hf_ring *ring, const hf_request *r,
                           const hf_response *resp, const hf_facts *facts) {
    uint8_t bytes[RECORD];
    (void)enc, (void)resp, (void)facts;
    check_owner(ring);
    for (int i = 0; i < RECORD; i++)
        bytes[i] = (uint8_t)(16 * (int)r->seq + i);
    if (W.by_ref && r->seq % 2 == 1) {
        uint8_t *heap = malloc(RECORD);
        memcpy(heap, bytes, RECORD);
        int rc = hf_ring_push_ref(ring, heap, RECORD);
        if (rc != 0)
            st_memory_undo(heap); /* or each try in vain would be another state */
        return rc;
    }
    struct iovec part = {bytes, RECORD};
    return hf_ring_push(ring, &part, 1);
}

int __real_hf_ring_init(hf_ring *r, size_t capacity, hf_wake *consumer_wake,
                        hf_wake *producer_wake, hf_errbuf err);

/* In place of hf_ring_init for rings of records. */
int __wrap_hf_ring_init(hf_ring *r, size_t capacity, hf_wake *consumer_wake,
                        hf_wake *producer_wake, hf_errbuf err) {
    (void)capacity;
    return __real_hf_ring_init(r, W.ring, consumer_wake, producer_wake, err);
}

/* ---- The engine. ---- */

void world_default(void) {
    memset(&W, 0, sizeof W);
    W.ring = RECORD;
    hf_config_default(&W.cfg);
    W.cfg.max_redirects = -1;
}

void world_open(void) {
    static char why[160];
    W.e = hf_engine_alloc();
    if (hf_engine_start(W.e, &W.cfg, why, sizeof why) != 0)
        st_fail(why);
    else
        st_run_to_sleep();
}

int world_submit(const char *lines) {
    char why[160];
    size_t used;
    int rc = hf_engine_submit_lines(W.e, (const uint8_t *)lines, strlen(lines), 1,
                                    &used, why, sizeof why);
    W.accepted = W.e->next_seq;
    return rc;
}

int world_read(int most) {
    uint8_t bytes[RECORD];
    while (W.n_got < most) {
        int64_t n = hf_engine_read(W.e, bytes, RECORD, INT64_MAX / 4);
        if (n < 0)
            return (int)n;
        ST_CHECK(n == RECORD);
        int seq = bytes[0] / 16;
        for (int i = 0; i < RECORD; i++)
            ST_CHECK(bytes[i] == 16 * seq + i);
        ST_CHECK(W.n_got < SEQS && seq < SEQS);
        ST_CHECK(++W.got[seq] == 1);
        /* One host, one loop: all end in the order in which they came. */
        ST_CHECK(W.n_got == 0 || W.any_order || seq > W.last);
        W.last = seq;
        W.n_got++;
    }
    return 0;
}

bool world_hangs(void) {
    return W.hanging != 0;
}

void world_join(int number) {
    st_block(ST_THREAD, NULL, number, false, "join", __func__, number);
}

uint64_t world_dropped(void) {
    uint64_t n = 0;
    for (int i = 0; i < W.e->shared.n_shards; i++)
        n += W.e->shards[i].counts.dropped;
    return n;
}

/* Each request that was accepted is read, unread in a ring, counted as dropped, or
 * still held by its shard, whose counters tell where. */
static void check_account(void) {
    const hf_engine *e = W.e;
    uint64_t n = (uint64_t)W.n_got + world_dropped();
    for (int i = 0; i < e->shared.n_shards; i++) {
        const hf_shard *s = &e->shards[i];
        n += hf_ring_used(&s->ring) / RECORD + s->held.n + s->inbox.posted.submitted.n;
        ST_CHECK(s->counts.parked == s->parked.n);
    }
    ST_CHECK(n == W.accepted);
}

void world_close(int writer) {
    hf_engine_close(W.e);
    world_join(writer);
    if (W.e->watchdog.left_behind == NULL)
        check_account();
    hf_engine_free(W.e);
    W.closed = 1;
    for (int i = 1; i < ST_THREADS; i++)
        if (i != st_self())
            world_join(i);
    hf_engine_start(NULL, &W.cfg, NULL, 0); /* sweeps */
    ST_CHECK(W.lives == 0);
}

/* ---- What is no part of the state. ---- */

void world_settle(void) {
    hf_engine *e = W.e;
    if (e == NULL || st_freed(e) || e->shards == NULL)
        return;
    W.lost |= e->loops[0] != NULL && e->loops[0]->heart.state == HF_HEART_LOST;
    hf_stat *wakes[] = {&e->shared.output.wakeups, &e->shared.policy.wakeups,
                        &e->shared.room.wakeups};
    for (int i = 0; i < 3; i++)
        *wakes[i] = 0;
    for (int i = 0; i < e->shared.n_shards; i++) {
        hf_counts *c = &e->shards[i].counts;
        c->epoll_waits = c->timer_sets = c->ring_full = c->socket_actions = 0;
        c->overrun_max = c->deadlines_fired = 0;
        memset((void *)c->overrun, 0, sizeof c->overrun);
    }
    e->watchdog.stalls = e->watchdog.stalled_us = 0;
    e->watchdog.stalled_call = NULL;
}

static bool within(const volatile void *p, const void *start, size_t n) {
    const volatile uint8_t *b = p;
    const uint8_t *s = start;
    return b >= s && b < s + n;
}

bool world_alone(const volatile void *at) {
    const hf_shared *sh = &W.e->shared;
    /* Nothing follows from it in any case: windows count requests. */
    return at == &sh->charged || within(at, &sh->policy, sizeof sh->policy);
}
