/* Any lines as response heads, one attempt after another: what is kept of them stays
 * inside the head, and no interim or half head is an answer. Lines end as libcurl hands
 * them over: with a line feed, the last one maybe without.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Icsrc \
 *         tests/fuzz/fuzz_head.c csrc/response.c csrc/buf.c csrc/url*.c …
 */
#include <stdlib.h>
#include <string.h>

#include "response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds) {
    if (!holds)
        abort();
}

static void inside(const hf_response *r, hf_range range) {
    require((size_t)range.at + range.len <= r->head.len);
}

static void look(const hf_response *r) {
    inside(r, r->location);
    inside(r, r->content_type);
    require(r->status == 0 || (r->status >= 200 && r->status <= 999));
    require(!r->head_done || (r->status != 0 && !r->interim));
    require(!hf_response_redirects(r) || r->has_location);
    size_t pos = 0;
    hf_field f;
    const uint8_t *end = r->head.data + r->head.len;
    while (hf_response_next(r, &pos, &f)) {
        require(f.name >= r->head.data && f.name + f.name_len <= end);
        require(f.value >= r->head.data && f.value + f.value_len <= end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hf_response r;
    hf_response_init(&r, 4096, 4096);
    while (size > 0) {
        const uint8_t *nl = memchr(data, '\n', size);
        size_t n = nl != NULL ? (size_t)(nl - data) + 1 : size;
        /* A copy of its own, so that reading past a line is seen. */
        uint8_t *line = malloc(n);
        require(line != NULL);
        memcpy(line, data, n);
        int rc = hf_response_header(&r, line, n);
        free(line);
        look(&r);
        if (rc == HF_EFULL) {
            hf_response_reset(&r, 0);
        } else {
            require(rc == 0);
        }
        if (r.head_done && hf_response_redirects(&r)) {
            require(hf_response_hop(&r, "http://a/", true, r.head.data + r.location.at,
                                    r.location.len) == 0);
            hf_response_new_hop(&r);
        }
        data += n;
        size -= n;
    }
    hf_response_free(&r);
    return 0;
}
