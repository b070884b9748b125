/* The yardstick: what curl_cffi's libcurl costs when nothing is done but fetching.
 *
 *     HARDFETCH_LIBCURL=…/_wrapper.abi3.so bench_floor [options] FILE
 *     HARDFETCH_LIBCURL=…/_wrapper.abi3.so bench_floor [options] -n COUNT TEMPLATE
 *
 * FILE holds a URL a line; in TEMPLATE "{}" stands for the number. Options:
 *   -c, --concurrency N   in flight [64]
 *   -o, --output FILE     bodies are written there, raw, one behind the other
 *   -k, --insecure        certificates are not checked
 *       --cacert FILE     CA certificates in PEM
 *       --impersonate T   a target of curl-impersonate, ECH set to grease
 *       --compressed      asks for gzip, and libcurl decodes it
 *       --timeout MS      of one transfer, by libcurl
 *       --resolve H:P:A   may repeat
 *
 * One thread, one multi, curl_multi_socket_action over level-triggered epoll. No
 * record, no headers kept, no policy, no deadlines of its own. Sockets that we opened
 * stay registered while idle, so that a kept-alive request is one send and one recv.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "buf.h"
#include "libcurl.h"

enum { EVENTS = 256, URL_SIZE = 2048, OUT_SIZE = 1 << 16 };

typedef struct sock {
    uint32_t want;  /* EPOLL…, 0 = idle */
    uint32_t armed; /* EPOLL… registered */
    bool ours;
    bool dirty;
} sock;

typedef struct transfer {
    CURL *easy;
    hf_buf body;
} transfer;

typedef struct options {
    const char *source;
    const char *output;
    const char *cacert;
    const char *impersonate;
    struct curl_slist *resolve;
    uint64_t count; /* of a template; 0: source is a file */
    int concurrency;
    long timeout;
    bool insecure;
    bool compressed;
} options;

static hf_curl curl;
static options opt = {.concurrency = 64};
static CURLM *multi;
static int epfd;
static sock *socks;
static int n_socks;
static int *dirty;
static int n_dirty;
static FILE *urls;
static int out = -1;
static uint8_t out_buf[OUT_SIZE];
static size_t out_len;
static uint64_t next_url, done, failed, bytes, connects;
static int in_flight;

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* --- sockets -----------------------------------------------------------------------
 */

static sock *sock_at(int fd) {
    if (fd >= n_socks) {
        int n = n_socks < 256 ? 256 : n_socks;
        while (n <= fd) {
            n *= 2;
        }
        socks = realloc(socks, (size_t)n * sizeof *socks);
        dirty = realloc(dirty, (size_t)n * sizeof *dirty);
        if (socks == NULL || dirty == NULL) {
            die("realloc");
        }
        memset(socks + n_socks, 0, (size_t)(n - n_socks) * sizeof *socks);
        n_socks = n;
    }
    return &socks[fd];
}

static void arm(int fd, sock *s, uint32_t events) {
    struct epoll_event ev = {.events = events, .data.fd = fd};
    int op = events == 0     ? EPOLL_CTL_DEL
             : s->armed != 0 ? EPOLL_CTL_MOD
                             : EPOLL_CTL_ADD;
    if (epoll_ctl(epfd, op, fd, &ev) != 0 && errno == ENOENT && events != 0) {
        epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev);
    }
    s->armed = events;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *sockp) {
    (void)easy;
    (void)data;
    (void)sockp;
    sock *s = sock_at(fd);
    s->want = 0;
    if (what != CURL_POLL_REMOVE) {
        s->want |= (what & CURL_POLL_IN) != 0 ? EPOLLIN : 0;
        s->want |= (what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0;
    }
    if (!s->ours) {
        /* libcurl's own are closed unseen: told at once. */
        if (s->want != s->armed) {
            arm(fd, s, s->want);
        }
    } else if (!s->dirty) {
        s->dirty = true;
        dirty[n_dirty++] = fd;
    }
    return 0;
}

static curl_socket_t on_open(void *data, int purpose, struct curl_sockaddr *a) {
    (void)data;
    (void)purpose;
    int fd = socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);
    if (fd >= 0) {
        sock *s = sock_at(fd);
        *s = (sock){.ours = true, .dirty = s->dirty};
        connects++;
    }
    return fd;
}

static int on_close(void *data, curl_socket_t fd) {
    (void)data;
    sock *s = sock_at(fd);
    *s = (sock){.dirty = s->dirty};
    return close(fd);
}

static void reconcile(void) {
    for (int i = 0; i < n_dirty; i++) {
        sock *s = &socks[dirty[i]];
        s->dirty = false;
        if (s->ours && s->want != 0 && s->want != s->armed) {
            arm(dirty[i], s, s->want);
        }
    }
    n_dirty = 0;
}

