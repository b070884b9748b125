/* A libcurl that misbehaves on demand: everything goes on to the real one, except what
 * a test asks for.
 *
 *     HARDFETCH_REAL_LIBCURL  path of the real one (curl_cffi's shared object; it must
 *                             have the optional functions of curlabi.h as well)
 *     HARDFETCH_WEDGE         what to do, "name=value" separated by commas:
 *
 *     hang=CALL     sleep inside that call of a multi that holds a marked transfer:
 *                   action (curl_multi_socket_action), remove, add, cleanup; callback:
 *                   inside libcurl, between two of our callbacks; socket: until the
 *                   peer or somebody here ends the transfer's socket
 *     ms=N          for so long, at most (5000)
 *     times=N       so often (1)
 *     mark=TEXT     transfers whose URL holds it are marked ("wedge")
 *     timers=N      every Nth timer callback is dropped
 *     lost=1        a marked transfer never gets its done message
 *     twice=1       each done message comes twice
 *
 * From Python: HARDFETCH_LIBCURL=…/fake_wedge.so with the two variables above, or, to
 * change what it does while it runs, ctypes.CDLL(path).fake_wedge(b"hang=action,ms=9").
 * In C: dlsym the same. fake_wedge_count(b"hangs" | b"timers" | b"lost" | b"twice")
 * tells how often it did; fake_wedge_busy() how many calls hang now, and
 * fake_wedge_release() lets those go that sleep.
 *
 * Each exported name is a jump through a slot, so that any arguments pass, those of
 * curl_easy_setopt too. The slots of what is changed hold a function of ours.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "curlabi.h"

#if defined(__x86_64__)
#define JUMP(name) "endbr64\n jmp *slot_" name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name)                                                    \
    "adrp x16, slot_" name "\n ldr x16, [x16, :lo12:slot_" name "]\n" \
    " br x16\n"
#else
#error "a jump through memory for this processor is missing"
#endif

#define SLOT(ret, name, args)                                            \
    __attribute__((visibility("hidden"), used)) void *slot_##name;       \
    __asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name \
            ":\n" JUMP(#name) ".size " #name ", . - " #name "\n");
HF_CURL_NEEDED(SLOT)
HF_CURL_OPTIONAL(SLOT)

static hf_curl real;

enum { KNOWN = 4096 };

/* A multi, as far as it concerns us. */
typedef struct multi {
    CURLM *m;
    int (*timer)(CURLM *, long, void *);
    void *timer_data;
    int marked; /* marked transfers in it */
    CURLMsg again;
    int has_again;
} multi;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static multi multis[KNOWN]; /* by hash of the pointer, open addressing */
static CURL *marked[KNOWN]; /* likewise */

static char hang_in[16];
static char mark[64] = "wedge";
static atomic_int hang_ms, hangs_left, drop_every, lose, repeat;
static atomic_int timer_calls, n_hangs, n_timers, n_lost, n_twice, n_busy, releases;

/* --- tables ------------------------------------------------------------------------
 */

static size_t hash_of(const void *p) {
    return (size_t)(((uintptr_t)p >> 4) * 11400714819323198485u >> 40) % KNOWN;
}

static multi *find_multi(CURLM *m, int make) {
    for (size_t i = 0, at = hash_of(m); i < KNOWN; i++, at = (at + 1) % KNOWN) {
        if (multis[at].m == m) {
            return &multis[at];
        }
        if (multis[at].m == NULL) {
            if (make) {
                multis[at].m = m;
                return &multis[at];
            }
            return NULL;
        }
    }
    abort(); /* more multis than a test has any use for */
}

static CURL *const gone = (CURL *)&gone;

static CURL **find_mark(CURL *easy) {
    for (size_t i = 0, at = hash_of(easy); i < KNOWN && marked[at] != NULL;
         i++, at = (at + 1) % KNOWN) {
        if (marked[at] == easy) {
            return &marked[at];
        }
    }
    return NULL;
}

static void set_mark(CURL *easy, int on) {
    pthread_mutex_lock(&lock);
    CURL **at = find_mark(easy);
    if (at != NULL && !on) {
        *at = gone;
    }
    if (at == NULL && on) {
        size_t i = hash_of(easy);
        while (marked[i] != NULL && marked[i] != gone) {
            i = (i + 1) % KNOWN;
        }
        marked[i] = easy;
    }
    pthread_mutex_unlock(&lock);
}

static int is_marked(CURL *easy) {
    pthread_mutex_lock(&lock);
    int is = find_mark(easy) != NULL;
    pthread_mutex_unlock(&lock);
    return is;
}

