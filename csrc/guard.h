/* A watch over the caller's own threads, for deadlines that Python alone can't keep.
 *
 * Python runs signal handlers and asynchronous exceptions between bytecodes only. While
 * C code holds a thread, nothing of Python's can. So a C thread that never touches
 * Python keeps the list of armed deadlines and acts from outside: first it makes
 * blocking system calls of the late thread return with EINTR, again and again, because
 * a signal that comes just before such a call is lost on it; then it tells on stderr;
 * then, if asked to, it ends the process, since a thread inside C can't be taken back.
 *
 * Invariant: everything is under one lock, which is never held across I/O or a signal
 * to a thread that might need it. A number is used once, so an old one finds nothing.
 * A forked child starts with an empty list, as POSIX clears its timers too.
 *
 * It raises no exception (hardfetch/guard.py does) and knows no engine. The functions
 * are in api.h.
 */
#ifndef HF_GUARD_H
#define HF_GUARD_H

#include "hf.h"

/* us from the deadline to the first kick: the time Python gets to act by itself. */
#define HF_GUARD_KICK_AFTER 10000

/* us between kicks: the first ten, then the others. */
#define HF_GUARD_KICK_EVERY 20000
#define HF_GUARD_KICK_LATER 250000

/* us past the grace that Python gets to bring the stacks. Less where the process ends
 * anyway: then a crash of the dump is only a less tidy end. */
#define HF_GUARD_TELL_WAIT 1000000
#define HF_GUARD_TELL_WAIT_EXITS 50000

/* us before the end of the grace at which stacks are taken: clocks are read twice. */
#define HF_GUARD_TELL_EARLY 2000

/* us that printing stacks may take before the process is ended without. A stderr that
 * nobody reads must not keep it alive. */
#define HF_GUARD_DUMP_LIMIT 500000

#endif
