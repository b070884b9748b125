"""`Result.ndjson` is the line that `Fetcher.run` writes, whatever came of an input."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import corpus
import pytest
import strict
from answers import Answers

from hardfetch import Fetcher, NdjsonWriter, Result, jsonio
from hardfetch.testing import FaultSite

LONG = 300_000  # bytes of a body that is encoded without the interpreter's lock


def answer(content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
    return head.encode() + b"Set-Cookie: a=\xe9\r\n\r\n" + body


ANSWERS = [
    *(page.answer for page in corpus.pages()),
    answer("text/html; charset=utf-8", b""),
    answer("text/html; charset=utf-8", b"not \xff"),
    answer("text/html; charset=gbk", "valid é".encode()),
    answer("text/html; charset=gbk", b"neither \xff"),
    answer("text/html", b"\xef\xbb\xbf"),
    answer("text/html", b"\xef\xbb\xbf\xff"),
    answer("text/html", "\ufeff32".encode("utf-32-le")),
    answer("text/html", b"<meta charset=iso-2022-kr>\x1b"),
    answer("text/plain", "é cut ".encode() + b"\xe2\x82"),
    answer("text/plain", b"a\0b"),
    answer("text/plain", bytes(range(1, 256))),
    answer("text/plain", b'\xe9"\\\n' * (LONG // 4)),
    answer("text/plain; charset=utf-8", "\u2028\x85\x7f".encode() * 20_000),
    answer("image/png", bytes(range(256)) * 99),
]
SETTINGS: dict[str, dict[str, Any]] = {
    "all": {},
    "text": {"body": "text"},
    "base64": {"body": "base64"},
    "no body": {"body": "none"},
    "no headers": {"headers": "none"},
    "few fields": {"fields": "seq,status_code,body"},
    "the body alone": {"fields": "body"},
    "another field alone": {"fields": "final_url"},
}
VOLATILE = ("elapsed", "timing", "fetched_at", "remote_port", "reused")


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with Answers(ANSWERS) as server:
        yield server


def written(inputs: list[Any], folder: Path, **options: Any) -> list[bytes]:
    """The lines of a run, in the order of the inputs where they have no `seq`."""
    path = folder / "out.ndjson"
    with Fetcher(**options) as fetcher:
        fetcher.run(inputs, path)
    return path.read_bytes().splitlines(keepends=True)


def stable(line: bytes) -> tuple[list[str], dict[str, Any]]:
    """A record's names in their order, and what of it two fetches have in common."""
    assert line.endswith(b"\n")
    record = strict.parse(line)
    names = list(record)
    for name in VOLATILE:
        record.pop(name, None)
    for attempt in record.get("attempts", ()):
        del attempt["elapsed"], attempt["wait"]
    return names, record


def same(lines: list[bytes], results: list[Result]) -> None:
    made = [stable(result.ndjson()) for result in results]
    if "seq" in made[0][1]:
        wanted = sorted(map(stable, lines), key=lambda pair: pair[1]["seq"])
        assert sorted(made, key=lambda pair: pair[1]["seq"]) == wanted
    else:
        assert sorted(map(repr, made)) == sorted(repr(stable(line)) for line in lines)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_line_of_each_body_is_that_of_a_run(
    answers: Answers, tmp_path: Path, name: str
) -> None:
    inputs = [answers.url(number) for number in range(len(ANSWERS))]
    options = {"max_per_host": 0, "retries": 0, **SETTINGS[name]}
    lines = written(inputs, tmp_path, **options)
    with Fetcher(**options) as fetcher:
        results = list(fetcher.map(inputs))
    assert len(lines) == len(results) == len(ANSWERS)
    same(lines, results)  # although the fetcher is closed


def test_the_line_of_each_outcome_is_that_of_a_run(
    site: FaultSite, tmp_path: Path
) -> None:
    inputs: list[Any] = [
        {"url": fault.url, "id": fault.name, "method": fault.method, "body": fault.body}
        for fault in site.faults
        if not fault.hangs and not fault.proxy and not fault.dns_server
        # Else what is told may be another thing the next time.
        and len(fault.expect) == 1 and not fault.truncated
    ]  # fmt: skip
    inputs += [
        "no URL at all",
        {"url": site.url("/redirect/3"), "meta": {"deep": [1 << 70, "é\u2028"]}},
        {"url": site.url("/1k"), "method": "HEAD", "id": [None, 1.5]},
        {"url": site.url("/1k"), "proxy": "http://u:s3cret@127.0.0.1:1"},
        '{"url": "http://x/", "id": 7, "unknown": 1}',
    ]
    options = {"cacert": site.cafile, "retries": 1, "breaker": 0, "max_per_host": 0}
    lines = written(inputs, tmp_path, **options)
    with Fetcher(**options) as fetcher:
        results = list(fetcher.map(inputs))
    assert len(results) == len(inputs) > 30
    assert any(len(result.attempts) > 1 for result in results)
    for result in results:
        bare = Result(result.line, result.content)  # which reads all in the line
        assert (bare.status_code, bare.error) == (result.status_code, result.error)
    same(lines, results)


def test_one_fetch_has_its_line_too(site: FaultSite, fetcher: Fetcher) -> None:
    result = fetcher.fetch(site.url("/1k"))
    assert strict.parse(result.ndjson()) == {**result.record, "body": result.text}


def test_any_number_of_threads_make_the_same_lines(answers: Answers) -> None:
    inputs = [answers.url(number) for number in range(len(ANSWERS))]
    with Fetcher(max_per_host=0) as fetcher:
        results = list(fetcher.map(inputs))
    assert any(len(result.content) > LONG - 4 for result in results)
    lines = [result.ndjson() for result in results]

    def make(turn: int) -> bool:
        order = range(turn, turn + len(results))
        numbers = [number % len(results) for number in order]
        return all(results[n].ndjson() == lines[n] for n in numbers)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(make, range(24)))


@pytest.mark.parametrize("library", ["orjson", "json"])
def test_lines_go_through_a_writer_as_they_are(
    answers: Answers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
) -> None:
    if library == "json":
        monkeypatch.setattr(jsonio, "_orjson", None)
    path = tmp_path / "out.ndjson"
    with Fetcher(max_per_host=0) as fetcher, NdjsonWriter(path) as writer:
        results = []
        for result in fetcher.map(answers.url(n) for n in range(len(ANSWERS))):
            writer.write_raw(result.ndjson())
            results.append(result)
    assert path.read_bytes() == b"".join(result.ndjson() for result in results)
    for result, record in zip(results, strict.read(path.read_bytes()), strict=True):
        assert strict.body(record) is not None or not result.content


def test_the_line_outlives_pickling(answers: Answers) -> None:
    with Fetcher(fields="body,size") as fetcher:
        result = fetcher.fetch(answers.url(0))
    again = pickle.loads(pickle.dumps(result))
    assert again.ndjson() == result.ndjson()
    assert (again, again.seq) == (result, 0)
