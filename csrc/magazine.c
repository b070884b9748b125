#include "magazine.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Classes are 16 bytes apart, with the 8 that glibc and others put before a block. */
enum {
    STEP = 16,
    HEAD = 8,
    LEAST = 24,
    CLASSES = (HF_MAGAZINE_BLOCK + HEAD) / STEP + 1
};

/* A kept block holds the one kept before it. */
typedef struct kept {
    struct kept *next;
} kept;

typedef struct magazine {
    struct {
        kept *first;
        size_t bytes;
    } of[CLASSES];
} magazine;

static _Thread_local magazine *mine;

/* The class whose blocks all hold n bytes. No allocator gives less than the least. */
static size_t class_for(size_t n) {
    return n <= LEAST ? (LEAST + HEAD) / STEP : (n + HEAD + STEP - 1) / STEP;
}

/* The class that a block of so many usable bytes may serve; its blocks hold all that
 * class_for asks of it. */
static size_t class_of(size_t usable) {
    return (usable + HEAD) / STEP;
}

static void *take(size_t class) {
    kept *k = mine->of[class].first;
    if (k == NULL) {
        return malloc(class * STEP - HEAD);
    }
    mine->of[class].first = k->next;
    mine->of[class].bytes -= class * STEP;
    return k;
}

void *hf_magazine_malloc(size_t n) {
    return mine != NULL && n <= HF_MAGAZINE_BLOCK ? take(class_for(n)) : malloc(n);
}

void hf_magazine_free(void *p) {
    size_t class = mine != NULL && p != NULL ? class_of(malloc_usable_size(p)) : 0;
    /* Each class has a bound of its own: an allocator that rounds in another way than
     * we do lets some fill up that nobody takes from. */
    if (class == 0 || class >= CLASSES || mine->of[class].bytes >= HF_MAGAZINE_CLASS) {
        free(p);
        return;
    }
    kept *k = p;
    k->next = mine->of[class].first;
    mine->of[class].first = k;
    mine->of[class].bytes += class * STEP;
}

void *hf_magazine_realloc(void *p, size_t n) {
    if (mine == NULL || n > HF_MAGAZINE_BLOCK) {
        return realloc(p, n);
    }
    size_t usable = p != NULL ? malloc_usable_size(p) : 0;
    if (n > 0 && usable >= n && usable <= HF_MAGAZINE_BLOCK) {
        return p;
    }
    if (usable > HF_MAGAZINE_BLOCK) {
        return realloc(p, n);
    }
    void *grown = hf_magazine_malloc(n);
    if (grown != NULL && p != NULL) {
        memcpy(grown, p, usable < n ? usable : n);
        hf_magazine_free(p);
    }
    return grown;
}

void *hf_magazine_calloc(size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) {
        return NULL;
    }
    if (mine == NULL || count * size > HF_MAGAZINE_BLOCK) {
        return calloc(count, size);
    }
    void *p = take(class_for(count * size));
    return p != NULL ? memset(p, 0, count * size) : NULL;
}

char *hf_magazine_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = hf_magazine_malloc(n);
    return p != NULL ? memcpy(p, s, n) : NULL;
}

void hf_magazine_open(void) {
    mine = calloc(1, sizeof *mine);
}

void hf_magazine_close(void) {
    for (size_t class = 0; mine != NULL && class < CLASSES; class ++) {
        while (mine->of[class].first != NULL) {
            free(take(class));
        }
    }
    free(mine);
    mine = NULL;
}

size_t hf_magazine_kept(void) {
    size_t bytes = 0;
    for (size_t class = 0; mine != NULL && class < CLASSES; class ++) {
        bytes += mine->of[class].bytes;
    }
    return bytes;
}

int hf_magazine_init_libcurl(const hf_curl *c) {
#ifdef __SANITIZE_ADDRESS__
    bool plain =
        true; /* or it would not see who uses a block that is libcurl's no more */
#else
    bool plain = c->curl_global_init_mem == NULL;
#endif
    if (plain) {
        return c->curl_global_init(CURL_GLOBAL_ALL);
    }
    return c->curl_global_init_mem(CURL_GLOBAL_ALL, hf_magazine_malloc,
                                   hf_magazine_free, hf_magazine_realloc,
                                   hf_magazine_strdup, hf_magazine_calloc);
}
