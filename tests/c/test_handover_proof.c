/* The whole hand-over in small cases, every interleaving: from a loop that ends
 * requests into a full ring to the writer's end, to close, and to the watchdog's
 * take-over.
 *
 * It is the engine itself that runs here, all of csrc/ but record.c, on fake threads, a
 * fake kernel and a fake libcurl (handover/). Each case says what stands around it. It
 * fails when a request has two records, or none and is not accounted for; when the end
 * is told early, or never; when a thread sleeps or spins for ever with something to do;
 * when records come out of order, something starts while records wait for room, or two
 * threads have a shard; when freed memory is touched, or memory is not freed.
 *
 *     test_handover_proof           all of them
 *     test_handover_proof NAME      one
 *
 * tests/test_handover_mutants.py builds this file over broken copies of csrc/.
 */
#include "handover/world.h"

#include "check.h"

#define URL "http://10.0.0.1"

/* ---- Who takes part. ---- */

/* hardfetch/drain.py, Writer._drain: reads to the end. */
static void *reads_all(void *arg) {
    (void)arg;
    int rc = world_read(SEQS);
    ST_CHECK(rc == HF_EEND);
    ST_CHECK((uint64_t)W.n_got + world_dropped() == W.accepted);
    return NULL;
}

/* The same, from an engine that may be closed meanwhile. */
static void *reads_on(void *arg) {
    (void)arg;
    int rc;
    do
        rc = world_read(SEQS);
    while (rc == HF_EINTR);
    ST_CHECK(rc == HF_EEND || rc == HF_ECLOSED);
    return NULL;
}

/* One record, and the sink fails: Run._sink_failed of hardfetch/bulk.py. */
static void *dies(void *arg) {
    (void)arg;
    world_read(1);
    hf_engine_stop(W.e, 0);
    return NULL;
}

/* One record, and no more. */
static void *stands_still(void *arg) {
    (void)arg;
    ST_CHECK(world_read(1) == 0);
    return NULL;
}

static void *finishes(void *arg) {
    (void)arg;
    hf_engine_finish(W.e);
    return NULL;
}

/* Feeds two inputs through a window for one. */
static void *feeds(void *arg) {
    (void)arg;
    for (int i = 0; i < 2; i++) {
        while (world_submit(URL "/\n") == HF_EFULL)
            hf_engine_wait_room(W.e, INT64_MAX / 4);
    }
    hf_engine_finish(W.e);
    return NULL;
}

/* Lets what runs go on; admission ends. */
static void *stops(void *arg) {
    (void)arg;
    hf_engine_stop(W.e, INT64_MAX / 4);
    return NULL;
}

static int writer;

/* Closes at once, waits for the writer, frees: hardfetch/_ffi.py, Engine.close. */
static void *closes(void *arg) {
    (void)arg;
    world_close(writer);
    return NULL;
}

/* Waits for the writer first: Run._wait of hardfetch/bulk.py. */
static void *closes_after(void *arg) {
    (void)arg;
    world_join(writer);
    world_close(writer);
    return NULL;
}

/* ---- Cases. ---- */

static void open_with(const char *lines, void *(*write)(void *)) {
    world_open();
    ST_CHECK(world_submit(lines) == 0);
    writer = st_spawn("writer", write, NULL);
}

static const char two[] = URL "/\n" URL "/no\n";
static const char three[] = URL "/\n" URL "/no\n" URL "/\n";

static void parks(void) {
    world_default();
    open_with(two, reads_all);
    st_spawn("finisher", finishes, NULL);
}

static void parks_references(void) {
    world_default();
    W.by_ref = true;
    open_with(two, reads_all);
    st_spawn("finisher", finishes, NULL);
}

static void parks_two(void) {
    world_default();
    open_with(three, reads_all);
    hf_engine_finish(W.e);
}

static void starts_in_turn(void) {
    world_default();
    W.cfg.max_concurrency = 1;
    open_with(three, reads_all);
    hf_engine_finish(W.e);
}

static void is_fed(void) {
    world_default();
    W.ring = 2 * RECORD;
    W.cfg.window_requests = 1;
    world_open();
    writer = st_spawn("writer", reads_all, NULL);
    st_spawn("feeder", feeds, NULL);
}

static void is_not_read(void) {
    world_default();
    open_with(URL "/\n" URL "/\n" URL "/\n" URL "/\n", stands_still);
}

static void fails_unread(void) {
    world_default();
    open_with(URL "/\n" URL "/\n" URL "/no\n" URL "/no\n", stands_still);
}

static void check_still(void) {
    ST_CHECK(W.n_got == 1);
    ST_CHECK(W.e->shards[0].parked.n >= 2);
}