static int holds_marked(CURLM *m, int change) {
    pthread_mutex_lock(&lock);
    multi *x = find_multi(m, change != 0);
    int n = x != NULL ? x->marked += change : 0;
    pthread_mutex_unlock(&lock);
    return n > 0;
}

/* --- hanging -----------------------------------------------------------------------
 */

static int take_hang(const char *call) {
    pthread_mutex_lock(&lock);
    int take = strcmp(hang_in, call) == 0 && hangs_left > 0;
    hangs_left -= take;
    pthread_mutex_unlock(&lock);
    return take;
}

static void hang(void) {
    static const struct timespec moment = {0, 2000000};
    int before = releases; /* first: who sees us busy can let us go */
    int64_t until = hf_now() + (int64_t)hang_ms * 1000;
    n_busy++;
    n_hangs++;
    while (releases == before && hf_now() < until) {
        nanosleep(&moment, NULL);
    }
    n_busy--;
}

static void hang_on(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    n_busy++;
    n_hangs++;
    poll(&p, 1, hang_ms);
    n_busy--;
}

/* --- what is changed ---------------------------------------------------------------
 */

static int my_setopt(CURL *easy, int option, ...) {
    va_list ap;
    va_start(ap, option);
    void *value = va_arg(ap, void *); /* long, pointer or off_t: one register each */
    va_end(ap);
    if (option == CURLOPT_URL) {
        set_mark(easy, value != NULL && strstr(value, mark) != NULL);
    }
    return real.curl_easy_setopt(easy, option, value);
}

static void my_easy_cleanup(CURL *easy) {
    set_mark(easy, 0);
    real.curl_easy_cleanup(easy);
}

static int my_timer(CURLM *m, long ms, void *data) {
    (void)data;
    pthread_mutex_lock(&lock);
    multi x = *find_multi(m, 1);
    pthread_mutex_unlock(&lock);
    int every = drop_every;
    if (every > 0 && (timer_calls++ + 1) % every == 0) {
        n_timers++;
        return 0;
    }
    return x.timer != NULL ? x.timer(m, ms, x.timer_data) : 0;
}

static int my_multi_setopt(CURLM *m, int option, ...) {
    va_list ap;
    va_start(ap, option);
    void *value = va_arg(ap, void *);
    va_end(ap);
    if (option != CURLMOPT_TIMERFUNCTION && option != CURLMOPT_TIMERDATA) {
        return real.curl_multi_setopt(m, option, value);
    }
    pthread_mutex_lock(&lock);
    multi *x = find_multi(m, 1);
    if (option == CURLMOPT_TIMERFUNCTION) {
        memcpy(&x->timer, &value, sizeof value);
    } else {
        x->timer_data = value;
    }
    pthread_mutex_unlock(&lock);
    return option == CURLMOPT_TIMERFUNCTION
               ? real.curl_multi_setopt(m, option, my_timer)
               : 0;
}

static int my_add(CURLM *m, CURL *easy) {
    if (is_marked(easy)) {
        holds_marked(m, 1);
        if (take_hang("add")) {
            hang();
        }
    }
    return real.curl_multi_add_handle(m, easy);
}

static int my_remove(CURLM *m, CURL *easy) {
    if (is_marked(easy)) {
        if (take_hang("remove")) {
            hang();
        }
        holds_marked(m, -1);
    }
    return real.curl_multi_remove_handle(m, easy);
}

static int my_action(CURLM *m, curl_socket_t fd, int events, int *running) {
    int mine = holds_marked(m, 0);
    if (mine && take_hang("action")) {
        hang();
    }
    if (mine && fd >= 0 && take_hang("socket")) {
        hang_on(fd);
    }
    int rc = real.curl_multi_socket_action(m, fd, events, running);
    if (mine && take_hang("callback")) { /* our callbacks have been called meanwhile */
        hang();
        rc = real.curl_multi_socket_action(m, CURL_SOCKET_TIMEOUT, 0, running);
    }
    return rc;
}

static int my_multi_cleanup(CURLM *m) {
    if (take_hang("cleanup")) {
        hang();
    }
    pthread_mutex_lock(&lock);
    multi *x = find_multi(m, 0);
    if (x != NULL) { /* the place stays taken, or later ones could not be found */
        *x = (multi){.m = m};
    }
    pthread_mutex_unlock(&lock);
    return real.curl_multi_cleanup(m);
}

