/* hardfetch's public C contract. Included by C and read as the cffi cdef, so it holds
 * only typedefs, enums, structs, prototypes, integer defines and comments.
 *
 * Rules that hold for all: times are microseconds (us) as int64_t, 0 meaning "off" for
 * limits; sizes are bytes; text is UTF-8; a function that can fail returns a negative
 * HF_E… code (err.h) and puts a sentence into err (errlen bytes, always terminated).
 * Pointers passed in are read during the call only, unless said otherwise.
 */

typedef struct hf_engine hf_engine;

/* TLS sessions that outlive engines, one store for any number of them. */
typedef struct hf_tls_cache hf_tls_cache;

/* How a record's body is told: hf_config.body_mode. */
enum { HF_BODY_AUTO = 0, HF_BODY_TEXT = 1, HF_BODY_BASE64 = 2, HF_BODY_NONE = 3 };

/* What leaves the engine: hf_config.output. LINES: NDJSON. FRAMES: for each record u32
 * length of what follows, u32 length of the JSON line (and bit 31 where it waits for a
 * verdict: hf_config.validate), u64 seq, u64 form, the line (without body and line
 * end), the decoded body's bytes; little endian. The line of a frame has all fields;
 * the form tells hf_record_line of those that are wanted, and of the body. */
enum { HF_OUTPUT_LINES = 0, HF_OUTPUT_FRAMES = 1 };

/* Extension for encrypted ClientHello: hf_config.ech. */
enum { HF_ECH_GREASE = 0, HF_ECH_DNS = 1, HF_ECH_OFF = 2 };

/* What the hosts that match are spared; times in us, 0 = off. */
typedef struct hf_host_limits {
    const char *pattern;      /* glob as of fnmatch(3), lower case */
    int32_t with_port;        /* 1: over host:port; 0: over the host alone */
    int32_t max_per_host;     /* in flight; 0 = no limit */
    double rate;              /* starts per second, evenly spaced; 0 = any */
    int64_t delay;            /* between two starts, at least */
    double jitter;            /* up to this share of delay is added at random */
    int32_t adaptive;         /* 1: find the rate; rate is then its maximum */
    int32_t breaker_failures; /* in a row until it opens */
    int64_t breaker_open;     /* how long it stays open before a probe */
} hf_host_limits;

typedef struct hf_config {
    int32_t loops;           /* loop threads, at least 1 */
    int32_t max_concurrency; /* transfers in flight over all loops */
    int32_t max_per_host;    /* the same per host:port; 0 = no limit */
    int64_t ring_bytes;      /* per loop; a power of two, at least 65536 */
    int64_t window_requests; /* accepted and not yet reported, at most */
    int64_t window_bytes;    /* the same in bytes of input */

    int64_t connect_timeout;    /* us: name, TCP, proxy and TLS of one attempt */
    int64_t first_byte_timeout; /* us from request sent to first response byte */
    int64_t idle_timeout;       /* us without a byte */
    int64_t timeout;            /* us: soft total of one attempt */
    int64_t hard_timeout;       /* us: hard total of one attempt */
    int64_t deadline;           /* us: the whole job from acceptance */

    int64_t max_body;          /* bytes after content decoding */
    int64_t max_wire;          /* bytes of body before decoding */
    int64_t max_ratio;         /* decoded over wire bytes, once past 1 MiB decoded */
    int64_t max_headers;       /* bytes of one response head */
    int32_t max_redirects;     /* -1: redirects are results and not followed */
    int32_t body_mode;         /* HF_BODY_… */
    int32_t headers;           /* 1: the record holds the headers; 0: null */
    int32_t output;            /* HF_OUTPUT_… */
    int32_t verify;            /* 0: certificates are not checked */
    int32_t ip_version;        /* 0, 4 or 6 */
    int32_t ech;               /* HF_ECH_… */
    int32_t deny_private;      /* 1: refuse addresses that are not public */
    int32_t report_unanswered; /* 1: what a stop leaves unfetched gets `shutdown` */
    int32_t validate; /* 1: an answer's record waits for a verdict: hf_verdict.content;
                         where that asks for it, another record of it follows */
    int32_t ask_hops; /* 1: where a redirect leads to, policy is asked before it is
                         followed: HF_EV_HOP */
    int32_t paused;   /* 1: nothing starts before hf_engine_resume */

    const char *libcurl;      /* path of the shared object */
    const char *cainfo;       /* CA bundle (PEM file) for sites and proxies */
    const char *user_agent;   /* "" = none; a caller's header wins */
    const char *proxy;        /* URL, or "" for direct */
    const char *impersonate;  /* curl-impersonate target, or "" */
    const char *http_version; /* "", "1.0", "1.1", "2" or "3" */
    const char *method;       /* default method, or "" */
    const uint8_t *body;      /* default request body */
    int64_t body_len;         /* -1: none */
    const char *dns_servers;  /* "ip[:port],…", or "" */
    hf_tls_cache *tls_cache;  /* the engine takes a hold of its own; NULL = none */
    const char *const *headers_list; /* default "Name: value", NULL-terminated */
    const char *const *resolve;      /* "HOST:PORT:ADDR", NULL-terminated */
    const char *const *allow_nets;   /* CIDR let through deny_private, likewise */
    const char *const *sensitive;    /* header names dropped across origins, likewise */
    const char *const *fields;       /* record fields to write, likewise; NULL = all */

    const hf_host_limits *host_limits; /* the first that matches holds */
    int32_t n_host_limits;             /* hosts without a match: max_per_host alone */

    const char *const *body_patterns; /* texts that make an answer one for policy when
                                         its first 64 KiB hold one; NULL-terminated */
    int32_t ask_bodies; /* 1: policy is asked about each answer that has a body, and
                           gets its first 64 KiB: hf_event.body */

    uint64_t retry_types;       /* bit t: outcomes of type HF_T_t go to policy */
    uint8_t retry_statuses[75]; /* bit n of byte n/8: HTTP status n goes to policy */
} hf_config;

