/* What the kernel knows of a TCP connection that libcurl does not tell: whether it was
 * ever made, whether a byte came back, whether it still stands.
 *
 * Facts to classify an ending by, where libcurl has one code for several. Not here:
 * what they mean.
 */
#ifndef HF_TCPSTATE_H
#define HF_TCPSTATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hf_tcp_state {
    bool connected;   /* the handshake was completed, even if a reset came since */
    bool open;        /* neither side has ended it */
    bool unread;      /* bytes have come that nobody has read */
    int64_t received; /* bytes that surely came so far; -1 = the kernel doesn't say */
    int64_t quiet;    /* us since the last byte came; of use where received is */
} hf_tcp_state;

/* Looks at a TCP socket that is still open here; all false and -1 when it can't.
 * Thread: any.  Blocks: no.
 */
hf_tcp_state hf_tcp_look(int fd);

/* Whether bytes have come that nobody has read. Thread: any.  Blocks: no. */
bool hf_tcp_unread(int fd);

#endif
