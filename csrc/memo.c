#include "memo.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, SETS = HF_MEMO_ENTRIES / WAYS };

void hf_memo_free(hf_memo *m) {
    free(m->entries);
    m->entries = NULL;
}

/* A caller may have set its lowest bits. */
static hf_memo_entry *set_of(const hf_memo *m, uint64_t key) {
    return m->entries + ((key ^ key >> 32) % SETS) * WAYS;
}

int32_t hf_memo_get(const hf_memo *m, uint64_t key, int64_t now) {
    if (m->entries == NULL) {
        return -1;
    }
    const hf_memo_entry *set = set_of(m, key);
    for (int i = 0; i < WAYS; i++) {
        if (set[i].key == key && set[i].until > now) {
            return set[i].value;
        }
    }
    return -1;
}

void hf_memo_put(hf_memo *m, uint64_t key, int32_t value, int64_t until, int64_t now) {
    if (m->entries == NULL) {
        if (until <= now) {
            return;
        }
        m->entries = calloc(HF_MEMO_ENTRIES, sizeof *m->entries);
        if (m->entries == NULL) {
            return;
        }
    }
    hf_memo_entry *set = set_of(m, key);
    hf_memo_entry *place = &set[0];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].key == key) {
            place = &set[i];
            break;
        }
        place = set[i].until < place->until ? &set[i] : place;
    }
    if (place->key == key || until > now) {
        *place = (hf_memo_entry){.key = key, .until = until, .value = value};
    }
}

/* Each bit of the result comes of all: the last step of MurmurHash3, 64 bits. */
static uint64_t spread(uint64_t h) {
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

uint64_t hf_memo_hash(uint64_t seed, const void *p, size_t n) {
    const uint8_t *at = p;
    uint64_t h = seed;
    for (; n >= sizeof h; n -= sizeof h, at += sizeof h) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 by the golden ratio */
        h ^= h >> 32;
    }
    for (; n > 0; n--, at++) {
        h = (h ^ *at) * 1099511628211u;
    }
    return spread(h);
}
