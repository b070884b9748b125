"""curl_cffi must go on exporting what csrc/curlabi.h loads from it.

`tools/curl_symbols.py` looks into the oldest and the newest release for every platform;
here it is the installed one that is asked.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

import pytest
import tooling

from hardfetch import _config


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tooling.load("curl_symbols")


def test_the_lists_of_the_header_are_read_whole(tool: ModuleType) -> None:
    needed, more = tool.named_in_curlabi("NEEDED"), tool.named_in_curlabi("OPTIONAL")
    header = (tooling.TOOLS.parent / "csrc" / "curlabi.h").read_text()
    for first, last in [("curl_global_init", "curl_share_cleanup")]:
        assert (needed[0], needed[-1]) == (first, last)
    assert header.count("    X(") == len(needed) + len(more)
    assert "curl_easy_impersonate" in more


@pytest.mark.parametrize("which", ["NEEDED", "OPTIONAL"])
def test_the_installed_curl_cffi_exports_them(
    tool: ModuleType, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARDFETCH_LIBCURL", raising=False)
    library = ctypes.CDLL(_config.library_path())
    names = tool.named_in_curlabi(which)
    assert [name for name in names if not hasattr(library, name)] == []


def test_a_missing_one_would_be_seen() -> None:
    library = ctypes.CDLL(_config.library_path())
    assert not hasattr(library, "curl_easy_of_no_release")
    assert sys.platform == "linux"


def test_the_oldest_version_is_the_one_that_is_required(tool: ModuleType) -> None:
    assert tool.oldest_allowed() == "0.17"
