/* Lists of hosts, linked through the hosts: only schedule.c's. */
#ifndef HF_HOSTLIST_H
#define HF_HOSTLIST_H

#include "schedule.h"

/* Puts h behind `after`; NULL: to the front. */
static inline void list_insert(hf_host_list *l, hf_host *h, hf_host *after) {
    h->ready_prev = after;
    h->ready_next = after != NULL ? after->ready_next : l->first;
    *(h->ready_next != NULL ? &h->ready_next->ready_prev : &l->last) = h;
    *(after != NULL ? &after->ready_next : &l->first) = h;
}

static inline void list_remove(hf_host_list *l, hf_host *h) {
    if (h->ready_prev != NULL) {
        h->ready_prev->ready_next = h->ready_next;
    } else {
        l->first = h->ready_next;
    }
    if (h->ready_next != NULL) {
        h->ready_next->ready_prev = h->ready_prev;
    } else {
        l->last = h->ready_prev;
    }
    h->ready_next = h->ready_prev = NULL;
}

#endif
