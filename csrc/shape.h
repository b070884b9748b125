/* The options of one hop: URL, method, headers, body, limits. Everything else is set
 * once per handle (identity.c).
 */
#ifndef HF_SHAPE_H
#define HF_SHAPE_H

#include "transfer.h"

/* Sets them. Returns 0, HF_ENOMEM or HF_ELIB. */
int hf_shape_hop(hf_transfer *t);

/* Undoes what the next request must not inherit. */
void hf_shape_clear(hf_transfer *t);

/* The method of the running hop. */
hf_slice hf_shape_method(const hf_transfer *t);

#endif
