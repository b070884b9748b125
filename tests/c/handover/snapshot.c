/* States as images of memory, and as hashes. */
#include "explorer.h"

extern char __data_start[], _end[];

/* Static data, then what each thread has allocated. */
static int plain_areas(area out[AREAS]) {
    int n = 0;
    out[n++] = (area){(uint8_t *)__data_start, (uint8_t *)_end};
    for (int i = 0; i < ST_THREADS; i++, n++)
        st_memory(i, &out[n].start, &out[n].end);
    return n;
}

static int stack_areas(area out[AREAS]) {
    int n = 0;
    for (int i = 1; i < ST_THREADS; i++)
        if (threads[i].used && !threads[i].ended)
            out[n++] = (area){threads[i].sp, ex->stacks + (size_t)(i + 1) * STACK};
    return n;
}

static void image_room(size_t n) {
    if (n > ex->cap_image) {
        ex->cap_image = 2 * n;
        ex->image = realloc(ex->image, ex->cap_image);
    }
}

/* An image: blocks that differ from the first state, each behind its place, an end
 * mark, and the live stacks. Written to ex->image; returns its bytes. */
size_t st_take_image(void) {
    area a[AREAS], st[AREAS];
    int n = plain_areas(a), ns = stack_areas(st);
    size_t used = 0, most = 8;
    for (int i = 0; i < n; i++)
        most += ((size_t)(a[i].end - a[i].start) / BLOCK + 1) * (BLOCK + 8);
    for (int i = 0; i < ns; i++)
        most += (size_t)(st[i].end - st[i].start);
    image_room(most);
    for (int i = 0; i < n; i++) {
        const uint8_t *first = ex->first + (size_t)i * AREA_MOST;
        size_t len = (size_t)(a[i].end - a[i].start);
        for (size_t at = 0; at < len; at += BLOCK) {
            size_t piece = len - at < BLOCK ? len - at : BLOCK;
            if (memcmp(a[i].start + at, first + at, piece) == 0)
                continue;
            uint64_t place = (uint64_t)i << 32 | at;
            memcpy(ex->image + used, &place, 8);
            memset(ex->image + used + 8, 0, BLOCK);
            memcpy(ex->image + used + 8, a[i].start + at, piece);
            used += 8 + BLOCK;
        }
    }
    memset(ex->image + used, 0xff, 8);
    used += 8;
    for (int i = 0; i < ns; i++) {
        size_t len = (size_t)(st[i].end - st[i].start);
        memcpy(ex->image + used, st[i].start, len);
        used += len;
    }
    return used;
}

/* Brings the state of an image back. The static data first: they tell how far the
 * other areas go. */
void st_restore(const uint8_t *image) {
    area a[AREAS], st[AREAS];
    int n = 1;
    plain_areas(a);
    for (int i = 0; i < n; i++) {
        size_t len = (size_t)(a[i].end - a[i].start);
        memcpy(a[i].start, ex->first + (size_t)i * AREA_MOST, len);
        uint64_t place;
        for (memcpy(&place, image, 8); place >> 32 == (uint64_t)i;
             memcpy(&place, image, 8)) {
            size_t at = (uint32_t)place;
            memcpy(a[i].start + at, image + 8, len - at < BLOCK ? len - at : BLOCK);
            image += 8 + BLOCK;
        }
        if (i == 0)
            n = plain_areas(a);
    }
    image += 8;
    int ns = stack_areas(st);
    for (int i = 0; i < ns; i++) {
        memcpy(st[i].start, image, (size_t)(st[i].end - st[i].start));
        image += st[i].end - st[i].start;
    }
}

void st_keep_first(void) {
    area a[AREAS];
    int n = plain_areas(a);
    for (int i = 0; i < n; i++) {
        size_t len = (size_t)(a[i].end - a[i].start);
        memcpy(ex->first + (size_t)i * AREA_MOST, a[i].start, len);
        memset(ex->first + (size_t)i * AREA_MOST + len, 0, AREA_MOST - len);
    }
}

/* 128 bits of what h holds and n bytes, filled up with zeros to the next 32 of
 * them. */
static void mix(uint64_t h[2], const uint8_t *p, size_t n) {
    uint8_t rest[32] = {0};
    uint64_t w[4];
    uint64_t a = h[0], b = h[1], c = ~h[0], d = ~h[1];
    memcpy(rest, p + n / 32 * 32, n % 32);
    for (size_t at = 0; at < n; at += 32) {
        memcpy(w, n - at < 32 ? rest : p + at, 32);
        a = (a ^ w[0]) * 0x9e3779b97f4a7c15u;
        b = (b ^ w[1]) * 0xc2b2ae3d27d4eb4fu;
        c = (c ^ w[2]) * 0xd6e8feb86659fd93u;
        d = (d ^ w[3]) * 0xff51afd7ed558ccdu;
        a ^= a >> 31;
        b ^= b >> 29;
        c ^= c >> 32;
        d ^= d >> 30;
    }
    __uint128_t m = (__uint128_t)(a ^ c << 1) * 0xa0761d6478bd642fu;
    h[0] = (uint64_t)m ^ (uint64_t)(m >> 64) ^ b;
    m = (__uint128_t)(b ^ (d + 0x9fb21c651e98df25u)) * 0xe7037ed1a0b428dbu;
    h[1] = (uint64_t)m ^ (uint64_t)(m >> 64) ^ c ^ a >> 7;
}

/* A thread's stack changes while it runs and then only. */
void st_hash_stack(thread *t, int number) {
    const uint8_t *end = ex->stacks + (size_t)(number + 1) * STACK;
    t->stack[0] = t->stack[1] = 0;
    if (!t->ended)
        mix(t->stack, t->sp, (size_t)(end - t->sp));
}

void st_hash(uint64_t h[2]) {
    area a[AREAS];
    int n = plain_areas(a);
    h[0] = h[1] = 0;
    for (int i = 0; i < n; i++) {
        const uint8_t *first = ex->first + (size_t)i * AREA_MOST;
        size_t len = (size_t)(a[i].end - a[i].start);
        for (size_t at = 0; at < len; at += BLOCK) {
            size_t piece = len - at < BLOCK ? len - at : BLOCK;
            if (memcmp(a[i].start + at, first + at, piece) == 0)
                continue;
            h[0] ^= (uint64_t)i << 32 | at;
            mix(h, a[i].start + at, piece);
        }
    }
}

void st_keep_before(void) {
    memcpy(ex->before, __data_start, (size_t)(_end - __data_start));
}

void st_restore_before(void) {
    memcpy(__data_start, ex->before, (size_t)(_end - __data_start));
}
