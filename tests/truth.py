"""Runs batches of inputs through the real engine, under what must hold for each.

Exactly one record per input, in valid lines that fit the schema; nothing past its limit
by more than a quarter second; the next request on the same engine succeeds; and
descriptors return to what they were.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import strict

from hardfetch import Fetcher
from hardfetch.testing import Fault, FaultSite

Record = dict[str, Any]
Input = dict[str, Any]

SLACK = 0.25  # seconds that a record may lie behind its limit
PATIENCE = 60.0  # seconds that no batch needs


def descriptors(site: FaultSite) -> int:
    """Open descriptors of this process, but for the site's own connections."""
    held: int = site.stats()["open_now"]
    return len(os.listdir("/proc/self/fd")) - held  # noqa: PTH208


def settled(site: FaultSite) -> int:
    """The count once the connections of earlier tests are gone from both ends."""
    end = time.monotonic() + 1
    while site.stats()["open_now"] and time.monotonic() < end:
        time.sleep(0.001)
    return descriptors(site)


def wait_for_descriptors(site: FaultSite, most: int) -> None:
    end = time.monotonic() + 5
    while descriptors(site) > most and time.monotonic() < end:
        time.sleep(0.01)
    assert descriptors(site) <= most, "descriptors are left open"


def ask(fault: Fault, **more: Any) -> Input:
    """The input that meets a fault, with its name as id."""
    asked: Input = {"url": fault.url, "id": fault.name, **more}
    if fault.proxy is not None:
        asked["proxy"] = fault.proxy
    if fault.method != "GET":
        asked["method"] = fault.method
    if fault.body is not None:
        asked["body"] = fault.body
    return asked


class _Lines(threading.Thread):
    """Reads a pipe to its end and tells when `count` lines have come."""

    def __init__(self, fd: int, count: int) -> None:
        super().__init__(daemon=True)
        self._fd = fd
        self._count = count
        self.data = bytearray()
        self.enough = threading.Event()

    def run(self) -> None:
        while piece := os.read(self._fd, 1 << 16):
            self.data += piece
            if self.data.count(b"\n") >= self._count:
                self.enough.set()
        self.enough.set()


def fetch(site: FaultSite, inputs: Iterable[Input], **options: Any) -> list[Record]:
    """Fetch inputs in one run and return their records in the order of the inputs."""
    given = list(inputs)
    before = settled(site)
    reader, writer = os.pipe()
    lines = _Lines(reader, len(given))
    lines.start()

    def source() -> Iterator[Input]:
        yield from given
        assert lines.enough.wait(PATIENCE), "some records did not come"
        yield {"url": site.url("/1k"), "id": "the next one", "proxy": ""}

    options = {"retries": 0, "cacert": site.cafile, "max_per_host": 0, **options}
    try:
        with Fetcher(**options) as fetcher:
            fetcher.run(source(), writer)
    finally:
        os.close(writer)
        lines.join(PATIENCE)
        os.close(reader)
    records = sorted(strict.read(bytes(lines.data)), key=lambda r: int(r["seq"]))
    assert [r["seq"] for r in records] == list(range(len(given) + 1))
    healthy = records.pop()
    if "schema" in healthy:
        assert (healthy["status_code"], healthy["error"]) == (200, None)
        for record in records:
            overrun = record["limits"]["overrun"]
            assert overrun is None or overrun <= SLACK, record
    wait_for_descriptors(site, before)
    return records


def fetch_faults(
    site: FaultSite, names: Iterable[str], **options: Any
) -> dict[str, Record]:
    """Fetch faults by name; the records by the same names."""
    inputs = [ask(site.fault(name)) for name in names]
    return {record["id"]: record for record in fetch(site, inputs, **options)}


def expect(
    record: Record,
    error: str | tuple[str, ...] | None = None,
    *,
    origin: str | None = None,
    phase: str | None = None,
    truncated: str | None = None,
    status: int | None = None,
    body: bytes | None = None,
    **fields: Any,
) -> None:
    """Hold a record against what it must say; what is not given must be null.

    `body` is that of `strict.body`: with `--body base64` the bytes themselves.
    """
    told = record["error"]
    said = {
        "error": told and told["type"],
        "origin": told and told["origin"],
        "phase": told and told["phase"],
        "truncated": record["truncated"],
        "status": record["status_code"],
        "body": strict.body(record),
        **{name: record[name] for name in fields},
    }
    if isinstance(error, tuple):
        assert said["error"] in error, said
        error = said["error"]
    wanted = {
        "error": error, "origin": origin, "phase": phase, "truncated": truncated,
        "status": status, "body": body, **fields,
    }  # fmt: skip
    assert said == wanted
    if status is not None:
        assert record["attempts"][-1]["status_code"] == status
    assert [a["error"] for a in record["attempts"]][-1:] in ([error], [])
