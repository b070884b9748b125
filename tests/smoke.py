"""What an installed hardfetch must be able to do, wherever it was installed.

    python tests/smoke.py [EMULATOR...]

EMULATOR is the command line that runs programs of this Python's processor, where the
machine's own is another. A plain program, so that it runs in an environment with
nothing but hardfetch and what it requires: each function named check_… is one check. It
fetches from the fault site alone. Exit code 0 when all of them pass.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

import hardfetch
from hardfetch import Fetcher
from hardfetch.errors import DeadlineExceeded
from hardfetch.testing import FaultSite, content

LIMIT = 120.0  # seconds for a command, on a slow machine too
FAULTS = ("silent-after-accept", "reset-mid-body", "close-mid-chunk", "trickle-body")
COMPILERS = ("cc", "gcc", "clang", "c99", "tcc", "zig")


def command(*words: str, stdin: str = "") -> tuple[int, str, str]:
    """Run `hardfetch`, as the script that was installed; return code and outputs."""
    emulator = sys.argv[1:]
    script = [str(Path(sys.executable).with_name("hardfetch"))]
    program = [*emulator, sys.executable, "-m", "hardfetch"] if emulator else script
    done = subprocess.run(
        [*program, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def check_it_is_the_installed_one_and_needs_no_compiler(_: FaultSite) -> None:
    here = Path(hardfetch.__file__).resolve()
    assert "site-packages" in here.parts, here
    assert not [name for name in COMPILERS if shutil.which(name)]
    assert metadata.version("hardfetch") == hardfetch.__version__


def check_pages_arrive_whole_and_decoded(site: FaultSite) -> None:
    text = content.long_text()
    want = dict.fromkeys(("/gzip", "/deflate", "/br", "/zstd", "/chunked"), text)
    with Fetcher(timeout=60) as fetcher:
        results = list(fetcher.map([site.url(path) for path in want]))
    assert len(results) == len(want)
    for result in results:
        assert result.status_code == 200, result
        assert result.content == text, result


def check_every_charset_becomes_its_text(site: FaultSite) -> None:
    with Fetcher(timeout=60) as fetcher:
        urls = [site.url(f"/charset/{name}") for name in content.CHARSET_TEXTS]
        texts = {str(result.url): result.text for result in fetcher.map(urls)}
    for url, known in zip(urls, content.CHARSET_TEXTS.values(), strict=True):
        assert known in texts[url], url


def check_faults_are_told_as_what_they_are(site: FaultSite) -> None:
    faults = {name: site.fault(name) for name in FAULTS}
    inputs = [{"url": fault.url, "id": name} for name, fault in faults.items()]
    began = time.monotonic()
    with Fetcher(timeout=2, retries=0) as fetcher:
        results = list(fetcher.map(inputs))
    assert time.monotonic() - began < 30
    assert len(results) == len(FAULTS)
    for result in results:
        kind = result.error.type if result.error else "ok"
        assert kind in faults[result.id].expect, (result.id, kind)


def check_a_browser_is_impersonated(site: FaultSite) -> None:
    with Fetcher(timeout=60, impersonate="chrome", cacert=str(site.cafile)) as fetcher:
        for base in (site.http, site.https):
            result = fetcher.fetch(f"{base}/echo")
            assert result.status_code == 200, result
            sent = {name.lower(): value for name, value in result.json()["headers"]}
            assert "Chrome/" in sent["user-agent"], sent
            assert "sec-ch-ua" in sent, sent


def check_a_run_writes_one_record_for_each_line(site: FaultSite) -> None:
    with tempfile.TemporaryDirectory() as folder:
        urls, out = Path(folder, "urls"), Path(folder, "out.ndjson")
        urls.write_text("".join(f"{site.url('/1k')}?{n}\n" for n in range(500)))
        with Fetcher(timeout=60) as fetcher:
            summary = fetcher.run(str(urls), str(out))
        records = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert summary.records == len(records) == 500
    assert sorted(record["seq"] for record in records) == list(range(500))
    assert {record["status_code"] for record in records} == {200}


def check_the_writer_keeps_every_line(_: FaultSite) -> None:
    from hardfetch import NdjsonWriter

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows.ndjson")

        def write(writer: Any, thread: int) -> None:
            for n in range(1000):
                writer.write({"thread": thread, "n": n, "text": "\u65e5\u672c \u20ac"})

        with NdjsonWriter(str(out)) as writer:
            threads = [
                threading.Thread(target=write, args=(writer, n)) for n in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        rows = [json.loads(line) for line in out.read_bytes().splitlines()]
    for n in range(4):
        kept = [row["n"] for row in rows if row["thread"] == n]
        assert kept == list(range(1000))


def check_a_deadline_ends_a_blocked_fetch(site: FaultSite) -> None:
    url = site.fault("silent-after-accept").url
    began = time.monotonic()
    try:
        with hardfetch.deadline(1.0):
            hardfetch.fetch(url, timeout=60, retries=0)
    except DeadlineExceeded:
        assert time.monotonic() - began < 30
    else:
        raise AssertionError("the block was not ended")


def check_the_command_fetches_from_a_pipe_into_a_pipe(site: FaultSite) -> None:
    lines = "".join(f"{site.url('/status/404')}?{n}\n" for n in range(50))
    code, out, err = command("fetch", "-", "--timeout", "60", stdin=lines)
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert [record["status_code"] for record in records] == [404] * 50


def check_the_command_tells_all_versions(_: FaultSite) -> None:
    code, out, err = command("--version")
    names = dict(line.split(" ", 1) for line in out.splitlines())
    assert code == 0, err
    assert names["hardfetch"] == hardfetch.__version__
    assert names["curl_cffi"] == metadata.version("curl_cffi")
    assert "libcurl/" in names["libcurl"], names


def check_the_doctor_finds_it_healthy(_: FaultSite) -> None:
    code, out, err = command("doctor", "-c", "64")
    assert code == 0, out + err
    assert "every needed one was found" in out, out


def main() -> int:
    """Run every check and tell of each."""
    checks = [value for name, value in globals().items() if name.startswith("check_")]
    failed = 0
    with FaultSite() as site:
        for check in checks:
            try:
                check(site)
            except Exception:  # noqa: BLE001 - each check has its say
                failed += 1
                traceback.print_exc()
                sys.stderr.write(f"FAILED {check.__name__}\n")
    sys.stdout.write(f"{len(checks) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
