/* Every allocation fails once, ours and libcurl's: over a short run nothing crashes or
 * leaks, and each input gets one record, or its submission one clear error.
 *
 * The linker sends the allocations of the core to the __wrap functions here; those of
 * this program go to the real ones, by the macros below.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
void __wrap_free(void *p);

#define malloc __real_malloc
#define calloc __real_calloc
#define realloc __real_realloc
#define strdup __real_strdup
#define strndup __real_strndup
#define free __real_free

#include "engine_play.h"
#include "packed.h"

/* One source of memory: how often it was asked, which time it says no, what it owes. */
typedef struct source {
    atomic_long asked;
    atomic_long fails; /* the number of the one that fails; 0 = none */
    atomic_long live;
} source;

static source ours, curls;

static int refuses(source *s) {
    long n = atomic_fetch_add(&s->asked, 1) + 1;
    if (n == atomic_load(&s->fails)) {
        errno = ENOMEM;
        return 1;
    }
    return 0;
}

static void *given(source *s, void *p) {
    atomic_fetch_add(&s->live, p != NULL);
    return p;
}

static void taken(source *s, void *p) {
    atomic_fetch_sub(&s->live, p != NULL);
    free(p);
}

static void *resized(source *s, void *p, size_t n) {
    void *q = realloc(p, n);
    atomic_fetch_add(&s->live, q != NULL && p == NULL);
    return q;
}

void *__wrap_malloc(size_t n) {
    return refuses(&ours) ? NULL : given(&ours, malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return refuses(&ours) ? NULL : given(&ours, calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n) {
    return refuses(&ours) ? NULL : resized(&ours, p, n);
}

char *__wrap_strdup(const char *s) {
    return refuses(&ours) ? NULL : given(&ours, strdup(s));
}

char *__wrap_strndup(const char *s, size_t n) {
    return refuses(&ours) ? NULL : given(&ours, strndup(s, n));
}

void __wrap_free(void *p) {
    taken(&ours, p);
}

static void *curl_malloc(size_t n) {
    return refuses(&curls) ? NULL : given(&curls, malloc(n));
}

static void *curl_calloc(size_t n, size_t size) {
    return refuses(&curls) ? NULL : given(&curls, calloc(n, size));
}

static void *curl_realloc(void *p, size_t n) {
    return refuses(&curls) ? NULL : resized(&curls, p, n);
}

static char *curl_strdup(const char *s) {
    return refuses(&curls) ? NULL : given(&curls, strdup(s));
}

static void curl_free(void *p) {
    taken(&curls, p);
}

/* --- one short run -----------------------------------------------------------------
 */

static const struct {
    const char *path;
    int status; /* of the record, when no error is in it */
    int size;
} inputs[] = {
    {"/big/101", 200, 101}, {"/big/70102", 200, 70102}, {"/go/big/103", 200, 103},
    {"/sc/404", 404, 5},    {"/cut", 200, 10},          {"/big/104", 200, 104},
};
enum { INPUTS = sizeof inputs / sizeof inputs[0] };

static const char *doing;

static void fail(const char *what) {
    fprintf(stderr, "%s: allocation %ld of ours, %ld of libcurl: %s\n", doing,
            atomic_load(&ours.fails), atomic_load(&curls.fails), what);
    check_failures++;
}

/* Submits one line; a refusal for want of memory is told and may be tried again. */
static void submit(const char *line) {
    size_t len = strlen(line);
    for (int tries = 0; tries < 3; tries++) {
        char err[256] = "";
        size_t used;
        int rc = hf_engine_submit_lines(P.e, (const uint8_t *)line, len, 1, &used, err,
                                        sizeof err);
        if (rc == 0 && used == len) {
            P.submitted++;
            return;
        }
        if (rc != HF_ENOMEM || err[0] == '\0') {
            fail("a submission failed without a clear error");
            return;
        }
    }
    fail("a submission is refused again and again");
}

/* One with all that a request can have; to the same end, twice for its session. */
static void submit_packed(const char *url) {
    static packed f;
    packed_begin(&f);
    packed_text(&f, HF_TAG_URL, url);
    packed_text(&f, HF_TAG_ID, "{\"a\":1}");
    packed_text(&f, HF_TAG_META, "[2]");
    packed_text(&f, HF_TAG_METHOD, "POST");
    packed_text(&f, HF_TAG_HEADER, "X-One: 1");
    packed_text(&f, HF_TAG_HEADER, "Content-Type: text/plain");
    packed_text(&f, HF_TAG_BODY, "body");
    packed_text(&f, HF_TAG_SESSION, "s");
    packed_text(&f, HF_TAG_IMPERSONATE, "chrome");
    for (int tries = 0; tries < 3; tries++) {
        char err[256] = "";
        size_t used;
        uint64_t seq;
        int rc = hf_engine_submit(P.e, f.bytes, f.n, &used, &seq, err, sizeof err);
        if (rc == 0 && used == f.n) {
            P.submitted++;
            return;
        }
        if (rc != HF_ENOMEM || err[0] == '\0') {
            fail("a packed submission failed without a clear error");
            return;
        }
    }
    fail("a packed submission is refused again and again");
}

static void look_at_records(void) {
    for (uint64_t i = 0; i < INPUTS && i < P.submitted; i++) {
        if (P.counts[i] != 1) {
            fail("an input has not one record");
        } else if (play_count("error", "null") > 0) {
            const uint8_t *line = P.text + P.at[i];
            size_t n = (size_t)((uint8_t *)memchr(line, '\n', P.n - P.at[i]) - line);
            if (json_has(line, n, "error", "null") &&
                ((int)play_number(i, "status_code") != inputs[i].status ||
                 (int)play_number(i, "size") != inputs[i].size)) {
                fail("a record without an error is wrong");
            }
        }
    }
    if (P.bad > 0 || P.records != P.submitted) {
        fail("a record is broken or one too many");
    }
}

/* Runs it once. Returns whether the engine started. */
static int run(void) {
    char err[256] = "";
    P.n = P.parsed = 0;
    P.records = P.submitted = 0;
    P.bad = 0;
    memset(P.counts, 0, 64);
    P.e = hf_engine_new(&P.cfg, err, sizeof err);
    if (P.e == NULL) {
        if (err[0] == '\0') {
            fail("the engine did not start and did not say why");
        }
        return 0;
    }
    char line[256];
    for (int i = 0; i < INPUTS; i++) {
        snprintf(line, sizeof line, "http://127.0.0.1:%d%s\n", P.site.ports[i % 2],
                 inputs[i].path);
        submit(line);
    }
    submit("no url at all\n");
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "http://127.0.0.1:%d/ok", P.site.ports[2]);
        submit_packed(line);
    }
    if (!play_finish(20 * (int64_t)1000000)) {
        fail("the run did not end");
    }
    look_at_records();
    hf_engine_free(P.e);
    P.e = NULL;
    return 1;
}

