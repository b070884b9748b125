/* The engine without Python, for profiles: URLs from stdin, records to stdout.
 *
 *     HARDFETCH_LIBCURL=…/_wrapper.abi3.so bench_drive [options] <urls >records
 *
 * Options: --concurrency N, --per-host N (0: any), --loops N, --cacert FILE,
 * --insecure, --impersonate NAME, --resolve HOST:PORT:ADDR (may repeat), --timeout MS,
 * --ring BYTES.
 * Counters go to stderr.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "hf.h"
#include "libcurl.h"

enum { RESOLVES = 4096, CHUNK = 1 << 18 };
#define WAIT_US 1000000

static void *drain(void *arg) {
    hf_engine *e = arg;
    char err[256] = "";
    int64_t n;
    do {
        n = hf_engine_drain(e, STDOUT_FILENO, WAIT_US, err, sizeof err);
    } while (n >= 0 || n == HF_EINTR);
    if (n != HF_EEND) {
        fprintf(stderr, "drain: %" PRId64 " %s\n", n, err);
        exit(1);
    }
    return NULL;
}

static void feed(hf_engine *e) {
    static uint8_t chunk[CHUNK];
    char err[256] = "";
    size_t len = 0;
    int last = 0;
    while (!last || len > 0) {
        if (!last && len < sizeof chunk) {
            ssize_t n = read(STDIN_FILENO, chunk + len, sizeof chunk - len);
            last = n <= 0;
            len += n > 0 ? (size_t)n : 0;
        }
        size_t used;
        int rc = hf_engine_submit_lines(e, chunk, len, last, &used, err, sizeof err);
        memmove(chunk, chunk + used, len - used);
        len -= used;
        if (rc == HF_EFULL) {
            hf_engine_wait_room(e, WAIT_US);
        } else if (rc < 0) {
            fprintf(stderr, "submit: %d %s\n", rc, err);
            exit(1);
        }
    }
    hf_engine_finish(e);
}

static void tell(hf_engine *e) {
    hf_stats s;
    hf_engine_stats(e, &s);
    double n = s.records > 0 ? (double)s.records : 1.0;
    fprintf(stderr,
            "{\"records\": %" PRIu64 ", \"ok\": %" PRIu64 ", \"connects\": %" PRIu64
            ", \"per_record\": {\"epoll_waits\": %.3f, \"epoll_ctls\": %.3f, "
            "\"timer_sets\": %.3f, \"socket_actions\": %.3f, \"wakeups\": %.3f}}\n",
            s.records, s.by_class[2], s.connects, (double)s.epoll_waits / n,
            (double)s.epoll_ctls / n, (double)s.timer_sets / n,
            (double)s.socket_actions / n, (double)s.wakeups / n);
}

static void options(int argc, char **argv, hf_config *c) {
    static const struct option known[] = {{"concurrency", required_argument, NULL, 'c'},
                                          {"per-host", required_argument, NULL, 'h'},
                                          {"loops", required_argument, NULL, 'l'},
                                          {"cacert", required_argument, NULL, 'a'},
                                          {"insecure", no_argument, NULL, 'k'},
                                          {"impersonate", required_argument, NULL, 'i'},
                                          {"resolve", required_argument, NULL, 'r'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"ring", required_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    static const char *resolve[RESOLVES + 1];
    int n_resolve = 0;
    int got;
    c->max_concurrency = 64;
    c->max_per_host = 0;
    while ((got = getopt_long(argc, argv, "", known, NULL)) != -1) {
        long number = optarg != NULL ? strtol(optarg, NULL, 10) : 0;
        switch (got) {
        case 'c':
            c->max_concurrency = (int32_t)number;
            break;
        case 'h':
            c->max_per_host = (int32_t)number;
            break;
        case 'l':
            c->loops = (int32_t)number;
            break;
        case 'a':
            c->cainfo = optarg;
            break;
        case 'k':
            c->verify = 0;
            break;
        case 'i':
            c->impersonate = optarg;
            break;
        case 'r':
            if (n_resolve < RESOLVES) {
                resolve[n_resolve++] = optarg;
            }
            break;
        case 't':
            c->timeout = (int64_t)number * 1000;
            c->hard_timeout = c->timeout + 5000000;
            break;
        case 'b':
            c->ring_bytes = number;
            break;
        default:
            exit(2);
        }
    }
    c->resolve = n_resolve > 0 ? resolve : NULL;
    if (c->window_requests < 8 * (int64_t)c->max_concurrency) {
        c->window_requests = 8 * (int64_t)c->max_concurrency;
    }
}

int main(int argc, char **argv) {
    hf_config c;
    hf_config_default(&c);
    options(argc, argv, &c);
    c.libcurl = libcurl_path();
    c.user_agent = "hardfetch-bench";
    char err[300] = "";
    hf_engine *e = hf_engine_new(&c, err, sizeof err);
    if (e == NULL) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    pthread_t writer;
    if (pthread_create(&writer, NULL, drain, e) != 0) {
        return 1;
    }
    feed(e);
    pthread_join(writer, NULL);
    tell(e);
    hf_engine_free(e);
    return 0;
}
