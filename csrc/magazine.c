#include "magazine.h"

#include <malloc.h>
#include <pthread.h>
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

/* Of each thread. Not _Thread_local, for which a shared object needs the loader. Both
 * are written once, before libcurl or a loop gets here. */
static pthread_key_t key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void) {
    has_key = pthread_key_create(&key, NULL) == 0;
}

static magazine *mine(void) {
    return has_key ? pthread_getspecific(key) : NULL;
}

/* The class whose blocks all hold n bytes. No allocator gives less than the least. */
static size_t class_for(size_t n) {
    return n <= LEAST ? (LEAST + HEAD) / STEP : (n + HEAD + STEP - 1) / STEP;
}

/* The class that a block of so many usable bytes may serve; its blocks hold all that
 * class_for asks of it. */
static size_t class_of(size_t usable) {
    return (usable + HEAD) / STEP;
}

static void *take(magazine *m, size_t class) {
    kept *k = m->of[class].first;
    if (k == NULL) {
        return malloc(class * STEP - HEAD);
    }
    m->of[class].first = k->next;
    m->of[class].bytes -= class * STEP;
    return k;
}

void *hf_magazine_malloc(size_t n) {
    magazine *m = n <= HF_MAGAZINE_BLOCK ? mine() : NULL;
    return m != NULL ? take(m, class_for(n)) : malloc(n);
}

void hf_magazine_free(void *p) {
    magazine *m = p != NULL ? mine() : NULL;
    size_t class = m != NULL ? class_of(malloc_usable_size(p)) : 0;
    /* Each class has a bound of its own: an allocator that rounds in another way than
     * we do lets some fill up that nobody takes from. */
    if (class == 0 || class >= CLASSES || m->of[class].bytes >= HF_MAGAZINE_CLASS) {
        free(p);
        return;
    }
    kept *k = p;
    k->next = m->of[class].first;
    m->of[class].first = k;
    m->of[class].bytes += class * STEP;
}

void *hf_magazine_realloc(void *p, size_t n) {
    size_t usable = p != NULL ? malloc_usable_size(p) : 0;
    if (n > HF_MAGAZINE_BLOCK || usable > HF_MAGAZINE_BLOCK) {
        return realloc(p, n);
    }
    if (n > 0 && usable >= n) {
        return p;
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
    magazine *m = count * size <= HF_MAGAZINE_BLOCK ? mine() : NULL;
    if (m == NULL) {
        return calloc(count, size);
    }
    void *p = take(m, class_for(count * size));
    return p != NULL ? memset(p, 0, count * size) : NULL;
}

char *hf_magazine_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = hf_magazine_malloc(n);
    return p != NULL ? memcpy(p, s, n) : NULL;
}

void hf_magazine_open(void) {
    pthread_once(&once, make_key);
    magazine *m = has_key ? calloc(1, sizeof *m) : NULL;
    if (m != NULL && pthread_setspecific(key, m) != 0) {
        free(m);
    }
}

void hf_magazine_close(void) {
    magazine *m = mine();
    if (m == NULL) {
        return;
    }
    for (size_t class = 0; class < CLASSES; class ++) {
        while (m->of[class].first != NULL) {
            free(take(m, class));
        }
    }
    pthread_setspecific(key, NULL);
    free(m);
}

size_t hf_magazine_kept(void) {
    const magazine *m = mine();
    size_t bytes = 0;
    for (size_t class = 0; m != NULL && class < CLASSES; class ++) {
        bytes += m->of[class].bytes;
    }
    return bytes;
}

int hf_magazine_init_libcurl(const hf_curl *c) {
#ifdef __SANITIZE_ADDRESS__
    bool plain = true; /* else it would not see who uses what libcurl has freed */
#else
    bool plain = c->curl_global_init_mem == NULL;
#endif
    if (plain) {
        return c->curl_global_init(CURL_GLOBAL_ALL);
    }
    pthread_once(&once, make_key);
    return c->curl_global_init_mem(CURL_GLOBAL_ALL, hf_magazine_malloc,
                                   hf_magazine_free, hf_magazine_realloc,
                                   hf_magazine_strdup, hf_magazine_calloc);
}
