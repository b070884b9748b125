"""What a line of JSON costs until the core has it, beside reading it as JSON alone."""

from __future__ import annotations

import timeit
from typing import Any

import orjson
import pytest

from hardfetch.options import Options
from hardfetch.request import Packer

URL = "http://example.com/page/12345"
LINES: dict[str, dict[str, Any]] = {
    "url": {"url": URL},
    "id": {"url": URL, "id": "a-12345"},
    "meta": {"url": URL, "id": 12345, "meta": {"depth": 3, "from": "x"}},
    "timeout": {"url": URL, "timeout": 5},
    "headers": {"url": URL, "headers": {"Accept": "text/html", "X-Token": "abc"}},
}
LINES["all"] = {
    **LINES["meta"],
    **LINES["headers"],
    "method": "POST",
    "body": "a=b&c=d",
    "proxy": "http://127.0.0.1:8080",
    "session": "s-7",
    "timeout": 5,
    "hard_timeout": 9,
    "impersonate": "chrome",
}
NUMBER, ROUNDS = 200, 100  # the quickest round counts


@pytest.mark.parametrize("name", LINES)
def test_a_json_line_is_packed_in_a_few_times_its_parsing(
    benchmark: Any, name: str
) -> None:
    packer = Packer(Options.build())
    line = orjson.dumps(LINES[name])

    def both() -> tuple[float, float]:
        packed, parsed = [], []
        for _ in range(ROUNDS):
            packed.append(timeit.timeit(lambda: packer.line(line), number=NUMBER))
            parsed.append(timeit.timeit(lambda: orjson.loads(line), number=NUMBER))
        return min(packed) / NUMBER * 1e6, min(parsed) / NUMBER * 1e6

    ours, least = benchmark.pedantic(both, rounds=1, iterations=1)
    benchmark.extra_info.update(packed_us=round(ours, 2), parsed_us=round(least, 2))
    assert ours <= 8 * least, (ours, least)