static CURLMsg *my_info_read(CURLM *m, int *left) {
    pthread_mutex_lock(&lock);
    multi *x = find_multi(m, 1);
    pthread_mutex_unlock(&lock);
    if (x->has_again) { /* x is its loop's alone but for the counters */
        x->has_again = 0;
        n_twice++;
        return &x->again;
    }
    CURLMsg *msg;
    while ((msg = real.curl_multi_info_read(m, left)) != NULL) {
        if (lose && msg->msg == CURLMSG_DONE && is_marked(msg->easy_handle)) {
            n_lost++;
            continue;
        }
        if (repeat) {
            x->again = *msg;
            x->has_again = 1;
        }
        break;
    }
    return msg;
}

/* --- control -----------------------------------------------------------------------
 */

static void set_text(char *to, size_t cap, const char *from) {
    snprintf(to, cap, "%s", from);
}

static void set_one(const char *name, const char *value) {
    int n = (int)strtol(value, NULL, 10);
    if (strcmp(name, "hang") == 0) {
        set_text(hang_in, sizeof hang_in, value);
    } else if (strcmp(name, "mark") == 0) {
        set_text(mark, sizeof mark, value);
    } else if (strcmp(name, "ms") == 0) {
        hang_ms = n;
    } else if (strcmp(name, "times") == 0) {
        hangs_left = n;
    } else if (strcmp(name, "timers") == 0) {
        drop_every = n;
    } else if (strcmp(name, "lost") == 0) {
        lose = n;
    } else if (strcmp(name, "twice") == 0) {
        repeat = n;
    } else {
        fprintf(stderr, "fake_wedge: there is no \"%s\"\n", name);
        abort();
    }
}

/* Starts anew with what spec says; NULL or "": behave. */
void fake_wedge(const char *spec);
int fake_wedge_count(const char *what);
int fake_wedge_busy(void);
void fake_wedge_release(void);

void fake_wedge(const char *spec) {
    char copy[512];
    char *rest;
    set_text(copy, sizeof copy, spec != NULL ? spec : "");
    pthread_mutex_lock(&lock);
    hang_in[0] = '\0';
    set_text(mark, sizeof mark, "wedge");
    hang_ms = 5000;
    hangs_left = 1;
    drop_every = lose = repeat = 0;
    n_hangs = n_timers = n_lost = n_twice = timer_calls = 0;
    for (char *p = strtok_r(copy, ",", &rest); p; p = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(p, '=');
        if (equals != NULL) {
            *equals = '\0';
            set_one(p, equals + 1);
        }
    }
    pthread_mutex_unlock(&lock);
}

int fake_wedge_count(const char *what) {
    return strcmp(what, "hangs") == 0    ? n_hangs
           : strcmp(what, "timers") == 0 ? n_timers
           : strcmp(what, "lost") == 0   ? n_lost
           : strcmp(what, "twice") == 0  ? n_twice
                                         : -1;
}

int fake_wedge_busy(void) {
    return n_busy;
}

void fake_wedge_release(void) {
    releases++;
}

static void *must_find(void *library, const char *name) {
    void *p = dlsym(library, name);
    if (p == NULL) {
        fprintf(stderr, "fake_wedge: the real libcurl has no %s\n", name);
        abort();
    }
    return p;
}

#define OVERRIDE(name, with)                \
    do {                                    \
        __typeof__(real.name) f = with;     \
        memcpy(&slot_##name, &f, sizeof f); \
    } while (0)

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("HARDFETCH_REAL_LIBCURL");
    if (path == NULL) {
        return; /* linked or listed only; a call would end the process */
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "fake_wedge: %s\n", dlerror());
        abort();
    }
#define FILL(ret, name, args)                \
    slot_##name = must_find(library, #name); \
    memcpy(&real.name, &slot_##name, sizeof(void *));
    HF_CURL_NEEDED(FILL)
    HF_CURL_OPTIONAL(FILL)
    OVERRIDE(curl_easy_setopt, my_setopt);
    OVERRIDE(curl_easy_cleanup, my_easy_cleanup);
    OVERRIDE(curl_multi_setopt, my_multi_setopt);
    OVERRIDE(curl_multi_add_handle, my_add);
    OVERRIDE(curl_multi_remove_handle, my_remove);
    OVERRIDE(curl_multi_socket_action, my_action);
    OVERRIDE(curl_multi_cleanup, my_multi_cleanup);
    OVERRIDE(curl_multi_info_read, my_info_read);
    fake_wedge(getenv("HARDFETCH_WEDGE"));
}
