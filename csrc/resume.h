/* What an earlier output has answered, and whether the inputs are still the same.
 *
 * The output is the log: its records tell by `seq` which inputs need no fetch. That the
 * inputs are those of then is shown by their `input`. Both sides are reduced alike: for
 * every 64 numbers there is one mask of those answered, and the sum of a hash over
 * number and input of each. Sums that agree prove it but for one chance in 2^64, in 16
 * bytes for 64 records and in any order. Not here: files and formats, which are
 * Python's. The functions are in api.h; one thread at a time.
 */
#ifndef HF_RESUME_H
#define HF_RESUME_H

#include "err.h"
#include "hf.h"

/* Numbers from here on are no seq of any output: a damaged file must not eat memory. */
#define HF_RESUME_MOST ((uint64_t)1 << 32)

#endif