/* Counters since the engine was made; those named *_now are momentary. */
typedef struct hf_stats {
    uint64_t inputs;   /* seq numbers given out */
    uint64_t skipped;  /* of them: answered by an earlier run */
    uint64_t accepted; /* of them: to be answered by this run */
    uint64_t records;  /* put into a ring, each input at most once */
    uint64_t dropped;  /* accepted, but left unanswered by a stop */
    uint64_t started;  /* attempts */
    uint64_t retries;
    uint64_t redirects;
    uint64_t queued_now; /* waiting for their turn */
    uint64_t in_flight_now;
    uint64_t parked_now;    /* finished, waiting for room in the ring */
    uint64_t policy_now;    /* waiting for a verdict or for their back-off */
    uint64_t by_class[6];   /* records by status class 1xx…5xx; [0]: no status */
    uint64_t by_type[48];   /* records by error type HF_T_…; [0]: no error */
    uint64_t bytes_wire;    /* body bytes before decoding */
    uint64_t bytes_body;    /* after decoding */
    uint64_t bytes_out;     /* record bytes put into rings */
    uint64_t bytes_drained; /* record bytes taken out by the sink */
    uint64_t ring_used_now; /* bytes in all rings, by reference included */
    uint64_t ring_capacity; /* bytes of all rings */
    uint64_t ring_full;     /* times a finished transfer had to park */
    uint64_t wakeups;       /* consumer woken by a producer */
    uint64_t lost_wakeups;  /* consumer woke by time-out and found data: a bug if > 0 */
    uint64_t epoll_waits;
    uint64_t epoll_ctls;
    uint64_t timer_sets;
    uint64_t socket_actions;
    uint64_t connects;     /* sockets opened */
    uint64_t shortages;    /* attempts put off for want of descriptors or ports */
    uint64_t breakers;     /* times that the breaker of some host opened */
    uint64_t stalls;       /* libcurl calls longer than 200 ms */
    uint64_t loops_leaked; /* loops given up by the watchdog */
    uint64_t deadlines_fired;
    uint64_t overrun[128]; /* deadlines by overrun: bucket 4k+q holds those from
                              (1+q/4)*2^k us up to (1+(q+1)/4)*2^k us; 0 lies in 0 */
    uint64_t overrun_max;  /* us */
    char stalled_call[32]; /* name of the longest stalled libcurl call, or "" */
    uint64_t stalled_us;   /* and its length */
} hf_stats;