/* --- transfers ---------------------------------------------------------------------
 */

static void flush(void) {
    for (size_t at = 0; at < out_len;) {
        ssize_t n = write(out, out_buf + at, out_len - at);
        if (n < 0) {
            die("write");
        }
        at += (size_t)n;
    }
    out_len = 0;
}

static void store(const hf_buf *b) {
    if (out_len + b->len > sizeof out_buf) {
        flush();
    }
    if (b->len <= sizeof out_buf / 4) {
        memcpy(out_buf + out_len, b->data, b->len);
        out_len += b->len;
        return;
    }
    flush();
    for (size_t at = 0; at < b->len;) {
        ssize_t n = write(out, b->data + at, b->len - at);
        if (n < 0) {
            die("write");
        }
        at += (size_t)n;
    }
}

static size_t on_body(char *p, size_t size, size_t n, void *data) {
    transfer *t = data;
    return hf_buf_append(&t->body, p, size * n) == 0 ? size * n : 0;
}

static bool read_url(char url[URL_SIZE]) {
    if (opt.count > 0) {
        if (next_url >= opt.count) {
            return false;
        }
        const char *hole = strstr(opt.source, "{}");
        int head = hole != NULL ? (int)(hole - opt.source) : (int)strlen(opt.source);
        snprintf(url, URL_SIZE, "%.*s%llu%s", head, opt.source,
                 (unsigned long long)next_url, hole != NULL ? hole + 2 : "");
        next_url++;
        return true;
    }
    if (fgets(url, URL_SIZE, urls) == NULL) {
        return false;
    }
    url[strcspn(url, "\n")] = '\0';
    next_url++;
    return true;
}

/* Gives the transfer its next URL. Returns false when there is none. */
static bool start(transfer *t) {
    char url[URL_SIZE];
    if (!read_url(url)) {
        return false;
    }
    t->body.len = 0;
    curl.curl_easy_setopt(t->easy, CURLOPT_URL, url);
    if (curl.curl_multi_add_handle(multi, t->easy) != 0) {
        die("curl_multi_add_handle");
    }
    in_flight++;
    return true;
}

static void dress_tls(CURL *e) {
    long verify = !opt.insecure;
    curl.curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, verify);
    curl.curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, verify * 2);
    curl.curl_easy_setopt(e, CURLOPT_CAPATH, (char *)NULL);
    curl.curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, -1L);
    if (opt.cacert != NULL) {
        curl.curl_easy_setopt(e, CURLOPT_CAINFO, opt.cacert);
    }
}

static void dress(transfer *t, bool first) {
    CURL *e = t->easy;
    if (opt.impersonate != NULL) {
        if (curl.curl_easy_impersonate == NULL ||
            curl.curl_easy_impersonate(e, opt.impersonate, 1) != 0) {
            fprintf(stderr, "no such target: %s\n", opt.impersonate);
            exit(2);
        }
        curl.curl_easy_setopt(e, CURLOPT_ECH, "grease");
    }
    dress_tls(e);
    curl.curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl.curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl.curl_easy_setopt(e, CURLOPT_NOPROXY, "");
    curl.curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 65536L);
    curl.curl_easy_setopt(e, CURLOPT_PIPEWAIT, 0L);
    if (opt.compressed) {
        curl.curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "gzip");
    }
    if (opt.timeout > 0) {
        curl.curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, opt.timeout);
    }
    if (first && opt.resolve != NULL) {
        /* Into the multi's cache, which all handles use. */
        curl.curl_easy_setopt(e, CURLOPT_RESOLVE, opt.resolve);
    }
    curl.curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    curl.curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl.curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl.curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl.curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
}

static void finish(transfer *t, int code) {
    long status = 0;
    curl.curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    failed += code != 0 || status != 200;
    bytes += t->body.len;
    done++;
    in_flight--;
    if (out >= 0) {
        store(&t->body);
    }
}

/* --- the loop ----------------------------------------------------------------------
 */

static void take_messages(void) {
    CURLMsg *m;
    int left;
    while ((m = curl.curl_multi_info_read(multi, &left)) != NULL) {
        char *p = NULL;
        int code = m->data.result;
        CURL *e = m->easy_handle;
        if (m->msg != CURLMSG_DONE) {
            continue;
        }
        curl.curl_easy_getinfo(e, CURLINFO_PRIVATE, &p);
        curl.curl_multi_remove_handle(multi, e);
        finish((transfer *)(void *)p, code);
        start((transfer *)(void *)p);
    }
}

