/* How much of a pool nobody needs at the moment.
 *
 * For pools that give what came last first: what stands at the bottom is needed at
 * peaks only. It is kept for a round, so that a demand that goes up and down costs
 * little, and freed if no peak came. Without that a pool holds for good what its
 * highest peak took, each piece grown to the largest use it ever had, and a long run
 * comes to that late. Plain data, the pool's.
 */
#ifndef HF_LULL_H
#define HF_LULL_H

#define HF_LULL_ROUND 256 /* pieces given back between two looks */

typedef struct hf_lull {
    int least; /* pieces that were spare all through this round */
    int round; /* pieces given back in it */
} hf_lull;

/* A piece was taken out; `left` are spare still. */
static inline void hf_lull_took(hf_lull *l, int left) {
    if (left < l->least) {
        l->least = left;
    }
}

/* A piece was put in, and n are spare now. Returns how many of them, from the bottom,
 * the pool has to free at once: 0 but at the end of a round. */
static inline int hf_lull_gave(hf_lull *l, int n) {
    if (++l->round < HF_LULL_ROUND) {
        return 0;
    }
    int unused = l->least;
    l->round = 0;
    l->least = n - unused;
    return unused;
}

#endif
