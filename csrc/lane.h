/* A lane: one multi of an identity, with a bounded number of transfers in it.
 *
 * To start a transfer libcurl looks through all connections to the same host that its
 * multi has, one after the other; with thousands in flight to one host that look is
 * most of the work. So an identity has as many multis as it needs to keep each short,
 * and a host remembers in which of them it has left connections idle.
 */
#ifndef HF_LANE_H
#define HF_LANE_H

#include "deadline.h"
#include "schedule.h"

struct hf_identity;
struct hf_loop;
struct hf_transfer;

/* Transfers in one lane, as long as others can be had: HF_LANE_SIZE, or with TLS to a
 * host that has no more than HF_LANE_FEW in flight HF_LANE_WIDE. Such hosts are not in
 * each other's way, and a multi that speaks TLS parses all CA certificates for itself:
 * some 3 ms of CPU. */
enum { HF_LANE_SIZE = 32, HF_LANE_WIDE = 128, HF_LANE_FEW = 8 };

/* How long a name's answer is used. It may be twice that when nobody looks. */
enum { HF_NAMES_SECONDS = 60 };

typedef struct hf_lane {
    struct hf_identity *identity;
    struct hf_loop *loop;
    CURLM *multi;
    hf_due timer;     /* libcurl's, in the loop's timer heap */
    int32_t busy;     /* transfers in the multi */
    int32_t number;   /* in its identity's array */
    uint32_t actions; /* calls of curl_multi_socket_action so far */
    uint32_t starts;  /* transfers since names were last aged */
    int64_t aged;     /* us, when a transfer that did so ended */
    bool touched;     /* in the loop's list of multis to drain */
    struct hf_lane *touched_next;
} hf_lane;

/* Adds a lane to the identity. Returns 0 or HF_ENOMEM. */
int hf_lane_new(struct hf_identity *id);

/* Frees a lane, whose transfers must be out of it. */
void hf_lane_free(hf_lane *lane);

/* The lane for the next transfer to host: one where it has an idle connection, else one
 * that has room. Never NULL: an identity has a lane at least. */
hf_lane *hf_lane_choose(struct hf_identity *id, hf_host *host, bool tls);

/* Decides whether names age with the transfer that is about to start in its lane.
 *
 * At the end of each transfer libcurl looks through all names it keeps for some that
 * have become too old: with thousands of hosts that is most of the work. A transfer for
 * which names never age is spared that. So names age only with those to a host whose
 * name has not resolved, and, every minute, with all until the first of them ends. */
void hf_lane_age_names(struct hf_transfer *t);

/* Notes that a transfer to host has left its connection idle in the lane. */
void hf_lane_warm(hf_lane *lane, hf_host *host);

#endif