/* One outcome that policy asked to see; the transfer waits for its verdict. */
typedef struct hf_event {
    uint64_t seq;
    int32_t type;   /* HF_T_… */
    int32_t phase;  /* HF_P_… */
    int32_t origin; /* HF_O_… */
    int32_t status; /* HTTP status, 0 = none */
    int32_t curl_code;
    int32_t attempt;       /* 1 = the first */
    int32_t flags;         /* HF_EV_… */
    int32_t proxy;         /* number of the exit in the table, -1 = direct or given */
    int64_t host_requests; /* first attempts to the host so far */
    int64_t at;            /* us on CLOCK_MONOTONIC: when it was told */
    int64_t elapsed;       /* us of this attempt */
    int64_t since;         /* us since acceptance */
    int64_t left;          /* us until the job's deadline; -1 = none */
    int32_t pair_failures; /* in a row of this exit with this host, this one included */
    int64_t exit_quiet;    /* us since the exit answered anybody last; -1 = never */
    char retry_after[64];  /* all such headers, one a line, what is too long left out;
                              where origin is the proxy, of its refusal */
    char date[64];         /* the first one, for the server's clock; "" = none */
    char session[64];      /* cut */
    char host[256];        /* host:port that was asked last, cut */
    char *url; /* with HF_EV_HOP, else NULL: in memory of its own, for hf_event_clear */
    uint8_t *body; /* with ask_bodies, else NULL: likewise */
    int64_t body_len;
} hf_event;

enum {
    HF_EV_REUSED = 1,     /* the connection had served before */
    HF_EV_SENT = 2,       /* request bytes may have reached the server */
    HF_EV_IDEMPOTENT = 4, /* GET, HEAD, OPTIONS, PUT, DELETE, TRACE */
    HF_EV_FRESH = 8,      /* asked for a fresh connection */
    HF_EV_PROBE = 16,     /* the one that a closed gate or breaker let through */
    HF_EV_MATCHED = 32,   /* the body holds one of body_patterns */
    HF_EV_ALIVE = 64,     /* the host answered another since this one began */
    HF_EV_NEWS = 128,     /* told for information: the record is out, no verdict */
    HF_EV_HOP = 256,      /* a redirect leads to `url`; retry: 1 follows it */
    HF_EV_OPENED = 512    /* the breaker of host has opened; NEWS of no request */
};

typedef struct hf_verdict {
    uint64_t seq;
    int32_t retry;   /* 1: again after delay; 0: this outcome is final */
    int32_t fresh;   /* 1: on a new connection */
    int32_t silent;  /* 1: counts as no retry */
    int32_t content; /* 1: what the record holds is bad, policy is to be asked; where it
                        was asked about a body: that was found bad */
    int32_t type;  /* HF_T_… that a request ends as which was held and never tried, or
                      whose redirect is not followed */
    int32_t exit;  /* number of the exit for the next attempt, -1 = none */
    int64_t delay; /* us */
    char proxy[512]; /* URL for the next attempt; "" = as before */
    char denied[32]; /* why there is no retry, or "" */
} hf_verdict;

/* One line of the table of exits (proxies) from which C picks. */
enum { HF_EXIT_UP = 0, HF_EXIT_BENCHED = 1, HF_EXIT_GONE = 2 };

/* Whom an exit serves at a time: anybody, one request, the requests of one session. */
enum { HF_LEASE_NONE = 0, HF_LEASE_REQUEST = 1, HF_LEASE_SESSION = 2 };
typedef struct hf_exit_row {
    int32_t number;
    int32_t tier;      /* the lowest with a live exit serves */
    int32_t state;     /* HF_EXIT_… */
    int32_t exclusive; /* HF_LEASE_… */
    int32_t unproven;  /* in flight at most before its first answer; 0 = any */
    double weight;
    int64_t until; /* us from now: benched until then, then one probe */
    char url[512]; /* with credentials */
} hf_exit_row;

/* What C has seen of an exit. */
typedef struct hf_exit_stats {
    int32_t number;
    int32_t in_flight;
    uint64_t started;
    uint64_t answered;
    int64_t latency; /* us, peak EWMA; 0 = not measured */
} hf_exit_stats;

/* One request as bytes: u32 length of what follows, then items of u8 tag, u32 length,
 * bytes; little endian. Unknown tags are refused. */
enum {
    HF_TAG_URL = 1,   /* as given */
    HF_TAG_INPUT = 2, /* the whole line, where no url could be found in it */
    HF_TAG_ID = 3,    /* JSON text */
    HF_TAG_META = 4,  /* JSON text */
    HF_TAG_METHOD = 5,
    HF_TAG_HEADER = 6, /* "Name: value"; may repeat */
    HF_TAG_BODY = 7,
    HF_TAG_PROXY = 8, /* URL, "" = direct */
    HF_TAG_SESSION = 9,
    HF_TAG_IMPERSONATE = 10,
    HF_TAG_HTTP_VERSION = 11,
    HF_TAG_CONNECT_TIMEOUT = 12, /* i64 us, as the next five */
    HF_TAG_FIRST_BYTE_TIMEOUT = 13,
    HF_TAG_IDLE_TIMEOUT = 14,
    HF_TAG_TIMEOUT = 15,
    HF_TAG_HARD_TIMEOUT = 16,
    HF_TAG_DEADLINE = 17,
    HF_TAG_FRESH = 18,   /* no bytes */
    HF_TAG_INVALID = 19, /* why the input is no request: it gets its record only */
    HF_TAG_HOLD = 20     /* no bytes: nothing is sent before a verdict lets it */
};

