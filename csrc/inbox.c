#include "inbox.h"

#include <stdlib.h>
#include <string.h>

void hf_inbox_init(hf_inbox *in) {
    memset(in, 0, sizeof *in);
    in->posted.stop_at = HF_NEVER;
    pthread_mutex_init(&in->lock, NULL);
}

void hf_posted_free(hf_posted *p) {
    hf_request *r;
    while ((r = hf_requests_take(&p->submitted)) != NULL) {
        hf_request_free(r);
    }
    free(p->verdicts);
    free(p->orders);
    free(p->cancels);
    memset(p, 0, sizeof *p);
}

void hf_inbox_free(hf_inbox *in) {
    hf_posted_free(&in->posted);
    pthread_mutex_destroy(&in->lock);
}

static int reserve(void **array, int32_t *cap, int32_t need, size_t size) {
    if (need <= *cap) {
        return 0;
    }
    int32_t n = *cap < 16 ? 16 : *cap;
    while (n < need) {
        n *= 2;
    }
    void *p = realloc(*array, (size_t)n * size);
    if (p == NULL) {
        return HF_ENOMEM;
    }
    *array = p;
    *cap = n;
    return 0;
}

/* Appends n elements to one of the arrays. */
static int append(hf_inbox *in, void **array, int32_t *used, int32_t *cap,
                  const void *from, int32_t n, size_t size) {
    pthread_mutex_lock(&in->lock);
    int rc = reserve(array, cap, *used + n, size);
    if (rc == 0) {
        memcpy((char *)*array + (size_t)*used * size, from, (size_t)n * size);
        *used += n;
    }
    pthread_mutex_unlock(&in->lock);
    return rc;
}

void hf_inbox_submit(hf_inbox *in, hf_requests *list) {
    pthread_mutex_lock(&in->lock);
    hf_requests_join(&in->posted.submitted, list);
    pthread_mutex_unlock(&in->lock);
}

int hf_inbox_verdicts(hf_inbox *in, const hf_verdict *v, int32_t n) {
    hf_posted *p = &in->posted;
    return append(in, (void **)&p->verdicts, &p->n_verdicts, &in->cap_verdicts, v, n,
                  sizeof *v);
}

int hf_inbox_order(hf_inbox *in, const hf_order *order) {
    hf_posted *p = &in->posted;
    return append(in, (void **)&p->orders, &p->n_orders, &in->cap_orders, order, 1,
                  sizeof *order);
}

int hf_inbox_cancel(hf_inbox *in, uint64_t seq) {
    hf_posted *p = &in->posted;
    return append(in, (void **)&p->cancels, &p->n_cancels, &in->cap_cancels, &seq, 1,
                  sizeof seq);
}

void hf_inbox_stop(hf_inbox *in, int64_t stop_at) {
    pthread_mutex_lock(&in->lock);
    if (stop_at < in->posted.stop_at) {
        in->posted.stop_at = stop_at;
    }
    pthread_mutex_unlock(&in->lock);
}

int64_t hf_inbox_stop_at(hf_inbox *in) {
    pthread_mutex_lock(&in->lock);
    int64_t at = in->posted.stop_at;
    pthread_mutex_unlock(&in->lock);
    return at;
}

void hf_inbox_take(hf_inbox *in, hf_posted *out) {
    pthread_mutex_lock(&in->lock);
    *out = in->posted;
    memset(&in->posted, 0, sizeof in->posted);
    in->posted.stop_at = out->stop_at;
    in->cap_verdicts = in->cap_orders = in->cap_cancels = 0;
    pthread_mutex_unlock(&in->lock);
}

bool hf_inbox_waits(hf_inbox *in, int64_t stop_at) {
    pthread_mutex_lock(&in->lock);
    const hf_posted *p = &in->posted;
    bool waits = p->submitted.first != NULL || p->n_verdicts > 0 || p->n_orders > 0 ||
                 p->n_cancels > 0 || p->stop_at < stop_at;
    pthread_mutex_unlock(&in->lock);
    return waits;
}
