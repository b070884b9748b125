/* The parts of a transfer among themselves: its life and bodies in transfer.c, the way
 * to a connection in connect.c. The loop's thread only. */
#ifndef HF_TRANSFER_PARTS_H
#define HF_TRANSFER_PARTS_H

#include "transfer.h"

/* Around each callback: once the shard was taken away, it touches nothing. */
#define ENTER(t, lost)                                      \
    do {                                                    \
        if (!hf_heart_leave(&(t)->identity->loop->heart)) { \
            return lost;                                    \
        }                                                   \
    } while (0)
#define LEAVE(t) hf_heart_resume(&(t)->identity->loop->heart)

/* Moves the due time forward when a new limit is sooner than the one in the heap. Later
 * ones wait until the heap's comes up: that is rare, and this is each request. */
void hf_transfer_tighten(hf_transfer *t);

/* Whether bytes on its connection are TLS records and not the exchange itself. */
bool hf_transfer_encrypted(const hf_transfer *t);

/* Looks whether the response has gone on although libcurl has shown nothing of it: half
 * a line, half a TLS record. That counts as its last byte. */
void hf_transfer_listen(hf_transfer *t);

/* Keeps what a proxy that has just refused CONNECT says of trying again. */
void hf_transfer_note_refusal(hf_transfer *t);

/* Sets the callbacks of connect.c. */
void hf_connect_set_callbacks(hf_transfer *t);

#endif
