"""The command line of each client for a workload, and what one run of it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from workloads import CACHING, OURS

from hardfetch import profiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servers import Site
    from workloads import Workload

HERE = Path(__file__).parent
LIMIT = 300  # seconds for any one command


@dataclass(frozen=True)
class Cost:
    """What a process took: CPU and time in seconds, memory in bytes."""

    cpu: float
    kernel: float  # the part of cpu in the kernel
    elapsed: float
    rss: int
    failed: int = 0  # requests


@dataclass(frozen=True)
class Place:
    """Where programs, files and outputs are."""

    build: Path
    folder: Path
    python: str = sys.executable

    @property
    def records(self) -> Path:
        return self.folder / "records"

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"


def libcurl() -> str:
    """Return the path of curl_cffi's shared object."""
    spec = find_spec("curl_cffi._wrapper")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


def run(place: Place, command: Sequence[str | Path]) -> Cost:
    """Run the command by bench_cost. Raises RuntimeError with its words if it fails."""
    told = place.folder / "cost.json"
    done = subprocess.run(
        [place.build / "bench_cost", told, *command],
        cwd=place.folder,  # python -m looks there first
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "HARDFETCH_LIBCURL": libcurl()},
        timeout=LIMIT,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command[:6]))
        raise RuntimeError(f"{words}: {done.stderr.decode(errors='replace')[-2000:]}")
    raw = json.loads(told.read_text())
    cpu = raw["user"] + raw["system"]
    return Cost(cpu, raw["system"], raw["elapsed"], raw["rss_kb"] * 1024)


def _tls(work: Workload, site: Site) -> list[str]:
    return ["--cacert", str(site.bundle)] if work.tls else []


def _resolve(work: Workload, site: Site) -> list[str]:
    entries = site.resolve() if work.page == "hosts" else []
    return [word for entry in entries for word in ("--resolve", entry)]


def _profile(work: Workload) -> list[str]:
    return ["--impersonate", work.impersonate] if work.impersonate else []


def _floor(work: Workload, site: Site, place: Place, urls: Path) -> list[str]:
    # An alias as `chrome` is none of libcurl's: all are to wear the same profile.
    name = profiles.resolve("impersonate", work.impersonate or "")
    profile = ["--impersonate", name] if name else []
    output = {"file": ["-o", str(place.records)], "null": ["-o", os.devnull]}
    return [
        str(place.build / "bench_floor"),
        f"-c{work.concurrency}",
        *output.get(work.output, []),
        *(["--timeout", f"{work.timeout * 1000:.0f}"] if work.page == "hang" else []),
        *(["--compressed"] if work.compressed else []),
        *_tls(work, site),
        *profile,
        *_resolve(work, site),
        str(urls),
    ]


def _hardfetch(
    client: str, work: Workload, site: Site, place: Place, urls: Path
) -> list[str]:
    output = str(place.records) if work.output == "file" else os.devnull
    kept = ["--tls-cache", str(place.sessions)] if client in CACHING else []
    return [
        *(place.python, "-m", "hardfetch", "fetch", "--quiet", "--retries", "0"),
        *("-o", output, "-c", str(work.concurrency), "--max-per-host", "0"),
        *("--timeout", str(work.timeout)),
        *kept,
        *_tls(work, site),
        *_profile(work),
        *_resolve(work, site),
        str(urls),
    ]


def _peer(
    client: str, work: Workload, site: Site, place: Place, urls: Path
) -> list[str]:
    name, _, variant = client.partition("-grease")
    output = {
        "file": ["--output", str(place.records)],
        "null": ["--output", "/dev/null"],
    }
    return [
        *(place.python, str(HERE / "peers.py"), name, "--urls", str(urls)),
        *output.get(work.output, []),
        *("--concurrency", str(work.concurrency), "--timeout", str(work.timeout)),
        *(["--grease"] if client != name or variant else []),
        *_tls(work, site),
        *_profile(work),
        *_resolve(work, site),
    ]


def command(
    client: str, work: Workload, site: Site, place: Place, urls: Path
) -> list[str]:
    """Return the command by which the client does the work for the URLs in a file."""
    if client == "floor":
        return _floor(work, site, place, urls)
    if client in OURS:
        return _hardfetch(client, work, site, place, urls)
    return _peer(client, work, site, place, urls)


def failures(client: str, work: Workload, place: Place, n: int) -> int:
    """Return how many of n requests came out worse than they must.

    Raises RuntimeError for a client whose output is not one line for each, and for
    hardfetch whatever has failed.
    """
    if work.output != "file" or client == "floor":
        return 0
    lines = good = 0
    # Not read at once: over a GB of memory, then free, would change what the next
    # client's writes cost, by whether the host has taken it back.
    with place.records.open("rb") as records:
        for line in records:
            lines += line.endswith(b"\n")
            good += b'"status_code":200,"http_version"' in line
    bad = work.good(n) - good
    if lines != n or (bad != 0 and client in OURS):
        raise RuntimeError(
            f"{client} wrote {lines} records, {good} of them good, for {n} requests"
        )
    return bad


def measure(client: str, work: Workload, site: Site, place: Place, n: int) -> Cost:
    """Let the client fetch n URLs of the workload and return what that took."""
    urls = place.folder / "urls"
    urls.write_text("".join(f"{url}\n" for url in work.urls(site, n)))
    place.records.unlink(missing_ok=True)
    if n == 1 and client in CACHING:
        client = "hardfetch"  # what start-up is without them
    if client == "hardfetch-first":
        place.sessions.unlink(missing_ok=True)
    cost = run(place, command(client, work, site, place, urls))
    bad = failures(client, work, place, n)
    place.records.unlink(missing_ok=True)
    return replace(cost, failed=bad)
