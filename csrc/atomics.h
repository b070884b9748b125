/* Every atomic operation and every access to memory that two threads share.
 *
 * One spelling for three builds: native, ThreadSanitizer, and the exhaustive explorer
 * (HF_EXPLORE), which takes each operation as a scheduling point and lets a load read
 * whatever C11 allows. So no module may use <stdatomic.h> or fences on its own: what
 * does not pass through here is not proved. Fences are left out on purpose, since
 * ThreadSanitizer does not model them.
 */
#ifndef HF_ATOMICS_H
#define HF_ATOMICS_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define HF_RELAXED memory_order_relaxed
#define HF_ACQUIRE memory_order_acquire
#define HF_RELEASE memory_order_release
#define HF_ACQ_REL memory_order_acq_rel
#define HF_SEQ_CST memory_order_seq_cst

#ifndef HF_EXPLORE /* with it, tests/c/explore/explore.h was included before */

typedef _Atomic(uint64_t) hf_atomic_u64;
typedef _Atomic(uint32_t) hf_atomic_u32;

#define hf_init(p, v) atomic_init((p), (v))
#define hf_load(p, order) atomic_load_explicit((p), (order))
#define hf_store(p, v, order) atomic_store_explicit((p), (v), (order))
#define hf_xchg(p, v, order) atomic_exchange_explicit((p), (v), (order))
#define hf_add(p, v, order) atomic_fetch_add_explicit((p), (v), (order))
#define hf_cas(p, expected, v, order, order_failed)                        \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), (order), \
                                            (order_failed))

/* Plain copies into and out of shared memory: the explorer checks each for races. */
#define hf_put(shared, from, n) memcpy((shared), (from), (n))
#define hf_get(to, shared, n) memcpy((to), (shared), (n))

#endif

/* Counters for statistics: one thread writes, any thread reads, nothing follows from
 * the value. Not a scheduling point of the explorer.
 */
typedef _Atomic(uint64_t) hf_stat;

static inline void hf_stat_add(hf_stat *s, uint64_t n) {
    uint64_t now = atomic_load_explicit(s, memory_order_relaxed);
    atomic_store_explicit(s, now + n, memory_order_relaxed);
}

static inline uint64_t hf_stat_read(const hf_stat *s) {
    return atomic_load_explicit(s, memory_order_relaxed);
}

#endif
