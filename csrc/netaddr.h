/* Which addresses are public, and nets that are let through all the same.
 *
 * Invariant: an address is public only when it is globally reachable by IANA's special
 * registries (as of 2025), and so is the IPv4 address inside it, if it carries one. The
 * check is for the socket that is about to be connected, after all resolving. Not here:
 * names.
 */
#ifndef HF_NETADDR_H
#define HF_NETADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "err.h"

/* One net; IPv4 is kept as ::ffff:a.b.c.d with 96 more bits. */
typedef struct hf_net {
    uint8_t address[16];
    int bits; /* 0..128 */
} hf_net;

typedef struct hf_nets {
    hf_net *list; /* owned */
    size_t count;
} hf_nets;

/* Reads "10.0.0.0/8", "::1", … from a list that ends in NULL.
 * Owns: on success out is the caller's, who ends it with hf_nets_free; else it is
 * empty. Returns 0, HF_EINVAL naming the text and what to write, or HF_ENOMEM.
 */
int hf_nets_parse(const char *const *texts, hf_nets *out, hf_errbuf err);

/* Frees the list; an empty one is allowed. */
void hf_nets_free(hf_nets *nets);

/* True when the address may be connected to: it is public or lies in one of the allowed
 * nets (NULL: none). Other families than IPv4 and IPv6 never are.
 * Thread: any.  Blocks: no.
 */
bool hf_addr_public(const struct sockaddr *address, const hf_nets *allow);

#endif
