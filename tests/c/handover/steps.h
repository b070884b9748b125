/* Atomics for the explorer of states: each is one step, between any two of which any
 * other thread may go on.
 *
 * Sources built with HF_EXPLORE and this file in front (-include) take the place of
 * csrc/atomics.h's operations. The types keep their size, so that objects built without
 * it can be linked as well. Steps are sequentially consistent: what weaker orders allow
 * is tried by the other explorer (explore/explore.h).
 */
#ifndef HF_STEPS_H
#define HF_STEPS_H

#include <stdint.h>

typedef uint64_t hf_atomic_u64;
typedef uint32_t hf_atomic_u32;

/* Stops in front of a step on what stands at `at` until the scheduler picks this
 * thread. Returns at once outside exploration. */
void st_step(const volatile void *at, const char *what, const char *func, int line);

#define HF_STEP(p, what) st_step((p), what " " #p, __func__, __LINE__)

#define hf_init(p, v) ((void)(*(p) = (v)))
#define hf_load(p, order)   \
    __extension__({         \
        HF_STEP(p, "load"); \
        *(p);               \
    })
/* Arguments are worked out in front of the step, as a processor may do. */
#define hf_store(p, v, order)           \
    __extension__({                     \
        __typeof__(*(p)) hf_new_ = (v); \
        HF_STEP(p, "store");            \
        *(p) = hf_new_;                 \
        (void)0;                        \
    })
#define hf_xchg(p, v, order)                     \
    __extension__({                              \
        __typeof__(*(p)) hf_new_ = (v), hf_old_; \
        HF_STEP(p, "xchg");                      \
        hf_old_ = *(p);                          \
        *(p) = hf_new_;                          \
        hf_old_;                                 \
    })
#define hf_add(p, v, order)                            \
    __extension__({                                    \
        __typeof__(*(p)) hf_more_ = (v), hf_old_;      \
        HF_STEP(p, "add");                             \
        hf_old_ = *(p);                                \
        *(p) = (__typeof__(*(p)))(hf_old_ + hf_more_); \
        hf_old_;                                       \
    })
#define hf_cas(p, expected, v, order, failed) \
    __extension__({                           \
        __typeof__(*(p)) hf_new_ = (v);       \
        int hf_same_;                         \
        HF_STEP(p, "cas");                    \
        hf_same_ = *(p) == *(expected);       \
        if (hf_same_)                         \
            *(p) = hf_new_;                   \
        else                                  \
            *(expected) = *(p);               \
        hf_same_;                             \
    })
#define hf_put(shared, from, n) memcpy((shared), (from), (n))
#define hf_get(to, shared, n) memcpy((to), (shared), (n))

#endif
