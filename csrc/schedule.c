#include "schedule.h"

#include <string.h>

/* In flight without an answer that make a host doubtful; of its turns then one in so
 * many is taken; hosts looked at for one start. */
#define DOUBT 8
#define DOUBT_SHARE 8
#define DOUBT_LOOKS 16
/* us that a name that was looked up stands (libcurl's default), that one that was not
 * found, or not soon, is asked for by all at once, and that the others wait at most. */
#define NAME_KNOWN 59000000
#define NAME_UNKNOWN 10000000
#define NAME_WAIT 1000000

int hf_schedule_init(hf_schedule *s, const hf_config *config, hf_heap *heap) {
    memset(s, 0, sizeof *s);
    s->heap = heap;
    s->random = (uint64_t)(uintptr_t)s | 1;
    return hf_hosts_init(&s->hosts, config, heap);
}

void hf_schedule_free(hf_schedule *s) {
    hf_hosts_free(&s->hosts);
    memset(s, 0, sizeof *s);
}

static bool is_under_way(const hf_request *r) {
    return r->hopping || r->is_ticket;
}

/* Puts the host into the list where its state wants it. */
static void settle(hf_schedule *s, hf_host *h, int64_t now) {
    bool may = h->queued > 0 && !h->waiting &&
               (h->max_in_flight == 0 || h->in_flight < h->max_in_flight);
    bool idle = h->queued == 0 && h->in_flight == 0;
    if (!idle) {
        hf_hosts_busy(&s->hosts, h);
    }
    if (may && !h->ready) {
        /* What is under way goes on before anything new begins. */
        hf_host_list_insert(&s->ready, h,
                            is_under_way(h->first) ? NULL : s->ready.last);
    } else if (!may && h->ready) {
        hf_host_list_remove(&s->ready, h);
    }
    h->ready = may;
    if (idle) {
        hf_hosts_idle(&s->hosts, h, now);
    }
}

/* Puts r behind `after`; NULL: to the front. What is under way goes before all that may
 * lack an exit, since it may be what holds it. */
static void enqueue(hf_host *h, hf_request *r, hf_request *after, bool eager) {
    h->eager = eager && h->eager == after ? r : h->eager;
    h->moving = is_under_way(r) && h->moving == after ? r : h->moving;
    r->prev = after;
    r->next = after != NULL ? after->next : h->first;
    if (r->next != NULL) {
        r->next->prev = r;
    } else {
        h->last = r;
    }
    if (r->prev != NULL) {
        r->prev->next = r;
    } else {
        h->first = r;
    }
    h->queued++;
}

static void dequeue(hf_host *h, hf_request *r) {
    h->eager = h->eager == r ? r->prev : h->eager;
    h->moving = h->moving == r ? r->prev : h->moving;
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        h->first = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        h->last = r->prev;
    }
    r->next = r->prev = NULL;
    h->queued--;
}

int hf_schedule_push(hf_schedule *s, hf_request *r, bool again, int64_t now) {
    const hf_url *url = hf_request_url(r);
    hf_host *h = hf_hosts_get(&s->hosts, url->hostport, url->hostport_len);
    if (h == NULL) {
        return HF_ENOMEM;
    }
    r->host = h;
    r->state = HF_R_QUEUED;
    hf_request *eager = is_under_way(r) ? h->moving : h->eager;
    enqueue(h, r, again ? eager : h->last, again);
    s->queued++;
    if (h->ready && is_under_way(h->first)) {
        hf_host_list_remove(&s->ready, h);
        h->ready = false;
    }
    settle(s, h, now);
    return 0;
}

