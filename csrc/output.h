/* The consumer's side: records out of the rings, to a descriptor or into memory.
 *
 * Whole records of one ring at a time: what was seen as published is taken to its end
 * before another ring gets its turn, so no line is ever torn by one of another loop.
 */
#ifndef HF_OUTPUT_H
#define HF_OUTPUT_H

#include <sys/types.h>

#include "shard.h"

typedef struct hf_output {
    hf_shared *shared;
    hf_ring **rings; /* owned array, one per shard */
    int n;
    int current;   /* ring whose segment is being taken */
    size_t left;   /* bytes of that segment still to take */
    size_t viewed; /* bytes that the last hf_output_view gave */
    hf_buf joined; /* a frame that the end of its ring cuts in two */
    int again;     /* a pipe opened once more, -1 = none */
    dev_t again_dev;
    ino_t again_ino;
    hf_stat drained;
    hf_atomic_u32 interrupted;
    const hf_atomic_u32 *finished; /* the engine's: no more input */
} hf_output;

int hf_output_init(hf_output *o, hf_shared *shared, const hf_atomic_u32 *finished);
void hf_output_free(hf_output *o);

/* As hf_engine_drain, hf_engine_read and hf_engine_view. The last one is not mixed with
 * the others. */
int64_t hf_output_drain(hf_output *o, int fd, int64_t timeout, hf_errbuf err);
int64_t hf_output_read(hf_output *o, uint8_t *buf, size_t cap, int64_t timeout);
int64_t hf_output_view(hf_output *o, const uint8_t **data, int64_t timeout);

/* 1 when something can be read at once or the end has come; else the wake is armed. */
int hf_output_arm(hf_output *o);

#endif