static void is_stopped(void) {
    world_default();
    W.ring = 2 * RECORD;
    W.cfg.max_per_host = 1;
    open_with(two, reads_all);
    st_spawn("owner", stops, NULL);
}

static void is_closed(void) {
    world_default();
    world_open();
    ST_CHECK(world_submit(two) == 0);
    st_run_to_sleep();
    writer = st_spawn("writer", reads_on, NULL);
    st_spawn("owner", closes, NULL);
}

static void loses_its_writer(void) {
    world_default();
    open_with(two, dies);
    st_spawn("owner", closes_after, NULL);
}

static void open_short(const char *hangs) {
    world_default();
    W.cfg.hard_timeout = W.cfg.timeout = 1;
    W.hangs = hangs;
    writer = 0;
    world_open();
}

static void is_taken_over(void) {
    open_short(NULL);
    ST_CHECK(world_submit(URL "/\n") == 0);
    hf_engine_finish(W.e);
}

static void check_record(void) {
    ST_CHECK(W.e->shared.outstanding == 0 && world_read(SEQS) == HF_EEND);
    ST_CHECK(W.n_got == 1);
}

static void *reads_then(void *arg) {
    st_block(ST_GATE, &W.lost, 0, false, "waits for the take-over", __func__, 0);
    return reads_all(arg);
}

static void *dies_then(void *arg) {
    st_block(ST_GATE, &W.lost, 0, false, "waits for the take-over", __func__, 0);
    return dies(arg);
}

/* The ring is full, so what the watchdog reports parks, until the new loop finds room.
 * The old thread comes back at any later step. */
static void parks_what_is_lost(void) {
    open_short("curl_multi_socket_action");
    ST_CHECK(world_submit(URL "/\n") == 0);
    st_run_to_sleep();
    W.stuck_until = &W.lost;
    ST_CHECK(world_submit(URL "/\n") == 0);
    hf_engine_finish(W.e);
    writer = st_spawn("writer", reads_then, NULL);
}

static void is_taken_over_and_closed(void) {
    open_short("curl_multi_socket_action");
    W.stuck_until = &W.lost;
    ST_CHECK(world_submit(URL "/\n") == 0);
    writer = st_spawn("writer", dies_then, NULL);
    st_spawn("owner", closes_after, NULL);
}

static void hangs_while_closed(void) {
    open_short("curl_multi_socket_action");
    W.stuck_until = &W.closed;
    ST_CHECK(world_submit(URL "/\n") == 0);
    writer = st_spawn("writer", reads_on, NULL);
    st_spawn("owner", closes, NULL);
}

/* The engine's own threads go on until it is closed. */
static bool engine_rests(int number) {
    return st_arg(number) != NULL;
}

#define CASE(...) \
    { .settle = world_settle, .alone = world_alone, __VA_ARGS__ }
static const st_case cases[] = {
    CASE(.name = "two for a ring of one", .setup = parks, .may_rest = engine_rests),
    CASE(.name = "two parked", .setup = parks_two, .may_rest = engine_rests),
    CASE(.name = "one at a time", .setup = starts_in_turn, .may_rest = engine_rests),
    CASE(.name = "the second one a reference", .setup = parks_references,
         .may_rest = engine_rests),
    CASE(.name = "a window of one", .setup = is_fed, .may_rest = engine_rests),
    CASE(.name = "a reader that stands still", .setup = is_not_read,
         .may_rest = engine_rests, .check = check_still),
    CASE(.name = "failures that nobody reads", .setup = fails_unread,
         .may_rest = engine_rests, .check = check_still),
    CASE(.name = "a stop that lets finish", .setup = is_stopped,
         .may_rest = engine_rests),
    CASE(.name = "the writer dies", .setup = loses_its_writer),
    CASE(.name = "closed at any step", .setup = is_closed),
    CASE(.name = "taken over in any call", .setup = is_taken_over,
         .may_rest = engine_rests, .check = check_record, .may_tick = world_hangs,
         .ticks = 3),
    CASE(.name = "taken over with a full ring", .setup = parks_what_is_lost,
         .may_rest = engine_rests, .may_tick = world_hangs, .ticks = 3),
    CASE(.name = "taken over, then closed", .setup = is_taken_over_and_closed,
         .may_tick = world_hangs, .ticks = 3),
    CASE(.name = "closed while a call hangs", .setup = hangs_while_closed,
         .may_tick = world_hangs, .ticks = 1),
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        st_result r = st_explore(&cases[i], 2000000);
        printf("%7ld states, %8ld steps, %4ld ends  %s\n", r.states, r.steps, r.ends,
               cases[i].name);
        if (r.failed)
            printf("%s: %s\n%s", cases[i].name, r.why, r.trace);
        fflush(stdout);
        CHECK(!r.failed);
    }
    return check_result();
}
