/* Host names and addresses as they go to the resolver: ASCII, lower case, checked.
 *
 * Invariant: an accepted host is a name of at most 253 bytes with labels of 1 to 63, or
 * an IPv4 address in dotted decimals, or an IPv6 address in brackets (its zone behind
 * "%25"). Not here: resolving, and what may be connected to.
 */
#ifndef HF_HOSTNAME_H
#define HF_HOSTNAME_H

#include <stddef.h>
#include <stdint.h>

#include "curlabi.h"
#include "err.h"

enum {
    HF_HOST_CAP = 320
}; /* bytes: the longest host, a trailing dot, the terminator */

/* Normalises a host as it stands in a URL: IDN becomes punycode, percent escapes are
 * decoded, odd IPv4 spellings (127.1, 0x7f.1, 2130706433) become dotted decimals.
 * Thread: any.  Blocks: no.
 * Returns the length written to out (terminated), or HF_EINVAL with a reason in err
 * that reads behind "the host ...", or HF_ENOMEM.
 */
int hf_hostname_normalise(const hf_curl *c, const uint8_t *in, size_t n,
                          char out[HF_HOST_CAP], hf_errbuf err);

/* Length of the host at the start of in when it is in its normal form but for upper
 * case, so that nothing needs asking; 0 otherwise. It ends at n or at a byte that no
 * name holds. IPv6 never takes this way. */
size_t hf_hostname_plain(const uint8_t *in, size_t n);

#endif
