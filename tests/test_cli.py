"""The parts of the command line that need no engine."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import click
import pytest

from hardfetch.cli import early, exits, limits, units
from hardfetch.cli.fetch_options import fetch_options
from hardfetch.cli.group import cli
from hardfetch.cli.interrupts import Interrupts
from hardfetch.cli.progress import Meter, Progress, Snapshot, total_inputs
from hardfetch.cli.sources import SourceError, Sources
from hardfetch.cli.summary import SummaryFile, summary_dict, summary_text
from hardfetch.errors import OptionError
from hardfetch.options import OPTION_NAMES
from hardfetch.summary import Stats, Summary


def everything(sources: Sources) -> bytes:
    return b"".join(iter(lambda: sources.read(7) or b"", b""))


class TestUnits:
    @pytest.mark.parametrize(
        ("count", "text"),
        [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (1536 * 1024 * 1024, "1.5 GiB"),
            (5 << 40, "5.0 TiB"),
            (5 << 50, "5120.0 TiB"),
        ],
    )
    def test_sizes_change_unit_where_they_should(self, count: int, text: str) -> None:
        assert units.format_size(count) == text

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "0.0 ms"),
            (0.00314, "3.1 ms"),
            (0.99999, "1.0 s"),
            (12, "12.0 s"),
            (59.96, "1:00"),
            (62, "1:02"),
            (3723, "1:02:03"),
        ],
    )
    def test_times_change_unit_where_they_should(
        self, seconds: float, text: str
    ) -> None:
        assert units.format_time(seconds) == text

    def test_a_slow_rate_keeps_a_decimal(self) -> None:
        assert units.format_rate(0.52) == "0.5/s"
        assert units.format_rate(12345.6) == "12,346/s"


class TestSources:
    def test_sources_come_in_order_and_each_ends_its_line(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        one.write_bytes(b"http://a/\nhttp://b/")
        two.write_bytes(b"http://c/\n")
        with Sources([str(one), "http://x/", str(two), str(tmp_path / "one")]) as s:
            assert s.size == 19 + 10 + 10 + 19
            assert everything(s) == (
                b"http://a/\nhttp://b/\nhttp://x/\nhttp://c/\nhttp://a/\nhttp://b/\n"
            )
            assert s.position == s.size

    def test_an_empty_file_adds_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()
        with Sources([str(tmp_path / "empty")]) as sources:
            assert everything(sources) == b""

    def test_a_url_with_a_line_feed_stays_one_input(self) -> None:
        with Sources(["http://a/\nhttp://b/"]) as sources:
            assert everything(sources) == b'{"url":"http://a/\\nhttp://b/"}\n'

    def test_a_missing_file_is_told_before_any_other_is_read(
        self, tmp_path: Path
    ) -> None:
        with pytest.raises(SourceError, match="nowhere.*No such file"):
            Sources(["http://a/", str(tmp_path / "nowhere")])

    def test_a_name_without_scheme_gets_a_hint(self) -> None:
        with pytest.raises(SourceError, match="a URL starts with http"):
            Sources(["example.com"])

    def test_the_hint_comes_for_a_path_as_well(self) -> None:
        with pytest.raises(SourceError, match="a URL starts with http"):
            Sources(["example.com/page"])

    def test_packed_files_are_unpacked(self, tmp_path: Path) -> None:
        path = tmp_path / "urls.gz"
        path.write_bytes(gzip.compress(b"http://a/\n") + gzip.compress(b"http://b/"))
        with Sources([str(path), "http://c/"]) as sources:
            assert everything(sources) == b"http://a/\nhttp://b/\nhttp://c/\n"
            assert sources.size is None
            assert sources.holds(path.stat())

    @pytest.mark.parametrize("data", [b"http://a/\n", gzip.compress(b"http://a/")[:-9]])
    def test_a_packed_file_that_is_cut_or_none_is_told(
        self, tmp_path: Path, data: bytes
    ) -> None:
        path = tmp_path / "urls.gz"
        path.write_bytes(data)
        with Sources([str(path)]) as sources, pytest.raises(OSError, match="cut or br"):
            everything(sources)

    def test_a_folder_is_no_source(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is a folder"):
            Sources([str(tmp_path)])

    def test_a_pipe_makes_the_size_unknown(self, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)
        try:
            with Sources([str(fifo), "http://a/"]) as sources:
                assert sources.size is None
                os.write(keep, b"http://b/\n")
                assert sources.read(100) == b"http://b/\n"
        finally:
            os.close(keep)

    def test_stop_ends_a_read_that_waits(self, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)
        try:
            with Sources([str(fifo)]) as sources:
                got: list[bytes | None] = []
                reader = threading.Thread(target=lambda: got.append(sources.read(10)))
                reader.start()
                sources.stop()
                reader.join(timeout=10)
                assert got == [b""]
        finally:
            os.close(keep)

    def test_the_output_is_recognised_among_the_sources(self, tmp_path: Path) -> None:
        path = tmp_path / "urls"
        path.write_bytes(b"http://a/\n")
        other = tmp_path / "other"
        other.touch()
        with Sources([str(path)]) as sources:
            assert sources.holds(path.stat())
            assert not sources.holds(other.stat())

    def test_closing_twice_leaks_and_closes_nothing_of_others(self) -> None:
        sources = Sources(["http://a/"])
        sources.close()
        one, two = os.pipe()
        sources.close()
        os.close(one)
        os.close(two)


def snapshot(**changes: object) -> Snapshot:
    fields: dict[str, object] = {
        "inputs": 100,
        "records": 50,
        "errors": 3,
        "retries": 0,
        "in_flight": 8,
        "waiting": 4,
        "ring": 0.25,
        "read": 1000,
        "size": 10_000,
        "complete": False,
    }
    return Snapshot(**{**fields, **changes})  # type: ignore[arg-type]


class TestProgress:
    def test_the_total_is_estimated_by_bytes_until_all_was_read(self) -> None:
        assert total_inputs(snapshot()) == 1000
        assert total_inputs(snapshot(complete=True)) == 100
        assert total_inputs(snapshot(size=None)) is None
        assert total_inputs(snapshot(read=0)) is None

    def test_the_rate_is_that_of_the_last_ten_seconds(self) -> None:
        meter = Meter()
        assert meter.rate(0.0, 0) == 0.0
        for second in range(1, 31):
            rate = meter.rate(float(second), second * 100)
        assert rate == pytest.approx(100)
        for second in range(31, 51):
            rate = meter.rate(float(second), 3000)
        assert rate == 0.0

    def test_a_line_says_what_is_left(self) -> None:
        meter = Meter()
        meter.rate(0.0, 0)
        assert meter.line(1.0, snapshot()) == (
            "50 of 1,000, 50/s, 8 in flight, 4 waiting, 3 errors, ring 25%, ETA 0:19"
        )

    def test_a_line_without_a_total_has_no_eta(self) -> None:
        meter = Meter()
        meter.rate(0.0, 0)
        line = meter.line(1.0, snapshot(size=None, retries=2))
        assert line == (
            "50, 50/s, 8 in flight, 4 waiting, 3 errors, 2 retries, ring 25%"
        )

    def test_a_stuck_look_does_not_hold_up_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release = threading.Event()
        entered = threading.Event()

        def look() -> None:
            entered.set()
            release.wait(30)

        monkeypatch.setattr("hardfetch.cli.progress._LINE", 0.001)
        began = time.monotonic()
        with Progress(look):
            assert entered.wait(10)
        assert time.monotonic() - began < 5
        release.set()


class TestConsole:
    def test_a_full_stderr_is_not_waited_for(self) -> None:
        # In a process of its own, since it is about descriptor 2.
        code = (
            "import os, time; from hardfetch.cli import console\n"
            "r, w = os.pipe(); os.set_blocking(w, False)\n"
            "try:\n"
            "    while True: os.write(w, b'x' * 65536)\n"
            "except BlockingIOError: pass\n"
            "os.set_blocking(w, True); os.dup2(w, 2)\n"
            "t = time.monotonic(); said = console.say('hello', patience=0.2)\n"
            "print(said, 0.1 < time.monotonic() - t < 5)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=True
        )
        assert done.stdout == b"False True\n"

    def test_a_closed_stderr_is_no_error(self) -> None:
        code = (
            "import os; from hardfetch.cli import console\n"
            "os.close(2); print(console.say('hello'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=True
        )
        assert done.stdout == b"False\n"

    def test_closed_standard_files_are_taken_by_nothing_else(self) -> None:
        code = (
            "import os; from hardfetch.cli import console\n"
            "out = os.dup(1); os.close(0); os.close(1)\n"
            "closed = console.reopen_standard_files()\n"
            "fd = os.open('/dev/null', os.O_RDONLY)\n"
            "os.write(out, f'{closed} {fd > 2}'.encode())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
        )
        assert done.stdout == b"[0, 1] True"


class TestLimits:
    def test_more_in_flight_needs_more_descriptors(self) -> None:
        assert limits.descriptors_needed(256) > 256
        assert limits.descriptors_needed(512) > limits.descriptors_needed(256)

    def test_the_limit_is_lifted_no_further_than_allowed(self) -> None:
        code = (
            "import resource; from hardfetch.cli import limits\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))\n"
            "print(limits.raise_descriptor_limit(100), "
            "limits.raise_descriptor_limit(80), limits.raise_descriptor_limit(1000))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=True
        )
        assert done.stdout == b"100 100 200\n"

    def test_unlimited_allows_everything(self) -> None:
        assert limits.allows(-1, 10**9)
        assert limits.allows(10, 10)
        assert not limits.allows(9, 10)


@click.command()
@fetch_options
def bare_command(**_given: object) -> None:
    """All options and nothing else."""


def test_every_listed_command_exists() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name


class TestOptions:
    #: Names that only Python has, each for an option that the command line spells
    #: the other way round.
    PYTHON_ONLY = frozenset(
        {"follow", "verify", "record_headers", "retry", "proxies", "pool", "validate"}
    )
    CLI_ONLY = frozenset({"output", "resume", "summary", "no_progress", "quiet"})

    def test_every_option_of_a_fetcher_is_on_the_command_line(self) -> None:
        names = {param.name for param in bare_command.params}
        assert OPTION_NAMES - names == self.PYTHON_ONLY

    def test_every_option_here_is_one_of_a_fetcher(self) -> None:
        names = {param.name for param in bare_command.params}
        assert names - OPTION_NAMES == self.CLI_ONLY

    def test_long_names_are_the_fetchers_with_hyphens(self) -> None:
        for param in bare_command.params:
            assert param.name is not None
            assert f"--{param.name.replace('_', '-')}" in param.opts

    def test_no_default_stands_in_two_places(self) -> None:
        for param in bare_command.params:
            if param.name in OPTION_NAMES:
                assert param.default in (None, ()) or param.multiple


STATS = Stats(
    inputs=10,
    accepted=10,
    records=9,
    dropped=1,
    started=12,
    retries=3,
    redirects=2,
    connects=4,
    bytes_wire=1000,
    bytes_body=4096,
    bytes_out=9000,
    deadlines_fired=2,
    overrun_max=0.003,
    by_class=(2, 0, 6, 0, 1, 0),
    by_type=(7, 1, 0, 1),
    overrun=(0,) * 11 + (1, 1) + (0,) * 19,
)


class TestSummary:
    summary = Summary.of(STATS, elapsed=0.5, cpu=0.009, interrupted=True)

    def test_the_json_has_what_is_promised(self) -> None:
        out = summary_dict(self.summary)
        assert out["inputs"] == 10
        assert out["records"] == 9
        assert out["by_status_class"] == {"none": 2, "2xx": 6, "4xx": 1}
        assert sum(out["by_error_type"].values()) == 2
        assert out["bytes"] == {"wire": 1000, "body": 4096, "out": 9000}
        assert out["elapsed"] == 0.5
        assert out["cpu_seconds"] == 0.009
        assert set(out["overrun"]) == {"fired", "p50", "p99", "max"}
        assert {"ring", "writer"} <= set(out)

    def test_the_text_names_what_is_missing(self) -> None:
        text = summary_text(self.summary)
        assert text.startswith(
            "9 records of 10 inputs in 500.0 ms, 18/s, 1 left without a record\n"
        )
        assert "2xx 6, none 2, 4xx 1" in text
        assert "1,000 us a record" in text
        assert "max 3.0 ms over 2 limits" in text

    def test_an_empty_run_divides_by_nothing(self) -> None:
        empty = Summary.of(Stats(), elapsed=0.0, cpu=0.0, interrupted=False)
        assert summary_text(empty).startswith("0 records of 0 inputs in 0.0 ms, 0.0/s")

    def test_policy_is_told_where_there_is_something_to_tell(self) -> None:
        line = {"proxy": "http://p:1", "state": "benched", "failures": 7, "wasted": 6.5}
        well = {"proxy": "http://q:1", "state": "up", "failures": 0, "wasted": 0.0}
        policy = {
            "wasted": 6.5, "gates": 2, "denied": {"budget": 3, "method": 1},
            "proxies": [line, well],
            "hosts": [{"host": "a:80", "failures": 9, "last": "429"}],
        }  # fmt: skip
        summary = Summary.of(
            STATS, elapsed=0.5, cpu=0.1, interrupted=False, policy=policy
        )
        text = summary_text(summary)
        assert "retries    6.5 s of attempts" in text
        assert "hosts asked to wait 2 times, denied for budget 3, method 1" in text
        assert "proxies    1 of 2 up; worst http://p:1 benched, 7 failed, 6.5 s" in text
        assert "hosts      worst a:80 9 failed, last 429" in text
        quiet = Summary.of(STATS, elapsed=0.5, cpu=0.1, interrupted=False)
        assert "proxies" not in summary_text(quiet)

    def test_the_file_is_replaced_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "summary.json"
        path.write_text("x" * 10_000)
        with SummaryFile(str(path)) as file:
            assert path.read_text() == "x" * 10_000
            file.write(self.summary)
        assert path.read_bytes().endswith(b"}\n")
        assert b"x" * 100 not in path.read_bytes()

    def test_a_pipe_takes_it_too(self, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)
        try:
            with SummaryFile(str(fifo)) as file:
                file.write(self.summary)
            assert os.read(keep, 1 << 16).endswith(b"}\n")
        finally:
            os.close(keep)

    def test_a_file_that_cannot_be_written_is_a_wrong_option(
        self, tmp_path: Path
    ) -> None:
        with (
            pytest.raises(OptionError, match="^summary: .*can't be written"),
            SummaryFile(str(tmp_path / "no" / "file")),
        ):
            pass


class Calls:
    """Stands for the input and for the engine."""

    def __init__(self) -> None:
        self.stops: list[tuple[float, ...]] = []

    def stop(self, *arguments: float) -> None:
        self.stops.append(arguments)

    def reload_proxies(self) -> None:
        self.stops.append(())


class TestInterrupts:
    def test_a_hang_up_loads_proxies_again_or_ends_or_is_ignored(self) -> None:
        before = signal.getsignal(signal.SIGHUP)
        engine = Calls()
        try:
            with Interrupts(Calls(), engine, 1.0, reloads=True):
                signal.raise_signal(signal.SIGHUP)
            assert engine.stops == [()]
            with Interrupts(Calls(), engine, 1.0) as interrupts:
                signal.raise_signal(signal.SIGHUP)
            assert engine.stops == [(), (1.0,)]
            assert interrupts.count == 1
            assert signal.getsignal(signal.SIGHUP) == before
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
            with Interrupts(Calls(), engine, 1.0):
                signal.raise_signal(signal.SIGHUP)
            assert len(engine.stops) == 2
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_the_first_signal_drains_and_the_second_aborts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended: list[object] = []
        monkeypatch.setattr("hardfetch.cli.interrupts._LAST_WORD", 0.001)
        monkeypatch.setattr("os._exit", ended.append)
        source, engine = Calls(), Calls()
        with Interrupts(source, engine, 7.0) as interrupts:
            signal.raise_signal(signal.SIGTERM)
            assert engine.stops == [(7.0,)]
            assert interrupts.count == 1
            assert not ended
            signal.raise_signal(signal.SIGINT)
            assert engine.stops == [(7.0,), (0.0,)]
            for thread in threading.enumerate():
                if isinstance(thread, threading.Timer):
                    thread.join(10)
        assert ended == [exits.INTERRUPTED]
        assert source.stops == [(), ()]

    def test_the_handlers_that_stood_before_come_back(self) -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with Interrupts(Calls(), Calls(), 1.0):
            assert signal.getsignal(signal.SIGINT) != before[0]
        after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        assert after == before


def test_a_signal_in_a_destructor_is_not_lost_and_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Thing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0)  # where its handler runs, at the latest

    told = sys.unraisablehook
    with early.Signals() as signals:
        Thing()
        assert signals.seen
        with pytest.raises(early.Interrupted):
            early.check()
    assert sys.unraisablehook is told
    assert capsys.readouterr().err == ""
