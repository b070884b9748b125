"""What an outcome says about the site, the proxy and us."""

from __future__ import annotations

import re
from pathlib import Path

from hardfetch import classify
from hardfetch.classify import Mark, host_mark, proxy_mark

HEADER = Path(__file__).parent.parent / "csrc" / "err.h"


def listed(name: str) -> list[str]:
    body = HEADER.read_text().split(f"#define {name}(X)")[1].split("\n\n")[0]
    return re.findall(r'X\(\w+, "(\w*)"\)', body)


def test_types_and_their_numbers_are_those_of_the_core() -> None:
    assert list(classify.TYPES) == listed("HF_TYPE_LIST")


def test_phases_and_origins_are_those_of_the_core() -> None:
    header = (Path(__file__).parent.parent / "csrc" / "err.h").read_text()
    enums = re.findall(r"enum \{([^}]*)\}", header)
    names = [re.findall(r"HF_[PO]_(\w+)", one) for one in enums]
    assert [*map(str.upper, classify.PHASES), "COUNT"] in names
    assert [*map(str.upper, classify.ORIGINS), "COUNT"] in names


def test_only_what_the_site_bears_hurts_the_host() -> None:
    assert host_mark("connect_refused", "site") is Mark.HURT
    assert host_mark("connect_refused", "proxy") is Mark.NONE
    assert host_mark("too_many_open_files", "local") is Mark.NONE
    assert host_mark("redirect_loop", "site") is Mark.HEAL
    assert host_mark("", "site") is Mark.HEAL


def test_only_what_the_proxy_bears_hurts_the_proxy() -> None:
    assert proxy_mark("tls_error", "proxy") is Mark.HURT
    assert proxy_mark("proxy_refused", "proxy", 502) is Mark.HURT
    assert proxy_mark("timeout", "site") is Mark.SUSPECT
    assert proxy_mark("redirect_loop", "site") is Mark.HEAL
    assert proxy_mark("deadline", "local") is Mark.NONE
    assert proxy_mark("", "site", 404) is Mark.HEAL
    assert proxy_mark("", "site", 502) is Mark.SUSPECT
