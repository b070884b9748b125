"""Exceptions at any line, by signals and deadlines: nothing is left for good."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hardfetch.testing import FaultSite

LIMIT = 60
TORN = 25  # times that each use is torn

#: Does argv[1] again and again; its first line that is not "same" tells what was left.
SCRIPT = """
import gc, os, random, signal, sys, threading, time, hardfetch

class Torn(Exception):
    pass

def tear(*_):
    raise Torn

def held():
    return len(os.listdir("/proc/self/fd")), threading.active_count()

def same(now):
    return all(some <= before for some, before in zip(now, base))

def settle():  # threads of what was torn end by themselves, within moments
    end = time.monotonic() + 20
    while True:
        gc.collect()
        now = held()
        if same(now) or time.monotonic() > end:
            return now
        time.sleep(0.02)

way, url, out, times = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
fetcher = hardfetch.Fetcher(retries=0, max_per_host=0)
USES = {
    "map": lambda: list(fetcher.map([url] * 20)),
    "map left early": lambda: next(fetcher.map([url] * 20)),
    "run": lambda: fetcher.run([url] * 20, out),
    "fetch": lambda: hardfetch.Fetcher(retries=0).fetch(url),
}
use = USES[way]
base = held()
began = time.monotonic()
use()
took = time.monotonic() - began
random.seed(7)
sys.unraisablehook = lambda *_: None  # a finally that is torn inside a generator's end
torn = 0
end = time.monotonic() + 40

def by_signals():
    global torn
    signal.signal(signal.SIGALRM, tear)
    while torn < times and time.monotonic() < end:
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, took * 1.5))
                use()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Torn:
            torn += 1
    signal.signal(signal.SIGALRM, signal.SIG_IGN)

def by_deadlines():
    global torn
    while torn < times and time.monotonic() < end:
        try:
            with hardfetch.deadline(random.uniform(1e-3, took * 1.5)):
                use()
        except hardfetch.DeadlineExceeded:
            torn += 1

if sys.argv[5] == "signals":
    by_signals()
else:  # in threads, where exceptions are set from outside
    threads = [threading.Thread(target=by_deadlines) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    base = base[0], base[1] + 1  # the thread beside all deadlines stays
now = settle()
names = [thread.name for thread in threading.enumerate()]
print("same" if same(now) and torn else (torn, base, now, names))
fetcher.fetch(url).raise_for_status()  # it goes on as if nothing had been
print("fine")
"""


WAYS = ["map", "map left early", "run", "fetch"]
CASES = [(way, "signals") for way in WAYS] + [("map", "deadlines")]


@pytest.mark.parametrize(("way", "by"), CASES)
def test_what_an_exception_tears_leaves_no_thread_and_no_descriptor(
    site: FaultSite, tmp_path: object, way: str, by: str
) -> None:
    arguments = [way, site.url("/1k"), f"{tmp_path}/o", str(TORN), by]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT * 2,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["same", "fine"], done.stdout + done.stderr