/* Fills cfg with the defaults of the contract; pointers become "" or NULL. */
void hf_config_default(hf_config *cfg);

/* Loads libcurl, allocates and starts the threads of a new engine.
 * Thread: any. The result belongs to the caller, who ends it with hf_engine_free.
 * Returns NULL with err set: a bad value, libcurl unfit, no memory, no descriptors.
 */
hf_engine *hf_engine_new(const hf_config *cfg, char *err, size_t errlen);

/* The same in two steps, for a caller who may be torn out of any line: memory only,
 * which has its owner before there are threads and descriptors to lose.
 * hf_engine_start is called once, also with NULL, which is HF_ENOMEM; where it fails,
 * hf_engine_free is due all the same.
 */
hf_engine *hf_engine_alloc(void);
int hf_engine_start(hf_engine *e, const hf_config *cfg, char *err, size_t errlen);

/* Starts an engine that was made paused. */
int hf_engine_resume(hf_engine *e);

/* Marks input numbers that need no answer: bit n of bitmap, nbits in all. Before the
 * first submission only; the bytes are copied. */
int hf_engine_skip(hf_engine *e, const uint8_t *bitmap, uint64_t nbits);

/* Takes lines of input. Blank lines and those that start with '#' are passed over; each
 * other line gets the next seq. Stops in front of a line of JSON (it starts with '{',
 * '"', '["' or '[{') and in front of an unfinished last line, unless last is 1.
 * Thread: one at a time with hf_engine_submit.  Blocks: no.
 * Returns 0 when all was taken or more input is needed; HF_EAGAIN when the next line is
 * JSON; HF_EFULL when the window is full. *used tells the bytes taken in each case.
 */
int hf_engine_submit_lines(hf_engine *e, const uint8_t *data, size_t len, int last,
                           size_t *used, char *err, size_t errlen);

/* Takes requests in the packed form. *used tells the bytes taken, *seq the number that
 * the first request taken got. Returns 0, HF_EFULL, or HF_EINVAL for a broken frame. */
int hf_engine_submit(hf_engine *e, const uint8_t *frames, size_t len, size_t *used,
                     uint64_t *seq, char *err, size_t errlen);

/* Waits until the window has room.
 * Blocks: up to timeout. Returns 0, HF_EAGAIN after the time, HF_EINTR, HF_ECLOSED. */
int hf_engine_wait_room(hf_engine *e, int64_t timeout);

/* No more input will come: the output ends once everything has its record. */
int hf_engine_finish(hf_engine *e);

/* Writes records to fd until none waits. fd may be blocking: it is polled, and written
 * in pieces that do not block.
 * Thread: the consumer, one at a time with hf_engine_read.  Blocks: up to timeout.
 * Returns bytes written, 0 when nothing came or fd took nothing within timeout, HF_EEND
 * after the last record, HF_EINTR, HF_EPIPE, or HF_EIO with err set.
 */
int64_t hf_engine_drain(hf_engine *e, int fd, int64_t timeout, char *err,
                        size_t errlen);

/* Copies record bytes into buf. Returns as hf_engine_drain. */
int64_t hf_engine_read(hf_engine *e, uint8_t *buf, size_t cap, int64_t timeout);

/* Gives whole frames in place, about a quarter of a MiB at most unless one is larger.
 * Valid:  until the next call by the consumer, which passes over them.
 * Returns the bytes at *data, else as hf_engine_drain; HF_ENOMEM loses nothing. */
int64_t hf_engine_view(hf_engine *e, const uint8_t **data, int64_t timeout);

/* An eventfd that polls readable when hf_engine_read would return at once. Arm before
 * each wait: returns 1 when data is there already, else 0 and the descriptor will tell.
 */
int hf_engine_output_fd(hf_engine *e);
int hf_engine_output_arm(hf_engine *e);

/* Takes up to max outcomes for policy. Blocks: up to timeout.
 * Returns the count, HF_EAGAIN after the time, HF_EEND when no more can come, HF_EINTR.
 */
