#include "tcpstate.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* struct tcp_info of linux/tcp.h down to what is used here. glibc's netinet/tcp.h stops
 * short of it, and the kernel's own header is not installed everywhere. */
typedef struct kernel_tcp_info {
    uint8_t state;
    uint8_t small[7];
    uint32_t words[24];
    uint64_t pacing[2];
    uint64_t acked;    /* since Linux 4.1, as the next; our SYN is one of these */
    uint64_t received; /* the peer's FIN is one of these */
} kernel_tcp_info;

_Static_assert(offsetof(kernel_tcp_info, acked) == 120, "the layout is the kernel's");

/* States of include/net/tcp_states.h. */
enum { ESTABLISHED = 1, CLOSE_WAIT = 8, LAST_ACK = 9, CLOSING = 11 };
/* getsockopt's TCP_INFO, which netinet/tcp.h may hide. */
enum { TCP_INFO_OPTION = 11 };
/* Which of the words is tcpi_last_data_recv, in ms. */
enum { LAST_DATA_RECV = 11 };

bool hf_tcp_unread(int fd) {
    int n = 0;
    return ioctl(fd, FIONREAD, &n) == 0 && n > 0;
}

hf_tcp_state hf_tcp_look(int fd) {
    hf_tcp_state out = {.received = -1};
    kernel_tcp_info info = {0};
    socklen_t n = sizeof info;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO_OPTION, &info, &n) != 0) {
        return out;
    }
    bool counts = n >= sizeof info;
    out.open = info.state == ESTABLISHED;
    bool ended =
        info.state == CLOSE_WAIT || info.state == LAST_ACK || info.state == CLOSING;
    out.unread = hf_tcp_unread(fd);
    /* A reset leaves the state as if nothing had ever been; the count stays. */
    out.connected = out.open || ended || (counts && info.acked > 0);
    if (counts) {
        /* After a reset nobody knows whether a FIN had come before it. */
        int64_t fin = info.state != ESTABLISHED ? 1 : 0;
        int64_t came = (int64_t)info.received;
        out.received = came > fin ? came - fin : 0;
        out.quiet = (int64_t)info.words[LAST_DATA_RECV] * 1000;
    }
    return out;
}
