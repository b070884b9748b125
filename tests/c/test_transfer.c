/* What easy handles keep of the answers that they have had. */
#include "engine.h"
#include "engine_play.h"

#define SECOND 1000000

/* The handles of all identities. Only while nothing is in flight: they are the loop's
 * then too, but it left them alone before it gave out the last record. */
static int handles(void) {
    int n = 0;
    for (hf_identity *id = P.e->loops[0]->identities; id != NULL; id = id->next) {
        for (hf_transfer *t = id->all; t != NULL; t = t->all) {
            CHECK(*t->at == t);
            n++;
        }
    }
    return n;
}

static int after(const char *path, const char *status) {
    play_get(0, path);
    play_read(P.submitted, 20 * (int64_t)SECOND);
    CHECK(play_has(P.submitted - 1, "status_code", status));
    return handles();
}

static void a_handle_ends_with_what_it_keeps_of_a_large_head(void) {
    play_site();
    P.cfg.loops = 1;
    play_open();
    CHECK_EQ(after("/ok", "200"), 1);
    CHECK_EQ(after("/lines/10000", "200"), 1);
    CHECK_EQ(after("/lines/40000", "200"), 0);
    CHECK_EQ(after("/ok", "200"), 1);
    CHECK_EQ(after("/go/lines/40000", "200"), 0);
    CHECK_EQ(after("/lines/400000", "200"), 0); /* too large, as its record says */
    CHECK(play_has(P.submitted - 1, "error.type", "\"headers_too_large\""));
    CHECK_EQ(after("/ok", "200"), 1);
    CHECK_EQ(after("/line/90000", "200"), 0);
    CHECK_EQ(after("/close", "200"), 1);
    CHECK(play_finish(20 * (int64_t)SECOND) && play_each_once());
    play_close();
}

/* Some go and some stay, wherever they stand in their identity's list. */
static void the_others_serve_on(void) {
    play_site();
    P.cfg.loops = 1;
    P.cfg.max_concurrency = 32;
    P.cfg.max_per_host = 0;
    play_open();
    for (int i = 0; i < 2000; i++) {
        play_get(i % SITE_PORTS, i % 7 == 0   ? "/lines/20000"
                                 : i % 5 == 0 ? "/slow/1"
                                              : "/ok");
    }
    CHECK(play_finish(60 * (int64_t)SECOND) && play_each_once());
    CHECK_EQ(play_count("error", "null"), 2000);
    CHECK(handles() <= 32);
    play_close();
}

int main(void) {
    RUN(a_handle_ends_with_what_it_keeps_of_a_large_head);
    RUN(the_others_serve_on);
    return check_result();
}