int hf_engine_events(hf_engine *e, hf_event *events, int max, int64_t timeout);

/* Frees what an event holds. Each event is to be cleared once. */
void hf_event_clear(hf_event *event);

/* Answers them. A verdict for a request that has ended meanwhile is passed over. */
int hf_engine_verdicts(hf_engine *e, const hf_verdict *verdicts, int n);

/* Lets nothing to host (host:port) start for wait us, then one probe first. */
int hf_engine_gate(hf_engine *e, const char *host, int64_t wait);

/* Spaces the starts to host by delay us at least, as a robots.txt asks. */
int hf_engine_host_delay(hf_engine *e, const char *host, int64_t delay);

/* Replaces lines of the table of exits; with the first one every request without a
 * proxy of its own goes through an exit. A request that finds none waits up to
 * wait_limit us and then ends as `no_proxy_available`. A session keeps its exit for
 * sticky us. */
int hf_engine_exits(hf_engine *e, const hf_exit_row *rows, int n, int64_t wait_limit,
                    int64_t sticky);

/* For wait us, no request to host (host:port) leaves by exit `number` where there is
 * another; with number -1, its requests start at `tier`. 0 us: no longer. */
int hf_engine_avoid(hf_engine *e, const char *host, int32_t number, int32_t tier,
                    int64_t wait);

/* Fills up to max lines. Returns the count. */
int hf_engine_exit_stats(hf_engine *e, hf_exit_stats *out, int max);

/* Ends request seq with a record `cancelled`, unless it has its record already. */
int hf_engine_cancel(hf_engine *e, uint64_t seq);

/* Stops admission. What is in flight may go on for drain us, then it is aborted; what
 * never started is dropped, or reported as `shutdown` with report_unanswered. May be
 * called again to shorten the time. */
int hf_engine_stop(hf_engine *e, int64_t drain);

/* Wakes every blocked call of the engine: each returns HF_EINTR once. Any thread. */
void hf_engine_interrupt(hf_engine *e);

/* Returns 0, HF_EFORK or HF_ECLOSED, and zeroes then. */
int hf_engine_stats(hf_engine *e, hf_stats *out);

/* Stops at once and joins the threads; blocked calls return, and what waits in calls to
 * come is HF_ECLOSED. The memory stays, and what calls under way use with it. May be
 * called again. In a child of the process that made it, nothing is touched.
 * Thread: any.
 * Blocks: up to 2 s, for a loop stuck inside libcurl, which is then left behind. */
void hf_engine_close(hf_engine *e);

/* The same, and frees all. No call may be under way. NULL is allowed. */
void hf_engine_free(hf_engine *e);

/* What libcurl at path is: its version text, absent optional symbols, abilities. */
typedef struct hf_library {
    char version[256];
    char missing[512];
    int32_t version_num;
    int32_t impersonates;
    int32_t decodes;
} hf_library;
int hf_library_probe(const char *path, hf_library *out, char *err, size_t errlen);

/* 1 when this libcurl knows the impersonation target. */
int hf_library_impersonates(const char *path, const char *target);

/* Names of the closed lists, for Python: NULL past the end. */
const char *hf_name_type(int32_t type);
const char *hf_name_phase(int32_t phase);
const char *hf_name_origin(int32_t origin);
const char *hf_name_code(int32_t code);

/* ---- TLS sessions kept over runs (tlscache.h) ---- */

/* Makes a store of what hf_tls_cache_save wrote, len 0: an empty one. Bytes that were
 * saved, but are damaged or of another version, make an empty one as well. now is Unix
 * time in seconds, as below. Thread: any. The caller has one hold of the result.
 * Returns NULL with err set when the bytes were never a store's, or without memory. */
hf_tls_cache *hf_tls_cache_new(const uint8_t *saved, size_t len, int64_t now, char *err,
                               size_t errlen);

/* Writes what is valid still into out, if cap bytes are enough. The bytes resume TLS
 * sessions: keep them as a key. Host names stand in them, identities only as hashes.
 * Thread: any. Returns the bytes that are needed. */
int64_t hf_tls_cache_save(hf_tls_cache *c, uint8_t *out, size_t cap, int64_t now);

/* Gives up a hold; the last one frees. NULL is allowed. Thread: any. */
void hf_tls_cache_free(hf_tls_cache *c);

/* ---- guard: deadlines of the caller's own threads; needs no engine (guard.h) ---- */

