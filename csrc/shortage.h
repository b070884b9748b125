/* Want of descriptors or local ports: an attempt that fails of it is put off, not lost.
 *
 * The cause is this machine and mostly this very process, so each shortage also lowers
 * how many of its shard's requests may be in flight; while none occurs that doubles
 * again. The request comes back after a moment, longer each time. Only where nothing
 * goes at all for long, or one request has waited for long, is it the last word.
 */
#ifndef HF_SHORTAGE_H
#define HF_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hf_shortage {
    uint64_t cap;  /* requests in flight at most; UINT64_MAX = as many as asked for */
    int64_t since; /* us: nothing has gone well since; 0 = all is well */
    int64_t moved; /* us: when cap was changed last */
} hf_shortage;

/* How often one request was put off, and since when. */
typedef struct hf_put_off {
    int64_t since; /* us; 0 = never */
    int32_t n;
} hf_put_off;

void hf_shortage_init(hf_shortage *s);

/* Whether an outcome of this type (HF_T_…) is one. */
bool hf_shortage_is(int type);

/* Whether this process can open no descriptor just now. */
bool hf_shortage_of_descriptors(void);

/* Notes one, with `in_flight` requests still under way. Returns how long the request
 * waits (us), or -1 when the shortage is its outcome. */
int64_t hf_shortage_meet(hf_shortage *s, hf_put_off *r, uint64_t in_flight,
                         int64_t now);

/* Notes an attempt that ended otherwise. */
void hf_shortage_pass(hf_shortage *s, int64_t now);

#endif
