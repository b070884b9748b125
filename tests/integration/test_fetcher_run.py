"""`Fetcher.run` over loopback: sources, sinks, stops."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strict import read as records
from watching import LIMIT, wait_for

from hardfetch import Fetcher, Request, errors
from hardfetch.testing import FaultSite


class TestRun:
    def test_every_input_of_every_kind_gets_one_record(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        url = site.url("/1k")
        inputs: list[Any] = [
            url,
            url.encode(),
            {"url": url, "id": "dict", "meta": {"k": [1]}},
            Request(url, id="request"),
            f'{{"url": "{url}", "id": "line"}}',
            5,
            {"url": url, "timeout": 0},
            "",
        ]
        out = tmp_path / "out.ndjson"
        summary = fetcher.run(inputs, out)
        found = sorted(records(out.read_bytes()), key=lambda r: r["seq"])
        assert [r["seq"] for r in found] == list(range(8))
        assert [r["id"] for r in found] == [
            None, None, "dict", "request", "line", None, None, None,
        ]  # fmt: skip
        assert found[2]["meta"] == {"k": [1]}
        assert [r["status_code"] for r in found[:5]] == [200] * 5
        assert [r["error"]["type"] for r in found[5:]] == ["invalid_request"] * 3
        assert (summary.inputs, summary.records) == (8, 8)
        assert summary.statuses == {"none": 3, "2xx": 5}
        assert summary.errors == {"invalid_request": 3}
        assert not summary.interrupted
        assert summary.bytes_out == out.stat().st_size
        assert summary.elapsed > 0

    def test_files_of_lines_are_read_in_bulk(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        lines = []
        for n in range(600):
            url = site.url(f"/1k?{n}")
            lines.append(json.dumps({"url": url, "id": n}) if n % 3 else url)
            lines.append("# comment" if n % 2 else "")
        path = tmp_path / "urls.txt"
        path.write_text("\n".join(lines))
        out = tmp_path / "out.ndjson"
        assert fetcher.run(path, out).records == 600
        found = records(out.read_bytes())
        assert sorted(r["seq"] for r in found) == list(range(600))
        for record in found:
            n = record["seq"]
            assert record["input"].endswith(f"?{n}")
            assert record["id"] == (n if n % 3 else None)

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_sinks_of_all_kinds_get_the_same_lines(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path, suffix: str
    ) -> None:
        urls = [site.url("/1k")] * 20
        path = tmp_path / f"out.ndjson{suffix}"
        fetcher.run(urls, path)
        raw = path.read_bytes()
        assert len(records(gzip.decompress(raw) if suffix else raw)) == 20
        memory, text = io.BytesIO(), io.StringIO()
        fetcher.run(urls, memory)
        assert len(records(memory.getvalue())) == 20
        fetcher.run(urls, text)
        assert len(records(text.getvalue().encode())) == 20
        with path.open("ab") as file:
            fetcher.run(urls, file)
            fetcher.run(urls, file.fileno())
        assert path.stat().st_size > len(raw)

    def test_a_slow_source_delays_no_record(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        read, write = os.pipe()
        out_read, out_write = os.pipe()
        with os.fdopen(read, "rb") as source, os.fdopen(out_read, "rb") as output:
            thread = threading.Thread(target=fetcher.run, args=(source, out_write))
            thread.start()
            for n in range(3):
                os.write(write, site.url(f"/1k?{n}\n").encode())
                assert json.loads(output.readline())["seq"] == n
            os.close(write)
            thread.join(LIMIT)
            assert not thread.is_alive()
            os.close(out_write)
            assert output.read() == b""

    def test_a_slow_iterable_delays_no_record(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        read, write = os.pipe()
        with os.fdopen(read, "rb") as output, os.fdopen(write, "wb") as sink:

            def inputs() -> Iterator[str]:
                for n in range(3):
                    yield site.url(f"/1k?{n}")
                    assert json.loads(output.readline())["seq"] == n

            assert fetcher.run(inputs(), sink).records == 3

    def test_what_an_iterable_raises_comes_after_the_records(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        def inputs() -> Iterator[str]:
            yield site.url("/1k")
            yield site.url("/1k")
            raise LookupError("no more")

        out = io.BytesIO()
        with pytest.raises(LookupError, match="no more"):
            fetcher.run(inputs(), out)
        assert len(records(out.getvalue())) == 2

    @pytest.mark.parametrize("text", [False, True])
    def test_what_a_file_raises_comes_after_the_records_of_its_whole_lines(
        self, site: FaultSite, fetcher: Fetcher, text: bool
    ) -> None:
        parts = [f"{site.url('/1k')}\n{site.url('/1k')}\n{site.url('/st')}".encode()]

        class Disk(io.RawIOBase):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int:
                if not parts:
                    raise OSError(5, "Input/output error")
                part = parts.pop()
                buffer[: len(part)] = part
                return len(part)

        reader: Any = io.BufferedReader(Disk())
        out = io.BytesIO()
        with pytest.raises(OSError, match="Input/output"):
            fetcher.run(io.TextIOWrapper(reader) if text else reader, out)
        assert [r["status_code"] for r in records(out.getvalue())] == [200, 200]

    def test_a_wrong_sink_or_source_is_told_before_anything_is_fetched(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        pulled = []

        def inputs() -> Iterator[str]:
            pulled.append(1)
            yield site.url("/1k")

        with pytest.raises(errors.SinkError):
            fetcher.run(inputs(), "/no/such/folder/out")
        assert not pulled
        old = tmp_path / "old"
        old.write_text("precious")
        with pytest.raises(FileNotFoundError):
            fetcher.run(tmp_path / "none", old)
        assert old.read_text() == "precious"

    def test_a_full_disk_is_a_sink_error_with_its_number(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        with pytest.raises(errors.SinkError) as caught:
            fetcher.run([site.url("/1k")] * 50, "/dev/full")
        assert caught.value.errno == 28

    def test_a_reader_that_goes_away_ends_an_endless_run(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        read, write = os.pipe()

        def inputs() -> Iterator[str]:
            while True:
                yield site.url("/1k")

        with os.fdopen(read, "rb") as output:

            def leave() -> None:
                output.readline()
                output.close()

            threading.Thread(target=leave).start()
            with pytest.raises(errors.SinkError) as caught:
                fetcher.run(inputs(), write)
        assert caught.value.errno == 32
        os.close(write)

    def test_a_sink_that_raises_ends_the_run_with_that(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        class Broken(io.RawIOBase):
            def writable(self) -> bool:
                return True

            def write(self, data: Any) -> int:
                raise ZeroDivisionError(f"{len(data)} bytes")

        with pytest.raises(ZeroDivisionError):
            fetcher.run([site.url("/1k")] * 5, Broken())

    @pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_whatever_a_sink_raises_is_raised(
        self, site: FaultSite, fetcher: Fetcher, raised: type[BaseException]
    ) -> None:
        class Torn:
            def write(self, data: Any) -> int:
                raise raised(len(data))

        with pytest.raises(raised):
            fetcher.run([site.url("/1k")] * 5, Torn())

    @pytest.mark.parametrize("said", [-1, 1 << 30])
    def test_a_sink_that_counts_wrong_is_no_sink(
        self, site: FaultSite, fetcher: Fetcher, said: int
    ) -> None:
        class Liar:
            def write(self, data: Any) -> int:
                del data
                return said

        with pytest.raises(errors.SinkError, match=f"said {said} of"):
            fetcher.run([site.url("/1k")] * 5, Liar())

    def test_a_stop_leaves_unanswered_inputs_without_record(
        self, site: FaultSite
    ) -> None:
        with Fetcher(max_concurrency=4, max_per_host=0) as fetcher:
            out = io.BytesIO()
            silent = site.fault("silent-after-accept").url

            def inputs() -> Iterator[str]:
                yield site.url("/1k")
                yield from [silent] * 100
                wait_for(lambda: fetcher.stats().records >= 1)
                fetcher.stop(0.0)
                while True:
                    yield silent

            began = time.monotonic()
            summary = fetcher.run(inputs(), out)
            assert time.monotonic() - began < 8
            assert summary.interrupted
            assert [r["seq"] for r in records(out.getvalue())] == [0]
            assert summary.records == 1

    def test_an_interrupt_ends_a_run_at_once_and_keeps_its_records(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.ndjson"
        code = (
            "import sys, hardfetch\n"
            "with hardfetch.Fetcher() as f:\n"
            "    f.run([sys.argv[1], sys.argv[2]], sys.argv[3])\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, site.url("/1k"),
             site.fault("silent-after-accept").url, str(out)],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        wait_for(lambda: out.exists() and out.stat().st_size > 1000)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=5)
        assert process.returncode == -signal.SIGINT or b"KeyboardInterrupt" in stderr
        assert len(records(out.read_bytes())) == 1

    def test_skipped_inputs_get_no_record(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        out = io.BytesIO()
        summary = fetcher.run([site.url("/1k")] * 10, out, skip=(b"\x05", 8))
        assert sorted(r["seq"] for r in records(out.getvalue())) == [
            1, 3, 4, 5, 6, 7, 8, 9,
        ]  # fmt: skip
        assert (summary.inputs, summary.skipped, summary.records) == (10, 2, 8)

    def test_an_unread_output_is_told_on_stderr(self, site: FaultSite) -> None:
        code = (
            "import sys, hardfetch\n"
            "with hardfetch.Fetcher(stall_warning=0.2) as f:\n"
            "    f.run([sys.argv[1]] * 300, 1)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, site.url("/30k")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        first = process.stderr.readline()
        assert b"has not been read for" in first
        out, rest = process.communicate(timeout=LIMIT)
        assert b"is read again after" in rest
        assert sorted(r["seq"] for r in records(out)) == list(range(300))
        assert process.returncode == 0
