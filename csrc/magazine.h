/* Small blocks that libcurl has freed, for its next allocations, a loop's own.
 *
 * A request takes libcurl some forty small allocations. With many transfers in flight
 * they come and go in bursts that glibc's thread cache, seven blocks of a size, cannot
 * take up; the rest goes through an arena and its lock. A magazine takes up the burst
 * (Bonwick and Adams, "Magazines and Vmem", 2001).
 *
 * Every block is malloc's own whatever became of it since: free() may have any, from
 * any thread, with a magazine or without. So libcurl may be shared with code that knows
 * nothing of this, and a thread without a magazine gets plain malloc and free.
 */
#ifndef HF_MAGAZINE_H
#define HF_MAGAZINE_H

#include <stddef.h>

#include "curlabi.h"

/* Bytes of the largest block that is kept, and of all that are kept of one size. */
#define HF_MAGAZINE_BLOCK ((size_t)1016)
#define HF_MAGAZINE_CLASS ((size_t)64 << 10)

/* curl_global_init with the functions below, where libcurl takes them: one that was set
 * up before, by whomever, keeps what it has. Thread: one at a time, as libcurl wants.
 * Returns libcurl's code.
 */
int hf_magazine_init_libcurl(const hf_curl *c);

/* Gives the calling thread a magazine until hf_magazine_close; without memory for it
 * the thread goes without. Not twice.
 */
void hf_magazine_open(void);

/* Frees what the thread has kept, and its magazine. */
void hf_magazine_close(void);

/* malloc, free, realloc, strdup and calloc, by way of the thread's magazine. */
void *hf_magazine_malloc(size_t n);
void hf_magazine_free(void *p);
void *hf_magazine_realloc(void *p, size_t n);
char *hf_magazine_strdup(const char *s);
void *hf_magazine_calloc(size_t count, size_t size);

/* Bytes that the calling thread has kept, for tests. */
size_t hf_magazine_kept(void);

#endif
