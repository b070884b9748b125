"""Compare hardfetch with bare libcurl and with other clients.

    python bench/compare.py [--full] [--workloads 1k,30k] [--clients …] [--save FILE]

Each client runs in a process of its own, one after the other, in several rounds that
start with another one each. Figures are medians over the rounds:

CPU µs/request: user and system time of the whole process, threads and start-up
included, less that of the same command for a single URL just before, over the
requests.
requests/s: requests over wall time, likewise less the time of a single URL.
peak memory: of the whole process, as the kernel counts it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import certifi
import servers
import writers
from clients import Cost, Place, measure
from workloads import LONG, NEAR, WORKLOADS, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import Site


@dataclass
class Row:
    """What one client took for one workload, by rounds."""

    n: int
    bases: list[Cost] = field(default_factory=list)
    runs: list[Cost] = field(default_factory=list)

    @property
    def startup(self) -> float:
        """CPU seconds of a run for one URL."""
        return median(cost.cpu for cost in self.bases)

    @property
    def micros(self) -> float:
        """CPU µs per request."""
        return median(self._each(lambda cost: cost.cpu))

    @property
    def kernel(self) -> float:
        """The part of them in the kernel."""
        return median(self._each(lambda cost: cost.kernel))

    @property
    def spread(self) -> tuple[float, float]:
        """CPU µs per request of the cheapest and of the dearest round."""
        each = self._each(lambda cost: cost.cpu)
        return min(each), max(each)

    def _each(self, part: Callable[[Cost], float]) -> list[float]:
        # Of its own round: a machine that others share is slow for seconds on end.
        pairs = zip(self.runs, self.bases, strict=True)
        return [(part(run) - part(base)) / self.n * 1e6 for run, base in pairs]

    @property
    def rate(self) -> float:
        """Requests per second."""
        base = median(cost.elapsed for cost in self.bases)
        return self.n / max(median(c.elapsed for c in self.runs) - base, 1e-3)

    @property
    def rss(self) -> float:
        """Peak memory in MB."""
        return max(cost.rss for cost in self.runs) / 1e6


@dataclass
class Table:
    """A workload's rows, and what the server took of CPU per request of the floor."""

    work: Workload
    server: str
    rows: dict[str, Row]
    server_micros: float = 0.0

    def lines(self) -> Iterator[str]:
        against = self.work.against
        yield f"### {self.work.name}: {self.work.title}"
        yield ""
        yield (
            "| client | CPU µs/request | rounds from, to | in the kernel "
            f"| / {against} | requests/s | peak MB | start-up ms |"
        )
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        one = self.rows[against].micros if against in self.rows else None
        for name, row in sorted(self.rows.items(), key=lambda item: item[1].micros):
            ratio = f"{row.micros / one:.2f}" if one else ""
            worst = max(cost.failed for cost in row.runs)
            told = f"{name} ({worst} failed)" if worst else name
            least, most = row.spread
            yield (
                f"| {told} | {row.micros:.1f} | {least:.1f}, {most:.1f} "
                f"| {row.kernel:.1f} | {ratio} "
                f"| {row.rate:,.0f} | {row.rss:.0f} | {row.startup * 1000:.0f} |"
            )
        yield ""
        rounds = min(len(row.runs) for row in self.rows.values())
        most = max(len(row.runs) for row in self.rows.values())
        warm = ", each after one that does not count" if self.work.warm else ""
        told = f"{self.work.concurrency:,} in flight, {rounds} rounds{warm}"
        near = " and ".join(name for name in NEAR if name in self.rows)
        told += f" ({most} of {near}); " if most > rounds else "; "
        told += self.server
        if self.server_micros:
            told += (
                f" took {self.server_micros:.1f} µs of CPU per request of the floor,"
                f" so one core of it serves {1e6 / self.server_micros:,.0f}/s"
            )
        yield f"{told}."
        yield ""


def compare(
    work: Workload,
    clients: list[str],
    site: Site,
    place: Place,
    rounds: int,
    note: Callable[[dict[str, object]], None],
) -> Table:
    """Run every client on the workload, interleaved; note what each run took."""
    rows = {name: Row(work.number(name)) for name in clients}
    table = Table(work, site.name, rows)
    taken: list[float] = []
    for turn in range(rounds * work.times):
        for k in range(len(clients)):
            name = clients[(k + turn) % len(clients)]
            if turn >= rounds and name not in NEAR:
                continue
            row = rows[name]
            row.bases.append(measure(name, work, site, place, 1))
            if work.warm:
                measure(name, work, site, place, row.n)
            before = site.cpu()
            cost = measure(name, work, site, place, row.n)
            row.runs.append(cost)
            note({"workload": work.name, "client": name, "n": row.n, **asdict(cost)})
            if name == "floor":
                taken.append((site.cpu() - before) / row.n * 1e6)
            print(".", end="", file=sys.stderr, flush=True)
    print(f" {work.name}", file=sys.stderr)
    table.server_micros = median(taken) if taken else 0.0
    return table