/* What a process ended by a guard exits with: EX_SOFTWARE of sysexits.h. */
enum { HF_GUARD_EXIT = 70 };

/* The highest free real-time signal below `below` (0: of all), or 0 when none is. */
int hf_guard_free_signal(int below);

/* Says which signals the guard uses. kick ends blocking system calls of a late thread
 * with EINTR and gets an empty handler unless it has one; dump, raised in a thread of
 * the guard's own, is to print the stacks where hf_guard_tell did not come, and is
 * passed over while nobody handles it.
 * Thread: any, before the first hf_guard_arm. Returns 0, HF_EINVAL, HF_ESYS. */
int hf_guard_signals(int kick, int dump);

/* Watches the calling thread: kicks it from `due` us on until that is acknowledged, and
 * grace us later tells on stderr that the thread is stuck, with all stacks; then ends
 * the process with HF_GUARD_EXIT when `exits` is 1.
 * Returns a number above 0 for the calls below, HF_ENOMEM, or HF_ESYS (no thread). */
int64_t hf_guard_arm(int64_t due, int64_t grace, int exits);

/* The thread runs: nothing more happens for `due` us, when it is late again.
 * Thread: any. Returns 0, or HF_EINVAL when nothing is armed under this number. */
int hf_guard_ack(int64_t id, int64_t due);

/* Gives the stacks of a thread that is stuck, to be told on stderr; copied. Reading
 * them is only safe while no other thread runs Python, so whoever holds the
 * interpreter's lock does it. Where nobody comes, the lock is held by the stuck thread,
 * and the dump signal is safe. Thread: any. Returns 1 when they are told, 0 when
 * nothing is to be told (yet, or any more), HF_ENOMEM. */
int hf_guard_tell(int64_t id, const char *text, size_t len);

/* Ends the watch. Thread: any. A number that is not armed is passed over. */
void hf_guard_disarm(int64_t id);

/* Ends all watches and refuses new ones: for an interpreter about to take its signal
 * handlers down. Any thread. */
void hf_guard_stop(void);

/* ---- resume: what an earlier output has answered; needs no engine (resume.h) ---- */

typedef struct hf_resume hf_resume;

/* Returns NULL without memory. The caller frees it with hf_resume_free. */
hf_resume *hf_resume_new(void);
void hf_resume_free(hf_resume *r);

/* Takes the whole lines of data, which are records of a run. *used tells the bytes
 * taken, up to the last line end. Returns 0, HF_ENOMEM, or HF_EINVAL with err set for
 * what is no record, tells too little or answers a seq again. */
int hf_resume_records(hf_resume *r, const uint8_t *data, size_t len, size_t *used,
                      char *err, size_t errlen);

/* Takes inputs as hf_engine_submit_lines and hf_engine_submit do, after all records.
 * Lines are taken until the last answered input was seen. Return 0, HF_ENOMEM;
 * HF_EAGAIN when the next line is JSON; HF_EINVAL for a broken frame. */
int hf_resume_lines(hf_resume *r, const uint8_t *data, size_t len, size_t *used);
int hf_resume_frames(hf_resume *r, const uint8_t *frames, size_t len);

/* Whether the inputs seen are those of the records.
 * Returns 0, or HF_EINVAL with err set: the inputs have changed. */
int hf_resume_verdict(const hf_resume *r, char *err, size_t errlen);

uint64_t hf_resume_count(const hf_resume *r); /* records */
uint64_t hf_resume_end(const hf_resume *r);   /* highest seq answered + 1, 0 = none */
uint64_t hf_resume_seen(const hf_resume *r);  /* inputs */

/* Fills out, (hf_resume_end + 7) / 8 bytes, for hf_engine_skip. */
void hf_resume_bitmap(const hf_resume *r, uint8_t *out);

/* ---- of the Python module alone (pyabi/) ---- */

/* list is the address of a Python list of three: dumps, option, help. Appends the
 * functions write, put, take, look, seal and total over new lines of their own.
 * Thread: any, without the interpreter's lock. Returns 0 or HF_ENOMEM. */
int hf_python_lines(void *list);

/* list is the address of a Python list. Appends line(head, body, form), which makes of
 * a frame's parts, two bytes and an int, the record's line as bytes; and pack(given,
 * options, headers, limits, dumps, option), which makes of a request that is a dict its
 * packed form, or None where Python is to look at it (pyabi/pack.c).
 * Thread: any, without the interpreter's lock. Returns 0 or HF_ENOMEM. */
int hf_python_builtins(void *list);