static uint64_t next_random(hf_schedule *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void wait_until(hf_schedule *s, hf_host *h, int64_t until, int64_t now) {
    h->waiting = true;
    hf_heap_set(s->heap, &h->due, until);
    settle(s, h, now);
}

/* What has an identity of its own shares no names with the others. */
static bool may_ask(const hf_schedule *s, const hf_request *r) {
    return s->asks_names && !r->is_ticket && r->proxy.p == NULL &&
           r->session.p == NULL && r->impersonate.p == NULL &&
           r->http_version.p == NULL && r->next_proxy == NULL;
}

static void ask_name(hf_schedule *s, hf_host *h, hf_request *r, int64_t now) {
    r->asks = true;
    h->known_until = now + NAME_UNKNOWN;
    h->waiting = true;
    hf_heap_set(s->heap, &h->due, now + NAME_WAIT);
}

static hf_request *take(hf_schedule *s, hf_host *h) {
    hf_request *r = h->first;
    dequeue(h, r);
    s->queued--;
    /* To the end of the line, so that the hosts take turns. */
    hf_host_list_remove(&s->ready, h);
    h->ready = false;
    return r;
}

/* The next in line. A host that has never answered, with as many in flight as would
 * tell, may hang: it lets others go first, all but one turn of DOUBT_SHARE, so that
 * thousands of starts that lead nowhere do not stand before those that do. */
static hf_host *next_in_line(hf_schedule *s) {
    hf_host *h = s->ready.first;
    for (int i = 0; i < DOUBT_LOOKS && h != s->ready.last; i++) {
        bool doubtful = h->in_flight >= DOUBT && h->pace.last_ok == INT64_MIN;
        if (!doubtful || ++h->passed % DOUBT_SHARE == 0) {
            break;
        }
        hf_host_list_remove(&s->ready, h);
        hf_host_list_insert(&s->ready, h, s->ready.last);
        h = s->ready.first;
    }
    return h;
}

hf_request *hf_schedule_pop(hf_schedule *s, int64_t now, bool *refused) {
    hf_host *h;
    *refused = false;
    while ((h = next_in_line(s)) != NULL) {
        int64_t until;
        int answer = hf_pace_ask(&h->pace, now, &until);
        if (answer == HF_PACE_WAIT) {
            wait_until(s, h, until, now);
            continue;
        }
        hf_request *r = take(s, h);
        *refused = answer == HF_PACE_REFUSE;
        if (*refused) {
            r->host = NULL;
        } else {
            h->in_flight++;
            r->grant = hf_pace_start(&h->pace, r->n_attempts == 0, next_random(s), now);
            if (now >= h->known_until && may_ask(s, r)) {
                ask_name(s, h, r, now);
            }
        }
        settle(s, h, now);
        return r;
    }
    return NULL;
}

bool hf_schedule_again(hf_schedule *s, hf_request *r, const hf_pace_end *end,
                       int64_t now) {
    int64_t until;
    hf_pace *p = &r->host->pace;
    if (r->grant.probe || hf_pace_ask(p, now, &until) != HF_PACE_GO) {
        return false;
    }
    hf_pace_finish(p, r->grant, end, now);
    r->grant = hf_pace_start(p, r->n_attempts == 0, next_random(s), now);
    return true;
}

void hf_schedule_unpop(hf_schedule *s, hf_request *r, int64_t now) {
    hf_host *h = r->host;
    h->in_flight--;
    r->state = HF_R_QUEUED;
    if (r->asks) {
        r->asks = false;
        h->known_until = 0;
        h->waiting = false;
    }
    hf_pace_take_back(&h->pace, r->grant);
    enqueue(h, r, NULL, is_under_way(r) || r->n_attempts > 0);
    s->queued++;
    settle(s, h, now);
}

void hf_schedule_remove(hf_schedule *s, hf_request *r, int64_t now) {
    dequeue(r->host, r);
    s->queued--;
    settle(s, r->host, now);
    r->host = NULL;
}

void hf_schedule_landed(hf_schedule *s, hf_request *r, const hf_pace_end *end,
                        int64_t now) {
    hf_host *h = r->host;
    h->in_flight--;
    r->asks = false;
    hf_pace_finish(&h->pace, r->grant, end, now);
    h->waiting = false;
    settle(s, h, now);
    r->host = NULL;
}

void hf_schedule_named(hf_schedule *s, hf_request *r, bool known, int64_t now) {
    hf_host *h = r->host;
    r->asks = false;
    h->known_until = known ? now + NAME_KNOWN : h->known_until;
    h->waiting = false;
    hf_heap_remove(s->heap, &h->due);
    settle(s, h, now);
}

void hf_schedule_due(hf_schedule *s, hf_host *h) {
    h->waiting = false;
    settle(s, h, h->due.at);
}

hf_host *hf_schedule_host(hf_schedule *s, const char *key, uint32_t n, int64_t now) {
    hf_host *h = hf_hosts_get(&s->hosts, key, n);
    if (h != NULL) {
        settle(s, h, now);
    }
    return h;
}

hf_host *hf_schedule_guest(hf_schedule *s, const char *key, uint32_t n, int64_t now) {
    hf_host *h = hf_schedule_host(s, key, n, now);
    if (h != NULL) {
        h->pace.limits = NULL;
        h->max_in_flight = 0;
    }
    return h;
}

void hf_schedule_touch(hf_schedule *s, hf_host *h) {
    h->waiting = false;
    hf_heap_remove(s->heap, &h->due);
    settle(s, h, INT64_MIN);
}

hf_request *hf_schedule_any(hf_schedule *s) {
    if (s->queued == 0) {
        return NULL;
    }
    if (s->ready.first != NULL) {
        return s->ready.first->first;
    }
    hf_host *h = hf_hosts_queued(&s->hosts);
    return h != NULL ? h->first : NULL;
}