static void settings(void) {
    P.cfg.loops = 1;
    P.cfg.max_concurrency = 4;
    /* What libcurl forgets for want of memory waits for these, some thirty times. */
    P.cfg.timeout = 250000;
    P.cfg.hard_timeout = 500000;
    P.cfg.connect_timeout = 250000;
    P.cfg.ring_bytes = 65536;
}

/* Fails the first, the second, … allocation of one source. Stops where the budget of
 * time ends, with a stride that reaches the last one before. */
static void each_fails(source *s, const char *name, int64_t budget) {
    doing = name;
    CHECK(run());
    CHECK(run()); /* what is kept for ever has been asked for by now */
    long live = atomic_load(&ours.live);
    long live_curl = atomic_load(&curls.live);
    atomic_store(&s->asked, 0);
    int64_t began = hf_now();
    CHECK(run());
    int64_t took = hf_now() - began;
    long count = atomic_load(&s->asked);
    long most = budget / (took > 0 ? took : 1) + 1;
    long stride = count / most + 1;
    int started = 0;
    int refused = 0;
    for (long i = 1; i <= count; i += stride) {
        atomic_store(&s->asked, 0);
        atomic_store(&s->fails, i);
        if (run()) {
            started++;
        } else {
            refused++;
        }
        atomic_store(&s->fails, 0);
        atomic_store(&s->asked, 0);
        if (atomic_load(&ours.live) != live || atomic_load(&curls.live) != live_curl) {
            atomic_store(&s->fails, i);
            fprintf(stderr, "%s: allocation %ld: %ld and %ld blocks leaked\n", name, i,
                    atomic_load(&ours.live) - live,
                    atomic_load(&curls.live) - live_curl);
            check_failures++;
            atomic_store(&s->fails, 0);
            live = atomic_load(&ours.live);
            live_curl = atomic_load(&curls.live);
        }
        check_count++;
    }
    fprintf(stderr, "%s: %ld allocations, every %ld failed: %d runs, %d not started\n",
            name, count, stride, started, refused);
    CHECK(started > 0);
}

static void each_of_ours_fails_once(void) {
    each_fails(&ours, "ours", 30 * (int64_t)1000000);
}

static void each_of_libcurls_fails_once(void) {
    each_fails(&curls, "libcurl", 30 * (int64_t)1000000);
}

int main(void) {
    hf_curl early;
    load_libcurl(&early); /* the same object as the engine's, so that this counts */
    void (*cleanup)(void);
    *(void **)&cleanup = dlsym(early.handle, "curl_global_cleanup");
    REQUIRE(cleanup != NULL);
    cleanup();
    REQUIRE(early.curl_global_init_mem != NULL);
    REQUIRE(early.curl_global_init_mem(CURL_GLOBAL_ALL, curl_malloc, curl_free,
                                       curl_realloc, curl_strdup, curl_calloc) == 0);
    play_site();
    settings();
    RUN(each_of_ours_fails_once);
    RUN(each_of_libcurls_fails_once);
    play_close();
    return check_result();
}
