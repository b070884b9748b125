#include "lane.h"

#include <stdlib.h>
#include <string.h>

#include "loop.h"

/* Transfers after which one lets names age, whatever the time: so many at most are kept
 * beyond libcurl's own bound. */
#define AGE_STARTS 4096

/* --- libcurl's wishes --------------------------------------------------------------
 */

static uint32_t events_of(int what) {
    switch (what) {
    case CURL_POLL_IN:
        return EPOLLIN;
    case CURL_POLL_OUT:
        return EPOLLOUT;
    case CURL_POLL_INOUT:
        return EPOLLIN | EPOLLOUT;
    default:
        return 0;
    }
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *sockp) {
    hf_lane *lane = data;
    (void)easy;
    (void)sockp;
    if (!hf_heart_leave(&lane->loop->heart)) {
        return 0;
    }
    hf_poller_want(&lane->loop->poller, fd, events_of(what), lane);
    hf_heart_resume(&lane->loop->heart);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *data) {
    hf_lane *lane = data;
    hf_loop *l = lane->loop;
    (void)multi;
    if (!hf_heart_leave(&l->heart)) {
        return 0;
    }
    hf_heap_set(&l->timers, &lane->timer,
                ms < 0 ? HF_NEVER : l->now + (int64_t)ms * 1000);
    hf_heart_resume(&l->heart);
    return 0;
}

/* Connections that a lane keeps, those in use included. With one lane the whole crawl
 * goes through it; with several each has its share, and as much again for idle ones. */
static long connections(const hf_loop *l) {
    long all = l->settings->c.max_concurrency + 64L;
    return all < 2L * HF_LANE_WIDE ? all : 2L * HF_LANE_WIDE;
}

static void set_up(hf_lane *lane) {
    const hf_curl *c = lane->loop->curl;
    CURLM *m = lane->multi;
    c->curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_socket);
    c->curl_multi_setopt(m, CURLMOPT_SOCKETDATA, lane);
    c->curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_timer);
    c->curl_multi_setopt(m, CURLMOPT_TIMERDATA, lane);
    c->curl_multi_setopt(m, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    c->curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, connections(lane->loop));
    if (c->version >= 0x081400) {
        /* Numbers mean nothing to an older libcurl. */
        c->curl_multi_setopt(m, CURLMOPT_QUICK_EXIT, 1L);
    }
}

/* --- life --------------------------------------------------------------------------
 */

static int reserve(hf_identity *id) {
    if (id->n_lanes < id->cap_lanes) {
        return 0;
    }
    int32_t cap = id->cap_lanes == 0 ? 1 : id->cap_lanes * 2;
    hf_lane **lanes = realloc(id->lanes, (size_t)cap * sizeof *lanes);
    if (lanes == NULL) {
        return HF_ENOMEM;
    }
    id->lanes = lanes;
    id->cap_lanes = cap;
    return 0;
}

int hf_lane_new(hf_identity *id) {
    hf_loop *l = id->loop;
    hf_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL || reserve(id) != 0 ||
        hf_heap_reserve(&l->timers, l->n_lanes + 1) != 0) {
        free(lane);
        return HF_ENOMEM;
    }
    lane->identity = id;
    lane->loop = l;
    lane->timer = hf_due_make(0);
    lane->aged = l->now;
    lane->multi = l->curl->curl_multi_init();
    if (lane->multi == NULL) {
        free(lane);
        return HF_ENOMEM;
    }
    set_up(lane);
    lane->number = id->n_lanes;
    id->lanes[id->n_lanes++] = lane;
    l->n_lanes++;
    return 0;
}

void hf_lane_free(hf_lane *lane) {
    hf_loop *l = lane->loop;
    hf_heap_remove(&l->timers, &lane->timer);
    l->curl->curl_multi_cleanup(lane->multi);
    l->n_lanes--;
    free(lane);
}

/* --- choosing ----------------------------------------------------------------------
 */

static hf_lane *warm_lane(const hf_identity *id, hf_host *h) {
    while (h->n_warm > 0) {
        int32_t k = h->warm[--h->n_warm];
        /* A loop that took over has fewer lanes than the one before had. */
        if (k < id->n_lanes) {
            return id->lanes[k];
        }
    }
    return NULL;
}

/* The lane that is being filled, unless `most` are in it; else one that has emptied by
 * half, else a new one. */
static hf_lane *roomy_lane(hf_identity *id, int32_t most) {
    hf_lane *lane = id->lanes[id->filling];
    if (lane->busy < most) {
        return lane;
    }
    for (int32_t i = 0; i < id->n_lanes; i++) {
        if (id->lanes[i]->busy <= HF_LANE_SIZE / 2) {
            id->filling = i;
            return id->lanes[i];
        }
    }
    if (hf_lane_new(id) == 0) {
        id->filling = id->n_lanes - 1;
    }
    return id->lanes[id->filling];
}

hf_lane *hf_lane_choose(hf_identity *id, hf_host *h, bool tls) {
    /* Only the identity of plain requests is busy enough to need several, and hosts
     * remember lanes of that one only. */
    if (id != id->loop->plain) {
        return id->lanes[0];
    }
    int32_t most = tls && h->in_flight <= HF_LANE_FEW ? HF_LANE_WIDE : HF_LANE_SIZE;
    hf_lane *lane = warm_lane(id, h);
    if (lane == NULL && tls && h->home < id->n_lanes) {
        /* An HTTP/2 connection can take more streams. */
        hf_lane *home = id->lanes[h->home];
        lane = home->busy < most ? home : NULL;
    }
    if (lane == NULL) {
        lane = roomy_lane(id, most);
    }
    h->home = lane->number;
    return lane;
}

void hf_lane_age_names(hf_transfer *t) {
    hf_lane *lane = t->lane;
    int64_t now = lane->loop->now;
    bool ages = ++lane->starts >= AGE_STARTS || t->req->host->unnamed ||
                now - lane->aged >= (int64_t)HF_NAMES_SECONDS * 1000000;
    if (ages != t->names_age) {
        t->names_age = ages;
        lane->loop->curl->curl_easy_setopt(t->easy, CURLOPT_DNS_CACHE_TIMEOUT,
                                           ages ? (long)HF_NAMES_SECONDS : -1L);
    }
}

void hf_lane_warm(hf_lane *lane, hf_host *h) {
    if (lane->identity != lane->loop->plain) {
        return;
    }
    if (h->n_warm == h->cap_warm) {
        int32_t cap = h->cap_warm == 0 ? 8 : h->cap_warm * 2;
        int32_t *warm = realloc(h->warm, (size_t)cap * sizeof *warm);
        if (warm == NULL) {
            return; /* a hint less */
        }
        h->warm = warm;
        h->cap_warm = cap;
    }
    h->warm[h->n_warm++] = lane->number;
}
