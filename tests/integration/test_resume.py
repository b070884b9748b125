"""`--resume` and `run(resume=True)`: each input once, or a refusal."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hardfetch import Fetcher, errors
from hardfetch.packing import packing_of
from hardfetch.testing import FaultSite

LIMIT = 60
KILLS = int(os.environ.get("HARDFETCH_KILLS", "15"))  # 100 in the long form


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(max_per_host=0) as made:
        yield made


def unpacked(path: Path) -> bytes:
    packing = packing_of(path.name)
    data = path.read_bytes()
    if packing is None:
        return data
    return b"".join(piece for piece, _ in packing.decode([data]))


def records(*paths: Path) -> list[dict[str, Any]]:
    found = []
    for path in paths:
        data = unpacked(path)
        assert data == b"" or data.endswith(b"\n")
        found += [json.loads(line) for line in data.splitlines()]
    return found


def seqs(*paths: Path) -> list[int]:
    return sorted(record["seq"] for record in records(*paths))


def urls(site: FaultSite, count: int) -> list[str]:
    return [site.url(f"/1k?{n}") for n in range(count)]


class TestRun:
    @pytest.mark.parametrize("kind", ["list", "generator", "path", "file", "pipe"])
    def test_only_what_has_no_record_is_fetched(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path, kind: str
    ) -> None:
        inputs = urls(site, 300)
        out = tmp_path / "out.ndjson"
        fetcher.run(inputs, out, skip=(b"\xaa" * 25, 200))
        first = records(out)
        text = "\n".join(["# comment", *inputs])
        (tmp_path / "urls").write_text(text)
        with contextlib.ExitStack() as stack:
            source: Any = inputs
            if kind == "generator":
                source = iter(inputs)
            elif kind == "path":
                source = tmp_path / "urls"
            elif kind == "file":
                source = stack.enter_context((tmp_path / "urls").open("rb"))
            elif kind == "pipe":
                cat = subprocess.Popen(
                    ["cat", str(tmp_path / "urls")], stdout=subprocess.PIPE
                )
                stack.enter_context(cat)
                source = cat.stdout
            summary = fetcher.run(source, out, resume=True)
        assert summary.skipped == len(first)
        assert summary.stats.started == 300 - len(first)
        assert seqs(out) == list(range(300))
        assert records(out)[: len(first)] == first
        for record in records(out):
            assert record["input"] == inputs[record["seq"]]

    def test_without_an_earlier_output_it_starts_afresh(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        for name in ("out", "o.gz", "p{part}.zst"):
            fetcher.run(urls(site, 10), tmp_path / name, resume=True)
        assert seqs(tmp_path / "out") == list(range(10))
        assert seqs(tmp_path / "o.gz") == list(range(10))
        assert seqs(tmp_path / "p0.zst") == list(range(10))

    def test_a_finished_output_is_left_as_it_is(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.ndjson"
        fetcher.run(urls(site, 10), out)
        before = out.read_bytes()
        assert fetcher.run(urls(site, 10), out, resume=True).records == 0
        assert out.read_bytes() == before
        more = fetcher.run(urls(site, 12), out, resume=True)
        assert (more.skipped, more.records) == (10, 2)

    def test_errors_are_answers_too(self, fetcher: Fetcher, tmp_path: Path) -> None:
        out = tmp_path / "out.ndjson"
        inputs: Any = ["http://127.0.0.1:1/", "nonsense", 5, {"url": "http://u:p@[/"}]
        with Fetcher(retries=0) as once:
            once.run(inputs, out)
        assert fetcher.run(inputs, out, resume=True).records == 0
        assert seqs(out) == [0, 1, 2, 3]

    def test_inputs_of_all_kinds_are_recognised(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        url = site.url("/1k")
        lines = [
            url.encode(),
            b"  " + url.encode() + b"\t\r",
            b"",
            b"# no",
            json.dumps({"url": url, "id": {"a": ['}"']}, "meta": [1]}).encode(),
            b"{broken",
            b'{"id": 3}',
            b'["http://user:secret@127.0.0.1:1/"]',
            b'  "Cookie": "a=secret",',
            b"http://user:secret@127.0.0.1:1/",
            b"http://127.0.0.1:1/\xff\xe9",
            'http://127.0.0.1:1/é"\\'.encode(),
            b"x" * 5000,
            b"http://127.0.0.1:1/" + b"y" * 140_000,
            b"z" * 1_100_000,
            url.encode(),
        ]
        path = tmp_path / "urls"
        path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
        out = tmp_path / "out.ndjson"
        with Fetcher(retries=0) as once:
            first = once.run(path, out)
        assert first.inputs == 14
        again = fetcher.run(path, out, resume=True)
        assert (again.skipped, again.records) == (14, 0)

    @pytest.mark.parametrize("name", ["out.ndjson", "out.ndjson.gz", "out.ndjson.zst"])
    def test_a_torn_end_is_cut(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path, name: str
    ) -> None:
        out = tmp_path / name
        fetcher.run(urls(site, 100), out)
        data = out.read_bytes()
        for cut in (1, 10, len(data) // 2, len(data) - 1, len(data)):
            out.write_bytes(data[: len(data) - cut])
            fetcher.run(urls(site, 100), out, resume=True)
            assert seqs(out) == list(range(100))
        if name.endswith("gz"):
            assert gzip.decompress(out.read_bytes()).count(b"\n") == 100

    @pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
    def test_parts_are_gone_on_from(
        self, site: FaultSite, tmp_path: Path, suffix: str
    ) -> None:
        name = str(tmp_path / ("o-{part:03d}.ndjson" + suffix))
        with Fetcher(max_per_host=0, rotate_size=2_000) as fetcher:
            fetcher.run(urls(site, 100), name)
            parts = sorted(tmp_path.iterdir())
            assert len(parts) > 1
            last = parts[-1]
            data = last.read_bytes()
            last.unlink()
            hidden = last.with_name(f".{last.name}.incomplete")
            hidden.write_bytes(data[:-7])  # as a kill leaves it
            with pytest.raises(errors.OptionError, match="earlier run"):
                fetcher.run(urls(site, 100), name)
            fetcher.run(urls(site, 100), name, resume=True)
        parts = sorted(tmp_path.iterdir())
        assert not [p for p in parts if p.name.startswith(".")]
        assert seqs(*parts) == list(range(100))

    def test_parts_behind_a_url_are_gone_on_from(self, site: FaultSite) -> None:
        fsspec = pytest.importorskip("fsspec")
        fs = fsspec.filesystem("memory")
        fs.store.clear()
        name = "memory://b/o-{part}.ndjson.gz"
        with Fetcher(max_per_host=0, rotate_size=2_000) as fetcher:
            fetcher.run(urls(site, 100), name)
            count = len(fs.ls("/b"))
            assert count > 1
            fs.rm(f"/b/o-{count - 1}.ndjson.gz")
            summary = fetcher.run(urls(site, 100), name, resume=True)
            assert 0 < summary.records < 100
        lines = [
            line
            for path in fs.ls("/b", detail=False)
            for line in gzip.decompress(fs.cat(path)).splitlines()
        ]
        assert sorted(json.loads(line)["seq"] for line in lines) == list(range(100))
        with pytest.raises(errors.OptionError, match="cannot be appended"):
            Fetcher().run([], "memory://b/x", resume=True)
        fs.store.clear()


class TestRefusals:
    def refused(
        self, site: FaultSite, inputs: Any, out: Path, match: str, **options: Any
    ) -> None:
        before, hits = out.read_bytes(), site.hits("http")
        with (
            Fetcher(**options) as fetcher,
            pytest.raises(errors.OptionError, match=match),
        ):
            fetcher.run(inputs, out, resume=True)
        assert out.read_bytes() == before
        assert site.hits("http") == hits

    @pytest.fixture
    def out(self, site: FaultSite, fetcher: Fetcher, tmp_path: Path) -> Path:
        path = tmp_path / "out.ndjson"
        fetcher.run(urls(site, 200), path, skip=(b"\x0f", 8))
        with path.open("ab") as file:
            file.write(b'{"schema":1,"seq":0,"id"')  # torn, and to be left alone
        return path

    @pytest.mark.parametrize("kind", ["list", "generator", "path"])
    @pytest.mark.parametrize(
        "change",
        ["one replaced", "one removed", "one added", "two swapped", "cut", "empty"],
    )
    def test_changed_inputs(
        self, site: FaultSite, out: Path, tmp_path: Path, change: str, kind: str
    ) -> None:
        inputs = urls(site, 200)
        if change == "one replaced":
            inputs[77] += "x"
        elif change == "one removed":
            del inputs[5]
        elif change == "one added":
            inputs.insert(190, "http://127.0.0.1:1/")
        elif change == "two swapped":
            inputs[150], inputs[20] = inputs[20], inputs[150]
        else:
            del inputs[150 if change == "cut" else 0 :]
        source: Any = inputs
        if kind == "path":
            source = tmp_path / "urls"
            source.write_text("".join(f"{url}\n" for url in inputs))
        elif kind == "generator":
            source = iter(inputs)
        self.refused(site, source, out, "resume: the inputs have changed")

    def test_what_has_no_record_yet_may_change(
        self, site: FaultSite, fetcher: Fetcher, out: Path
    ) -> None:
        inputs = urls(site, 200)
        inputs[0] += "changed"
        assert fetcher.run(inputs, out, resume=True).records == 4

    def test_records_that_tell_too_little(
        self, site: FaultSite, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        out = tmp_path / "o"
        for kept, match in (("seq,url", "no input"), ("input,url", "no seq")):
            with Fetcher(fields=kept) as narrow:
                narrow.run(urls(site, 3), out)
            self.refused(site, urls(site, 3), out, match)
            lacking = f"leaves out {match.removeprefix('no ')}$"
            self.refused(site, urls(site, 3), out, lacking, fields=kept)
        self.refused(
            site, urls(site, 3), out, "leaves out seq and input$", fields="url"
        )
        with Fetcher(fields="seq,input,status_code") as narrow:
            narrow.run(urls(site, 3), out)
        assert fetcher.run(urls(site, 4), out, resume=True).records == 1

    def test_a_file_of_something_else(
        self, site: FaultSite, out: Path, tmp_path: Path
    ) -> None:
        good = out.read_bytes()
        inputs = urls(site, 200)
        out.write_bytes(b"hello\n" + good)
        self.refused(site, inputs, out, "line 1 is no record")
        out.write_bytes(good[: good.rfind(b"\n") + 1] + good)
        self.refused(site, inputs, out, "again")
        packed = tmp_path / "x.gz"
        packed.write_bytes(gzip.compress(good))
        self.refused(site, inputs, packed, "a line is cut")

    @pytest.mark.parametrize("sink", [1, "/dev/null", "memory://b/o"])
    def test_an_output_that_cannot_be_read(self, sink: Any) -> None:
        with Fetcher() as fetcher, pytest.raises(errors.OptionError, match="resume"):
            fetcher.run(["http://127.0.0.1:1/"], sink, resume=True)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hardfetch", "fetch", "-q", *arguments]


class TestCommandLine:
    def test_several_sources_are_gone_on_from(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        (tmp_path / "urls").write_text("\n".join(urls(site, 50)))
        out = tmp_path / "out"
        given = command(str(tmp_path / "urls"), site.url("/1k"), "-o", str(out))
        assert subprocess.run([*given, "--resume"], check=False).returncode == 0
        whole = out.read_bytes()
        out.write_bytes(whole[:20_000])
        assert subprocess.run([*given, "--resume"], check=False).returncode == 0
        assert seqs(out) == list(range(51))

    def test_a_refusal_is_a_usage_error(self, site: FaultSite, tmp_path: Path) -> None:
        out = tmp_path / "out"
        done = subprocess.run(
            command("--resume"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 2
        assert b"--resume" in done.stderr
        subprocess.run(command(site.url("/1k?1"), "-o", str(out)), check=True)
        before = out.read_bytes()
        done = subprocess.run(
            command(site.url("/1k?2"), "-o", str(out), "--resume"),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 2
        assert b"--resume" in done.stderr
        assert b"the inputs have changed" in done.stderr
        assert out.read_bytes() == before

    @pytest.mark.parametrize("name", ["out.ndjson", "o-{part:04d}.ndjson.gz"])
    def test_kill_9_at_any_moment_loses_and_doubles_nothing(
        self, site: FaultSite, tmp_path: Path, name: str
    ) -> None:
        count = 50 * KILLS if KILLS > 50 else 3000
        path = tmp_path / "urls"
        lines = [site.url(f"/slow?s=0.01&n={n}") for n in range(count)]
        path.write_text("\n".join(lines))
        folder = tmp_path / "out"
        folder.mkdir()
        options = ["-o", str(folder / name), "--resume", "--max-per-host", "0"]
        if "part" in name:
            options += ["--rotate-size", "100k"]
        # So slow that each life comes to its share only.
        slowly = ["-c", str(max(1, round(count / KILLS / 0.5 * 0.01)))]
        killed = 0
        chance = random.Random(5)
        for _ in range(KILLS):
            process = subprocess.Popen(command(str(path), *options, *slowly))
            try:
                process.wait(chance.uniform(0.3, 1.3))
            except subprocess.TimeoutExpired:
                killed += 1
            process.send_signal(signal.SIGKILL)
            process.wait()
        done = subprocess.run(command(str(path), *options), timeout=LIMIT, check=False)
        assert done.returncode == 0
        assert killed > KILLS / 2
        assert seqs(*folder.iterdir()) == list(range(count))
        for record in records(*folder.iterdir()):
            assert record["input"] == lines[record["seq"]]
