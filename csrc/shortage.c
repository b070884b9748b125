#include "shortage.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "err.h"

/* us that a request waits at first, and at most. */
#define WAIT_FIRST 50000
#define WAIT_MOST 1600000
/* us after which the cap doubles. */
#define EASE_AFTER 250000
/* us without a single success after which waiting is no use. */
#define BARREN_MOST 15000000
/* us that one request waits at most: a port rests for 60 s in TIME_WAIT. */
#define PATIENCE 90000000

void hf_shortage_init(hf_shortage *s) {
    *s = (hf_shortage){.cap = UINT64_MAX};
}

bool hf_shortage_is(int type) {
    return type == HF_T_TOO_MANY_OPEN_FILES || type == HF_T_LOCAL_PORT_EXHAUSTED;
}

bool hf_shortage_of_descriptors(void) {
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return false;
    }
    return errno == EMFILE || errno == ENFILE;
}

static void lower(hf_shortage *s, uint64_t in_flight, int64_t now) {
    uint64_t fits = in_flight > 0 ? in_flight : 1;
    if (fits < s->cap) {
        s->cap = fits;
    }
    s->moved = now;
    s->since = s->since == 0 ? now : s->since;
}

int64_t hf_shortage_meet(hf_shortage *s, hf_put_off *r, uint64_t in_flight,
                         int64_t now) {
    lower(s, in_flight, now);
    r->since = r->since == 0 ? now : r->since;
    /* What is in flight holds some of what is wanted, and will let go of it. */
    bool barren = in_flight == 0 && now - s->since >= BARREN_MOST;
    if (barren || now - r->since >= PATIENCE) {
        return -1;
    }
    int64_t wait = (int64_t)WAIT_FIRST << (r->n < 5 ? r->n : 5);
    r->n++;
    return wait < WAIT_MOST ? wait : WAIT_MOST;
}

void hf_shortage_pass(hf_shortage *s, int64_t now) {
    s->since = 0;
    if (s->cap == UINT64_MAX || now - s->moved < EASE_AFTER) {
        return;
    }
    s->cap = s->cap > INT32_MAX ? UINT64_MAX : s->cap * 2;
    s->moved = now;
}