@contextlib.contextmanager
def sites(work: Workload, main: Site | None, place: Place) -> Iterator[Site | None]:
    """Give the site that the workload is for; None when it cannot be had."""
    roots = Path(certifi.where())
    if work.delay_ms is not None:
        options = ["--delay-ms", str(work.delay_ms), "--addresses", str(work.hosts)]
        with servers.own(place.build, roots, *options) as site:
            yield site
    elif main is not None:
        yield main
    elif work.tls or work.compressed:
        yield None
    else:
        page = place.folder / "page"
        page.write_bytes(servers.html({"1k": 1024, "30k": 30 * 1024}[work.page]))
        with servers.own(place.build, roots, "--body", str(page)) as site:
            yield site


def machine() -> Iterator[str]:
    """Tell where and with what this was measured."""
    with Path("/proc/cpuinfo").open() as info:
        models = [line.split(":")[1].strip() for line in info if "model name" in line]
    yield f"- {models[0] if models else platform.machine()}, {os.cpu_count()} CPUs"
    yield f"- Linux {platform.release()}, Python {platform.python_version()}"
    yield f"- load average before: {os.getloadavg()[0]:.1f}"
    names = ("hardfetch", "curl_cffi", "pycurl", "aiohttp", "httpx", "wreq", "primp")
    found = []
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            found.append(f"{name} {version(name)}")
    yield f"- {', '.join(found)}"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if commit:
        yield f"- commit {commit}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all workloads")
    parser.add_argument("--workloads", help="names, separated by commas")
    parser.add_argument("--clients", help="names, separated by commas")
    parser.add_argument("--rounds", type=int, help="[5, with --full 7]")
    parser.add_argument("--build", type=Path, default=Path("build/bench"))
    parser.add_argument("--save", type=Path, help="write the report there too")
    parser.add_argument("--raw", type=Path, help="write each run's cost there, NDJSON")
    parser.add_argument("--list", action="store_true", help="show the workloads")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Workload]:
    """Return the workloads asked for."""
    if options.workloads:
        by_name = {work.name: work for work in WORKLOADS}
        names = options.workloads.split(",")
        return [by_name[name] for name in names if name != "writers"]
    return [work for work in WORKLOADS if options.full or work.quick]


def clients_of(work: Workload, options: argparse.Namespace) -> list[str]:
    """Return those of the workload's clients that were asked for."""
    if options.clients:
        names = options.clients.split(",")
        return [name for name in names if name in work.clients]
    short = not (options.full or options.workloads)
    return [name for name in work.clients if not (short and name in LONG)]


def raise_file_limit() -> int:
    """Let clients have as many sockets as this user may; return the number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def tables(
    options: argparse.Namespace,
    place: Place,
    main: Site | None,
    failed: list[str],
    note: Callable[[dict[str, object]], None],
) -> Iterator[Table]:
    """Measure each workload that this machine can have; note those that failed."""
    files = raise_file_limit()
    for work in chosen(options):
        with sites(work, main, place) as site:
            if site is None:
                print(f"{work.name} is left out: it needs nginx", file=sys.stderr)
                continue
            if files < work.concurrency + 200:
                print(f"{work.name} is left out: ulimit -n", file=sys.stderr)
                continue
            clients = clients_of(work, options)
            if not clients:
                continue
            rounds = options.rounds or (7 if options.full else 5)
            try:
                yield compare(work, clients, site, place, rounds, note)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed.append(work.name)
                print(f"\n{work.name} has failed: {error}", file=sys.stderr)


def main() -> None:
    options = arguments()
    if options.list:
        for work in WORKLOADS:
            print(f"{work.name:22} {work.title}")
        return
    failed: list[str] = []
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        place = Place(options.build.resolve(), Path(name))
        site = None
        if servers.nginx_path():
            roots = Path(certifi.where())
            site = stack.enter_context(servers.nginx(place.folder, roots))
        report = [
            *machine(),
            f"- `{' '.join(['bench/compare.py', *sys.argv[1:]])}`",
            "",
        ]
        print("\n".join(report))
        raw = stack.enter_context((options.raw or Path(os.devnull)).open("w"))

        def note(cost: dict[str, object]) -> None:
            print(json.dumps(cost), file=raw, flush=True)

        for table in tables(options, place, site, failed, note):
            lines = list(table.lines())
            print("\n".join(lines), flush=True)
            report += lines
        if options.full or "writers" in (options.workloads or "").split(","):
            lines = list(writers.table(8, 400_000, options.rounds or 7))
            print("\n".join(lines), flush=True)
            report += lines
    if options.save:
        head = ["# Results", "", *(__doc__ or "").split("\n\n", 2)[2].splitlines(), ""]
        options.save.write_text("\n".join([*head, *report]))
    if failed:
        raise SystemExit(f"without a result: {', '.join(failed)}")


if __name__ == "__main__":
    main()
