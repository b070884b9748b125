"""The hosts that made most trouble, in bounded memory."""

from __future__ import annotations

from hardfetch.tally import HostTally


def test_the_worst_come_first() -> None:
    tally = HostTally()
    for host, times in (("a:80", 2), ("b:80", 5), ("c:80", 5)):
        for n in range(times):
            tally.failed(host, 10 * n, "timeout" if n else "429")
    worst = tally.worst(2)
    assert [(one.host, one.failures) for one in worst] == [("b:80", 5), ("c:80", 5)]
    assert (worst[0].requests, worst[0].last) == (40, "timeout")


def test_openings_are_counted_beside_failures() -> None:
    tally = HostTally()
    tally.failed("a:80", 3, "timeout")
    for host in ("a:80", "b:80", "a:80"):
        tally.opened(host)
    assert [(one.host, one.failures, one.opened) for one in tally.worst()] == [
        ("a:80", 1, 2),
        ("b:80", 0, 1),
    ]


def test_only_those_that_failed_last_are_kept() -> None:
    tally = HostTally(max_hosts=2)
    for host in ("a:80", "b:80", "a:80", "c:80"):
        tally.failed(host, -1, "429")
    assert {one.host for one in tally.worst()} == {"a:80", "c:80"}