static void serve(const struct epoll_event *ev) {
    int running;
    int fd = ev->data.fd;
    sock *s = sock_at(fd);
    if (s->ours && s->want == 0) {
        /* Idle, and the peer has closed it: libcurl finds out by itself. */
        arm(fd, s, 0);
        return;
    }
    int mask = 0;
    mask |= (ev->events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0;
    mask |= (ev->events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0;
    mask |= (ev->events & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0;
    curl.curl_multi_socket_action(multi, fd, mask, &running);
}

/* Lets libcurl's timers run. Returns ms until the next, -1 without one. */
static long run_timers(void) {
    long ms = -1;
    int running;
    for (int i = 0; i < 8; i++) {
        curl.curl_multi_timeout(multi, &ms);
        if (ms != 0) {
            break;
        }
        curl.curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        take_messages();
    }
    return ms;
}

static void loop(void) {
    struct epoll_event ev[EVENTS];
    while (in_flight > 0) {
        long ms = run_timers();
        if (in_flight == 0) {
            break;
        }
        reconcile();
        int n = epoll_wait(epfd, ev, EVENTS, (int)ms);
        for (int i = 0; i < n; i++) {
            serve(&ev[i]);
        }
        take_messages();
    }
}

static void run(void) {
    transfer *all = calloc((size_t)opt.concurrency, sizeof *all);
    if (all == NULL) {
        die("calloc");
    }
    for (int i = 0; i < opt.concurrency; i++) {
        all[i].body = hf_buf_make((size_t)64 << 20);
        all[i].easy = curl.curl_easy_init();
        dress(&all[i], i == 0);
        if (!start(&all[i])) {
            break;
        }
    }
    loop();
    flush();
}

/* libcurl takes its allocator from whoever initialises it first; hf_curl_load would
 * give it ours, which is no part of bare libcurl. */
static void keep_malloc(const char *path) {
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*init)(long) = NULL;
    void *address = lib != NULL ? dlsym(lib, "curl_global_init") : NULL;
    memcpy(&init, &address, sizeof init);
    if (init == NULL || init(CURL_GLOBAL_ALL) != 0) {
        fprintf(stderr, "%s can't be initialised\n", path);
        exit(1);
    }
}

static void parse(int argc, char **argv) {
    static const struct option known[] = {{"count", required_argument, NULL, 'n'},
                                          {"concurrency", required_argument, NULL, 'c'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"insecure", no_argument, NULL, 'k'},
                                          {"cacert", required_argument, NULL, 'a'},
                                          {"impersonate", required_argument, NULL, 'i'},
                                          {"compressed", no_argument, NULL, 'z'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"resolve", required_argument, NULL, 'r'},
                                          {NULL, 0, NULL, 0}};
    int got;
    while ((got = getopt_long(argc, argv, "n:c:o:k", known, NULL)) != -1) {
        switch (got) {
        case 'n':
            opt.count = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            opt.concurrency = (int)strtol(optarg, NULL, 10);
            break;
        case 'o':
            opt.output = optarg;
            break;
        case 'k':
            opt.insecure = true;
            break;
        case 'a':
            opt.cacert = optarg;
            break;
        case 'i':
            opt.impersonate = optarg;
            break;
        case 'z':
            opt.compressed = true;
            break;
        case 't':
            opt.timeout = strtol(optarg, NULL, 10);
            break;
        case 'r':
            opt.resolve = curl.curl_slist_append(opt.resolve, optarg);
            break;
        default:
            exit(2);
        }
    }
    if (optind + 1 != argc || opt.concurrency < 1) {
        fprintf(stderr, "usage: %s [options] FILE | -n COUNT TEMPLATE\n", argv[0]);
        exit(2);
    }
    opt.source = argv[optind];
}

static void open_all(void) {
    urls = opt.count == 0 ? fopen(opt.source, "r") : NULL;
    if (opt.count == 0 && urls == NULL) {
        die(opt.source);
    }
    if (opt.output != NULL) {
        out = open(opt.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (out < 0) {
            die(opt.output);
        }
    }
    epfd = epoll_create1(EPOLL_CLOEXEC);
    multi = curl.curl_multi_init();
    if (epfd < 0 || multi == NULL) {
        die("epoll_create1");
    }
    curl.curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl.curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl.curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, opt.concurrency + 64L);
}

int main(int argc, char **argv) {
    char err[512] = "";
    const char *path = libcurl_path();
    keep_malloc(path);
    if (hf_curl_load(&curl, path, (hf_errbuf){err, sizeof err}) != 0) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    parse(argc, argv);
    open_all();
    run();
    fprintf(stderr,
            "{\"requests\": %llu, \"failed\": %llu, \"bytes\": %llu, "
            "\"connects\": %llu}\n",
            (unsigned long long)done, (unsigned long long)failed,
            (unsigned long long)bytes, (unsigned long long)connects);
    return failed == done && done > 0;
}
