"""The command line as its users run it: a process, its files, its exit code."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import Reply, Scripted
from strict import read as records

from hardfetch.testing import FaultSite

HARDFETCH = (sys.executable, "-m", "hardfetch")
LIMIT = 60  # seconds for any one command


def run(*arguments: str, stdin: bytes = b"", **more: Any) -> tuple[int, bytes, str]:
    """Run the command and return its exit code, stdout and stderr."""
    done = subprocess.run(
        [*HARDFETCH, *arguments],
        input=stdin,
        capture_output=True,
        timeout=LIMIT,
        check=False,
        **more,
    )
    text = done.stderr.decode()
    assert "Traceback" not in text
    return done.returncode, done.stdout, text


@contextlib.contextmanager
def started(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command; whatever happens it has ended afterwards."""
    process = subprocess.Popen(
        [*HARDFETCH, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)


class TestLinesInRecordsOut:
    def test_stdin_gives_each_input_its_record_once(self, site: FaultSite) -> None:
        lines = b"".join(b"%s?%d\n" % (site.url("/1k").encode(), n) for n in range(500))
        code, out, err = run("fetch", "-c", "32", "--max-per-host", "32", stdin=lines)
        assert code == 0, err
        found = records(out)
        assert sorted(record["seq"] for record in found) == list(range(500))
        assert {record["status_code"] for record in found} == {200}
        assert err.startswith("500 records of 500 inputs in ")

    def test_several_sources_are_read_in_order(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        first.write_text(f"# a comment\n\n{site.url('/1k?a')}")
        second.write_text(json.dumps({"url": site.url("/1k?b"), "id": 7}) + "\n")
        output = tmp_path / "out.ndjson"
        url = site.url("/1k?c")
        code, out, err = run("fetch", str(first), str(second), url, "-o", str(output))
        assert (code, out) == (0, b""), err
        found = sorted(records(output.read_bytes()), key=lambda record: record["seq"])
        assert [record["input"][-1] for record in found] == ["a", "b", "c"]
        assert [record["id"] for record in found] == [None, 7, None]

    def test_a_bad_line_is_a_record_and_no_failure(self, site: FaultSite) -> None:
        lines = b"not a url\n{broken\n" + site.url("/1k").encode() + b"\n"
        code, out, err = run("fetch", stdin=lines)
        assert code == 0, err
        kinds = [
            (record["error"] or {}).get("type")
            for record in sorted(records(out), key=lambda record: record["seq"])
        ]
        assert kinds == ["invalid_request", "invalid_request", None]

    def test_no_input_is_no_record(self) -> None:
        code, out, _ = run("fetch", stdin=b"")
        assert (code, out) == (0, b"")

    def test_gzip_by_suffix(self, site: FaultSite, tmp_path: Path) -> None:
        output = tmp_path / "out.ndjson.gz"
        code, _, err = run("fetch", site.url("/1k"), "-o", str(output))
        assert code == 0, err
        assert len(records(gzip.decompress(output.read_bytes()))) == 1

    def test_a_packed_source_that_is_cut_is_fetched_up_to_there(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        urls, output = tmp_path / "urls.gz", tmp_path / "out"
        lines = [site.url(f"/1k?{random.Random(n).random()}") for n in range(200)]
        packed = gzip.compress("\n".join(lines).encode())
        urls.write_bytes(packed[: len(packed) * 3 // 4])
        after = site.url("/status/404")  # which must not get the number of a lost line
        arguments = ("fetch", str(urls), after, "-o", str(output))
        code, _, err = run(*arguments)
        found = records(output.read_bytes())
        assert code == 1
        assert f"{len(found)} records" in err.splitlines()[-1]
        assert "urls.gz: cut or broken" in err.splitlines()[-1]
        assert 50 < len(found) < 200
        assert {r["seq"]: r["input"] for r in found} == dict(
            enumerate(lines[: len(found)])
        )
        assert {r["status_code"] for r in found} == {200}
        # Nothing but the rest is left to be done when the source is whole.
        urls.write_bytes(packed + bytes(512))
        code, _, err = run(*arguments, "--resume")
        assert code == 0, err
        found = records(output.read_bytes())
        assert sorted(r["seq"] for r in found) == list(range(201))


class TestOutput:
    def test_an_earlier_one_that_is_emptied_is_told_of(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        output = tmp_path / "out"
        arguments = ("fetch", site.url("/1k"), "-o", str(output))
        for more, told in (
            ((), False), ((), True), (("--resume",), False), (("-q",), False),
        ):  # fmt: skip
            size = output.stat().st_size if output.exists() else 0
            code, _, err = run(*arguments, *more)
            assert code == 0, err
            assert ("emptied of the" in err) is told, (more, err)
            assert not told or f"out: emptied of the {size / 1024:.1f} KiB" in err
            assert len(records(output.read_bytes())) == 1

    def test_one_that_cannot_be_resumed_is_told_of(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        output = tmp_path / "out"
        for more, lacking in (
            (("--fields", "url"), "lack seq and input\n"),
            (("--fields", "input"), "lack seq\n"),
            (("--exclude-fields", "input"), "lack input\n"),
            (("--fields", "seq,input"), ""),
            (("--fields", "url", "-q"), ""),
        ):
            code, _, err = run("fetch", site.url("/1k"), "-o", str(output), *more)
            assert code == 0, err
            assert (
                f"no --resume from {output}: its records will {lacking}" in err
            ) is (lacking != "")
            assert lacking or "--resume from" not in err
        # Nobody resumes from a pipe.
        _, _, err = run("fetch", site.url("/1k"), "--fields", "url")
        assert "--resume" not in err
        _, _, err = run("fetch", site.url("/1k"), "--fields", "url", "-o", "/dev/null")
        assert "--resume" not in err

    def test_a_refused_resume_says_what_is_missing(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        output = tmp_path / "out"
        arguments = ("fetch", site.url("/1k"), "-o", str(output), "--resume")
        code, _, err = run(*arguments, "--fields", "seq,url")
        assert code == 2
        assert "--fields leaves out input" in err


class TestOptions:
    def test_method_header_and_body_reach_the_server(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        (tmp_path / "body").write_bytes(b"a\nb")
        options = ("-X", "PUT", "-H", "X-Tag: one", "-d", f"@{tmp_path / 'body'}")
        code, out, err = run("fetch", site.url("/echo"), *options)
        assert code == 0, err
        (record,) = records(out)
        assert record["method"] == "PUT"
        assert "X-Tag" in record["body"]
        assert "one" in record["body"]

    def test_a_body_alone_makes_it_a_post(self, site: FaultSite) -> None:
        code, out, err = run("fetch", site.url("/echo"), "-d", "x=1")
        assert code == 0, err
        assert records(out)[0]["method"] == "POST"

    def test_several_bodies_are_joined_as_one_form(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        (tmp_path / "body").write_bytes(b"b=2")
        options = ("-d", "a=1", "-d", f"@{tmp_path / 'body'}", "-d", "c=\N{EURO SIGN}")
        code, out, err = run("fetch", site.url("/echo"), *options)
        assert code == 0, err
        size = len("a=1&b=2&c=\N{EURO SIGN}".encode())
        echo = json.loads(records(out)[0]["body"])
        assert ["Content-Length", str(size)] in echo["headers"]

    def test_redirects_may_be_results(self, site: FaultSite) -> None:
        code, out, err = run("fetch", site.url("/redirect/2"), "--no-redirects")
        assert code == 0, err
        (record,) = records(out)
        assert 300 <= record["status_code"] < 400
        assert record["redirects"] == []

    def test_fields_are_chosen(self, site: FaultSite) -> None:
        code, out, err = run("fetch", site.url("/1k"), "--fields", "seq,status_code")
        assert code == 0, err
        assert records(out) == [{"seq": 0, "status_code": 200}]

    def test_the_summary_counts_everything(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        summary = tmp_path / "summary.json"
        lines = "\n".join([site.url("/1k"), site.url("/status/404"), "bad url"])
        code, _, err = run("fetch", "--summary", str(summary), stdin=lines.encode())
        assert code == 0, err
        told = json.loads(summary.read_bytes())
        assert (told["inputs"], told["records"]) == (3, 3)
        assert told["by_status_class"] == {"none": 1, "2xx": 1, "4xx": 1}
        assert told["by_error_type"] == {"invalid_request": 1}
        assert told["ring"]["lost_wakeups"] == 0
        assert told["writer"]["bytes"] > 1024
        assert told["elapsed"] > 0
        assert told["cpu_seconds"] > 0

    def test_quiet_is_quiet(self, site: FaultSite) -> None:
        code, _, err = run("fetch", site.url("/1k"), "--quiet")
        assert (code, err) == (0, "")

    def test_profiles_are_listed(self) -> None:
        code, out, _ = run("fetch", "--impersonate", "list")
        assert code == 0
        assert b"chrome" in out.split()

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (("--timeout", "0"), "--timeout"),
            (("--timeout", "-1"), "--timeout"),
            (("--timeout", "nan"), "--timeout"),
            (("--timeout", "soon"), "--timeout"),
            (("--timeout", "5", "--hard-timeout", "2"), "--hard-timeout"),
            (("--connect-timeout", "inf"), "--connect-timeout"),
            (("--first-byte-timeout", "0"), "--first-byte-timeout"),
            (("--deadline", "0"), "--deadline"),
            (("--drain", "-1"), "--drain"),
            (("-c", "0"), "--max-concurrency"),
            (("--max-per-host", "-1"), "--max-per-host"),
            (("--max-body", "1x"), "--max-body"),
            (("--retries", "-1"), "--retries"),
            (("--body", "html"), "--body"),
            (("--headers", "some"), "--headers"),
            (("--fields", "nope"), "--fields"),
            (("--http-version", "4"), "--http-version"),
            (("--proxy", "ftp://127.0.0.1:1"), "--proxy"),
            (("-H", "no colon"), "--header"),
            (("-X", "GE T"), "--method"),
            (("-d", "@/nowhere/at/all"), "--data"),
            (("--cacert", "/nowhere/at/all"), "--cacert"),
            (("--impersonate", "chrom"), "--impersonate"),
            (("--dns-server", "example.com"), "--dns-server"),
            (("--resolve", "a"), "--resolve"),
            (("--allow-net", "10.0.0.0/40"), "--allow-net"),
            (("--ech", "maybe"), "--ech"),
            (("--ipv4", "--ipv6"), "--ipv6"),
            (("--summary", "/nowhere/at/all"), "--summary"),
            (("--no-such-option",), "--no-such-option"),
            (("nowhere.txt",), "SOURCE"),
        ],
    )
    def test_what_is_wrong_is_named_and_nothing_is_fetched(
        self, site: FaultSite, arguments: tuple[str, ...], named: str
    ) -> None:
        before = site.hits("http")
        code, out, err = run("fetch", site.url("/1k"), *arguments)
        assert code == 2, err
        assert named in err
        assert out == b""
        assert site.hits("http") == before

    def test_the_output_must_not_be_a_source(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        path = tmp_path / "urls"
        path.write_text(site.url("/1k"))
        code, _, err = run("fetch", str(path), "-o", str(path))
        assert code == 2
        assert "--output" in err
        assert path.read_text() == site.url("/1k")


class TestOutputsThatFail:
    def test_an_output_that_cannot_be_opened_ends_it_before_any_fetch(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        before = site.hits("http")
        target = str(tmp_path / "no" / "folder")
        code, _, err = run("fetch", site.url("/1k"), "-o", target)
        assert code == 4
        assert err.count("\n") == 1
        assert site.hits("http") == before

    def test_a_full_disk_is_one_line(self, site: FaultSite) -> None:
        lines = (site.url("/30k") + "\n").encode() * 50
        code, _, err = run("fetch", "-o", "/dev/full", "--no-progress", stdin=lines)
        assert code == 4
        assert "No space left" in err
        assert err.count("\n") == 1

    def test_a_reader_that_goes_away_is_silence(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        urls = tmp_path / "urls"
        urls.write_text((site.url("/30k") + "\n") * 2000)
        with started("fetch", str(urls), stdin=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b"{")
            process.stdout.close()
            assert process.wait(LIMIT) == 4
            assert process.stderr.read() == b""

    def test_the_summary_is_written_where_the_output_fails_or_a_source_breaks_off(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        summary = tmp_path / "s"
        summary.write_text('{"records": "of an earlier run"}' + " " * 10_000)
        urls = tmp_path / "urls"
        urls.write_text((site.url("/30k") + "\n") * 400)
        code, _, err = run(
            "fetch", str(urls), "--summary", str(summary), "-o", "/dev/full"
        )
        assert code == 4, err
        assert json.loads(summary.read_bytes())["inputs"] > 0
        cut = tmp_path / "cut.gz"
        cut.write_bytes(gzip.compress((site.url("/1k") + "\n").encode() * 5)[:-6])
        code, _, err = run(
            "fetch", str(cut), "--summary", str(summary), "-o", str(tmp_path / "o")
        )
        assert code == 1, err
        assert json.loads(summary.read_bytes())["records"] == 5

    def test_a_closed_stdout_is_told(self, site: FaultSite) -> None:
        before = site.hits("http")
        command = 'exec "$@" >&-'
        done = subprocess.run(
            ["/bin/sh", "-c", command, "sh", *HARDFETCH, "fetch", site.url("/1k")],
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 4
        assert b"stdout is closed" in done.stderr
        assert site.hits("http") == before

    @pytest.mark.parametrize(
        "arguments",
        [
            ("u:s3cret@h/x",),
            ("http//u:s3cret@h/",),
            ("http://127.0.0.1:1/", "--summary", "http://u:s3cret@h/x"),
            ("http://127.0.0.1:1/", "-d", "@u:s3cret@"),
        ],
    )
    def test_a_url_where_a_path_was_meant_keeps_its_password(
        self, arguments: tuple[str, ...]
    ) -> None:
        code, out, err = run("fetch", *arguments)
        assert code in (2, 4)
        assert out == b""
        assert "***@h" in err or "***@'" in err
        assert "s3cret" not in err

    @pytest.mark.parametrize("sources", [(), ("-",)])
    def test_a_closed_stdin_is_no_empty_input(self, sources: tuple[str, ...]) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *HARDFETCH, "fetch", *sources],
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 2
        assert done.stdout == b""
        assert b"stdin is closed" in done.stderr

    def test_a_closed_stdout_does_not_matter_with_another_output(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        output = tmp_path / "out"
        arguments = ("fetch", site.url("/1k"), "-o", str(output))
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" >&- <&-', "sh", *HARDFETCH, *arguments],
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert len(records(output.read_bytes())) == 1

    def test_a_message_for_a_closed_stderr_does_not_reach_stdout(self) -> None:
        command = 'exec "$@" 2>&-'
        done = subprocess.run(
            ["/bin/sh", "-c", command, "sh", *HARDFETCH, "fetch", "--timeout", "0"],
            stdout=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, b"")

    @pytest.mark.parametrize(
        "arguments", [("--version",), ("doctor",), ("fetch", "-h")]
    )
    def test_other_commands_fail_by_the_same_codes(
        self, arguments: tuple[str, ...]
    ) -> None:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [*HARDFETCH, *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=LIMIT,
                check=False,
            )
        assert done.returncode == 4
        assert done.stderr == b"hardfetch: No space left on device\n"


class TestSignals:
    def test_the_first_lets_fetches_in_flight_end(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        urls = tmp_path / "urls"
        urls.write_text((site.url("/slow?s=1") + "\n") * 400)
        before = site.hits("http")
        options = ("-c", "4", "--max-per-host", "4", "--summary", str(tmp_path / "s"))
        with started("fetch", str(urls), *options) as process:
            wait_until(lambda: site.hits("http") >= before + 4, "no fetch began")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3, err
        found = records(out)
        assert 4 <= len(found) < 100
        assert {record["status_code"] for record in found} == {200}
        told = json.loads((tmp_path / "s").read_bytes())
        assert told["interrupted"] is True
        assert told["records"] == len(found)

    def test_a_terminal_that_hangs_up_is_one(self) -> None:
        with (
            Scripted(lambda _: Reply(after=0.5)) as server,
            started("fetch", server.url) as process,
        ):
            wait_until(lambda: len(server.seen) > 0, "no fetch began")
            process.send_signal(signal.SIGHUP)
            out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3, err
        assert [record["status_code"] for record in records(out)] == [200]

    def test_a_failure_that_waits_for_a_retry_says_why_there_was_none(self) -> None:
        with (
            Scripted(lambda _: Reply(503, (("Retry-After", "60"),))) as server,
            started("fetch", server.url, "--retries", "9") as process,
        ):
            wait_until(lambda: len(server.seen) > 0, "no fetch began")
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3, err
        (record,) = records(out)
        assert record["status_code"] == 503
        assert record["attempts"][-1]["retry_denied"] == "shutdown"

    def test_the_second_ends_it_with_whole_lines(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        urls = tmp_path / "urls"
        hanging = site.url("silent-mid-body")
        urls.write_text((site.url("/1k") + "\n") * 20 + (hanging + "\n") * 20)
        options = ("--timeout", "50", "--drain", "50")
        with started("fetch", str(urls), *options) as process:
            wait_until(lambda: site.hits("silent-mid-body") > 0, "no fetch began")
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            assert b"SIGTERM" in process.stderr.readline()
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3, err
        assert time.monotonic() - began < 10
        assert len(records(out)) <= 20

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_one_at_any_moment_of_the_start_is_an_interrupt(
        self, site: FaultSite, tmp_path: Path, number: int
    ) -> None:
        out = tmp_path / "out"
        urls = [site.url("/1k")] * 50 + [site.url("silent-mid-body")]
        options = ("-o", str(out), "--drain", "0", "--max-per-host", "0")
        for part in range(8):
            with started("fetch", *urls, *options) as process:
                wait_until(lambda p=process: handles_sigterm(p.pid), "no handler")
                time.sleep(part * 0.05)  # the moment is what is tried
                process.send_signal(number)
                _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 3, err
            assert b"Traceback" not in err
            if out.exists():
                assert out.read_bytes()[-1:] in (b"", b"\n")

    def test_a_silent_stdin_does_not_hold_it(self) -> None:
        with started("fetch", stdin=subprocess.PIPE) as process:
            assert process.stderr is not None
            wait_until(lambda: handles_sigterm(process.pid), "no handler")
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 3
            assert b"Traceback" not in process.stderr.read()


def handles_sigterm(pid: int) -> bool:
    """Tell from /proc whether the process catches SIGTERM by now."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


class TestDoctor:
    def test_this_machine_is_fit(self) -> None:
        code, out, err = run("doctor")
        assert code == 0, out.decode() + err
        for word in (b"hardfetch", b"curl_cffi", b"libcurl", b"Python", b"kernel"):
            assert word in out
        assert b"every needed one was found" in out
        assert b"bad" not in [line.split()[0] for line in out.splitlines() if line]

    def test_too_few_descriptors_are_an_error_with_a_remedy(self) -> None:
        def lower() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        code, out, _ = run("doctor", "-c", "1000", preexec_fn=lower)
        assert code == 1
        assert b"bad   nofile" in out
        assert b"ulimit -n" in out

    def test_an_unfit_library_is_told(self, tmp_path: Path) -> None:
        bogus = tmp_path / "libcurl.so"
        bogus.write_bytes(b"no library")
        environment = {**os.environ, "HARDFETCH_LIBCURL": str(bogus)}
        code, out, _ = run("doctor", env=environment)
        assert code == 1
        assert b"bad   library" in out

    def test_a_wrong_concurrency_is_a_usage_error(self) -> None:
        code, _, err = run("doctor", "-c", "0")
        assert code == 2
        assert "--max-concurrency" in err


def test_version_names_all_three() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        b"hardfetch",
        b"curl_cffi",
        b"libcurl",
    ]


def test_a_fetch_imports_nothing_that_it_does_not_need(site: FaultSite) -> None:
    code = (
        "import sys\n"
        "from hardfetch.cli import main\n"
        "try:\n"
        f"    main(['fetch', {site.url('/1k')!r}, '-o', '/dev/null', '-q'])\n"
        "finally:\n"
        "    heavy = {'pydantic', 'curl_cffi', 'rich', 'zstandard'}\n"
        "    print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"[]\n"), done.stderr
