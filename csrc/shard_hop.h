/* Redirects to other hosts: the request waits for its turn there as a new one does.
 *
 * It stays with its shard, where its cookies, deadlines and exit are. Where the host is
 * another shard's, a ticket stands in that one's queue in its place, and comes home
 * when it is granted or refused; once the host was asked, it goes back and ends its
 * flight. A ticket has one owner at a time, as all that travels by inboxes; `withdrawn`
 * alone is shared. It is freed by whoever finds that nobody waits for it.
 */
#ifndef HF_SHARD_HOP_H
#define HF_SHARD_HOP_H

#include "shard_parts.h"

typedef struct hf_ticket {
    hf_request stand_in;     /* what the host's shard queues: seq, url and grant */
    hf_shard *home;          /* of the request */
    hf_shard *owner;         /* of the host */
    hf_atomic_u32 withdrawn; /* 1: nobody waits at home; home sets it, owner reads it */
    bool granted;            /* the host counts one in flight */
    bool over;               /* on its way back, with `end` */
    int32_t refused;         /* HF_T_… that the request ends as instead */
    uint64_t host_requests;  /* first attempts to the host so far */
    hf_pace_end end;
    char key[]; /* host:port */
} hf_ticket;

/* Takes in a ticket that came by the inbox: to be queued, home again, or over. */
void hf_shard_ticket(hf_shard *s, hf_request *stand_in, int64_t now);

/* The ticket's turn has come; with refused (HF_T_…) it never will. */
void hf_shard_answer_ticket(hf_shard *s, hf_request *stand_in, int32_t refused,
                            int64_t now);

/* Gives up the ticket of a request whose host was asked, and came to `end`. */
void hf_shard_return_ticket(hf_request *r, const hf_pace_end *end);

/* Follows the redirect that r waits with: into a queue, here or by a ticket. */
void hf_shard_place(hf_shard *s, hf_request *r, int64_t now);

/* Ends the wait of a hop that never began: the attempt ends as the outcome says. */
void hf_shard_end_hop(hf_shard *s, hf_request *r, int64_t now);

/* Frees the tickets in queues. */
void hf_shard_free_tickets(hf_shard *s);

#endif
