/* An engine under test, its site, and the records that came out of it. */
#ifndef ENGINE_PLAY_H
#define ENGINE_PLAY_H

#include <errno.h>
#include <pthread.h>

#include "hf.h"
#include "libcurl.h"
#include "site.h"
#include "strict_json.h"

enum { PLAY_SEQS = 1 << 15 };

typedef struct play {
    site site;
    hf_config cfg;
    hf_engine *e;
    uint64_t submitted;
    uint8_t *text; /* all that came out */
    size_t n, cap;
    size_t parsed;
    uint64_t records;
    int bad;                   /* lines that are no JSON, or answer what was answered */
    uint8_t counts[PLAY_SEQS]; /* records of each seq */
    size_t at[PLAY_SEQS];      /* where in text its line starts */
    int64_t came[PLAY_SEQS];   /* us, when its line was read */
} play;

static play P;

static inline void play_site(void) {
    hf_curl c;
    load_libcurl(&c); /* for what it loads besides */
    memset(&P, 0, sizeof P);
    site_start(&P.site);
    hf_config_default(&P.cfg);
    P.cfg.libcurl = getenv("HARDFETCH_LIBCURL");
    P.cfg.ring_bytes = 1 << 20;
}

static inline void play_open(void) {
    char err[256] = "";
    P.e = hf_engine_new(&P.cfg, err, sizeof err);
    if (P.e == NULL) {
        fprintf(stderr, "%s\n", err);
        exit(1);
    }
}

static inline void play_close(void) {
    hf_engine_free(P.e);
    P.e = NULL;
    site_stop(&P.site);
    free(P.text);
    P.text = NULL;
}

/* Submits text as it is; waits for room when it must. */
static inline void play_lines(const char *text, size_t n) {
    char err[256] = "";
    size_t done = 0;
    while (done < n) {
        size_t used;
        int rc = hf_engine_submit_lines(P.e, (const uint8_t *)text + done, n - done, 1,
                                        &used, err, sizeof err);
        done += used;
        if (rc == HF_EFULL) {
            hf_engine_wait_room(P.e, 100000);
        } else if (rc != 0) {
            fprintf(stderr, "submit: %d %s\n", rc, err);
            exit(1);
        }
    }
}

/* Submits one URL of a host of the site. */
static inline void play_get(int host, const char *path) {
    char line[256];
    int n = snprintf(line, sizeof line, "http://127.0.0.1:%d%s\n", P.site.ports[host],
                     path);
    play_lines(line, (size_t)n);
    P.submitted++;
}

static inline void play_parse(void) {
    uint8_t *nl;
    while ((nl = memchr(P.text + P.parsed, '\n', P.n - P.parsed)) != NULL) {
        uint8_t *line = P.text + P.parsed;
        size_t n = (size_t)(nl - line);
        size_t len;
        const uint8_t *v =
            json_object(line, n) ? json_find(line, n, "seq", &len) : NULL;
        uint64_t seq = v != NULL ? strtoull((const char *)v, NULL, 10) : PLAY_SEQS;
        if (seq >= PLAY_SEQS || P.counts[seq]++ != 0) {
            P.bad++;
        } else {
            P.at[seq] = P.parsed;
            P.came[seq] = hf_now();
            P.records++;
        }
        P.parsed += n + 1;
    }
}

/* Reads for at most `within` us until n records are there or the end has come. Returns
 * the last answer of hf_engine_read. */
static inline int64_t play_read(uint64_t n, int64_t within) {
    int64_t until = hf_now() + within;
    int64_t rc = 0;
    while (P.records < n && hf_now() < until) {
        if (P.cap - P.n < 65536) {
            P.cap = P.cap * 2 + (1 << 18);
            P.text = realloc(P.text, P.cap);
            REQUIRE(P.text);
        }
        rc = hf_engine_read(P.e, P.text + P.n, P.cap - P.n, 20000);
        if (rc < 0 && rc != HF_EINTR) {
            break;
        }
        P.n += rc > 0 ? (size_t)rc : 0;
        play_parse();
    }
    return rc;
}

/* Ends the input and reads to the end; all must come within that time. */
static inline int play_finish(int64_t within) {
    hf_engine_finish(P.e);
    int64_t rc = play_read(UINT64_MAX, within);
    if (rc != HF_EEND) {
        hf_stats st;
        hf_engine_stats(P.e, &st);
        fprintf(stderr,
                "    %llu of %llu records; queued %llu in flight %llu parked %llu\n",
                (unsigned long long)P.records, (unsigned long long)P.submitted,
                (unsigned long long)st.queued_now, (unsigned long long)st.in_flight_now,
                (unsigned long long)st.parked_now);
    }
    return rc == HF_EEND;
}

/* Each seq from 0 on has one record, and no line is bad. */
static inline int play_each_once(void) {
    uint64_t missing = 0;
    for (uint64_t i = 0; i < P.submitted; i++) {
        missing += P.counts[i] != 1;
    }
    if (missing > 0 || P.bad > 0 || P.records != P.submitted) {
        fprintf(stderr, "    missing %llu, bad %d, records %llu of %llu\n",
                (unsigned long long)missing, P.bad, (unsigned long long)P.records,
                (unsigned long long)P.submitted);
        return 0;
    }
    return 1;
}

static inline int play_has(uint64_t seq, const char *path, const char *raw) {
    const uint8_t *line = P.text + P.at[seq];
    const uint8_t *nl = P.counts[seq] > 0 ? memchr(line, '\n', P.n - P.at[seq]) : NULL;
    if (nl == NULL) {
        fprintf(stderr, "    seq %llu has no record\n", (unsigned long long)seq);
        return 0;
    }
    size_t n = (size_t)(nl - line);
    if (json_has(line, n, path, raw)) {
        return 1;
    }
    size_t len;
    const uint8_t *v = json_find(line, n, path, &len);
    fprintf(stderr, "    seq %llu: %s is %.*s, not %s\n", (unsigned long long)seq, path,
            v ? (int)len : 6, v ? (const char *)v : "absent", raw);
    return 0;
}

static inline double play_number(uint64_t seq, const char *path) {
    const uint8_t *line = P.text + P.at[seq];
    const uint8_t *nl = memchr(line, '\n', P.n - P.at[seq]);
    size_t len;
    const uint8_t *v =
        nl != NULL ? json_find(line, (size_t)(nl - line), path, &len) : NULL;
    return v != NULL ? strtod((const char *)v, NULL) : -1;
}

/* How many records have exactly this value. */
static inline uint64_t play_count(const char *path, const char *raw) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < P.submitted; i++) {
        const uint8_t *line = P.text + P.at[i];
        const uint8_t *nl = P.counts[i] ? memchr(line, '\n', P.n - P.at[i]) : NULL;
        n += nl != NULL && json_has(line, (size_t)(nl - line), path, raw);
    }
    return n;
}

#endif
