#include "requests.h"

#include <stdlib.h>

#define FIRST_SIZE 1024

void hf_requests_append(hf_requests *l, hf_request *r) {
    r->next = NULL;
    r->prev = l->last;
    if (l->last != NULL) {
        l->last->next = r;
    } else {
        l->first = r;
    }
    l->last = r;
    l->n++;
}

void hf_requests_remove(hf_requests *l, hf_request *r) {
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        l->first = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        l->last = r->prev;
    }
    r->next = r->prev = NULL;
    l->n--;
}

hf_request *hf_requests_take(hf_requests *l) {
    hf_request *r = l->first;
    if (r != NULL) {
        hf_requests_remove(l, r);
    }
    return r;
}

void hf_requests_join(hf_requests *to, hf_requests *from) {
    if (from->first == NULL) {
        return;
    }
    if (to->last != NULL) {
        to->last->next = from->first;
        from->first->prev = to->last;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    to->n += from->n;
    *from = (hf_requests){NULL, NULL, 0};
}

int hf_held_init(hf_held *h) {
    *h = (hf_held){calloc(FIRST_SIZE, sizeof(hf_request *)), 0, 0};
    h->size = h->at != NULL ? FIRST_SIZE : 0;
    return h->at != NULL ? 0 : HF_ENOMEM;
}

void hf_held_free(hf_held *h) {
    free(h->at);
    *h = (hf_held){NULL, 0, 0};
}

static void grow(hf_held *h) {
    uint32_t n = h->size * 2;
    hf_request **table = calloc(n, sizeof(hf_request *));
    if (table == NULL) {
        return; /* longer chains, nothing worse */
    }
    for (uint32_t i = 0; i < h->size; i++) {
        while (h->at[i] != NULL) {
            hf_request *r = h->at[i];
            h->at[i] = r->same;
            r->same = table[r->seq & (n - 1)];
            table[r->seq & (n - 1)] = r;
        }
    }
    free(h->at);
    h->at = table;
    h->size = n;
}

void hf_held_add(hf_held *h, hf_request *r) {
    if (h->n >= h->size) {
        grow(h);
    }
    hf_request **bucket = &h->at[r->seq & (h->size - 1)];
    r->same = *bucket;
    *bucket = r;
    h->n++;
}

hf_request *hf_held_find(const hf_held *h, uint64_t seq) {
    hf_request *r = h->at[seq & (h->size - 1)];
    while (r != NULL && r->seq != seq) {
        r = r->same;
    }
    return r;
}

void hf_held_remove(hf_held *h, hf_request *r) {
    hf_request **at = &h->at[r->seq & (h->size - 1)];
    while (*at != NULL && *at != r) {
        at = &(*at)->same;
    }
    if (*at == r) {
        *at = r->same;
        h->n--;
    }
}
