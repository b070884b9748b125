"""The corpus: in every page the record's body is the text that the page holds."""

from __future__ import annotations

from collections.abc import Iterator

import corpus
import pytest
import truth
from answers import Answers

from hardfetch.testing import FaultSite

PAGES = corpus.pages()
#: What browsers take these labels for (WHATWG, Encoding, 4.2).
BROWSERS = {"iso-8859-1": "windows-1252", "iso-8859-9": "windows-1254"}


@pytest.fixture(scope="module")
def found() -> Iterator[list[truth.Record]]:
    with Answers([page.answer for page in PAGES]) as server, FaultSite() as site:
        inputs = [{"url": server.url(n), "id": p.name} for n, p in enumerate(PAGES)]
        yield truth.fetch(site, inputs)


def test_it_is_large_enough() -> None:
    assert len(PAGES) >= 60
    assert len({page.charset for page in PAGES}) >= 20
    assert len({page.name for page in PAGES}) == len(PAGES)
    assert all(len(page.text) > 500 for page in PAGES)


@pytest.mark.parametrize("number", range(len(PAGES)), ids=[p.name for p in PAGES])
def test_the_body_is_the_known_text(number: int, found: list[truth.Record]) -> None:
    page, record = PAGES[number], found[number]
    assert record["error"] is None
    assert record["body"] == page.text
    assert record["charset_source"] == page.source
    assert record["charset"] == BROWSERS.get(page.charset, page.charset)
    assert record["size"] == page.size
    assert record["truncated"] is None
