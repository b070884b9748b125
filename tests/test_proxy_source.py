"""Where proxies come from, and what happens when that changes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from hardfetch.errors import OptionError
from hardfetch.proxies import ProxyPool
from hardfetch.proxy_source import ProxySource


def test_proxies_come_from_options_a_file_and_a_callable(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("# paid\nhttp://u:s3cret@b:2 tier=1\n\na:1 weight=2\n")
    source = ProxySource(["a:1", "socks5h://c:3"], file, lambda: ["d:4"])
    loaded = source.load()
    assert [str(proxy) for proxy in loaded] == [
        "http://a:1",
        "socks5h://c:3",
        "http://b:2",
        "http://d:4",
    ]
    assert loaded[0].weight == 2.0
    assert not source.changed()
    file.write_text("e:5\n")
    assert source.changed()
    pool = ProxyPool(loaded)
    pool.replace(source.load(), 1.0)
    assert not source.changed()
    assert sorted(row.state for row in pool.take_rows()).count("gone") == 1


def test_a_file_that_went_bad_is_told_without_its_text(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    source = ProxySource(path=file)
    with pytest.raises(ValueError, match="No such file"):
        source.load()
    for bad in (b"a:1\nhttp://hunter2:hunter2@h\n", b"hunter2 \xff\xfe\n"):
        file.write_bytes(bad)
        with pytest.raises(ValueError, match=r"proxies\.txt: ") as caught:
            source.load()
        assert "hunter2" not in str(caught.value)


def test_copies_are_replaced_together_and_each_loads_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("a:1\n")
    source = ProxySource(path=file)
    source.load()
    other = copy.copy(source)
    for bad in ([], ["portless"]):
        with pytest.raises(ValueError, match="empty|needs a port"):
            source.replace(bad)
    assert not other.changed()
    source.replace(["b:2"])
    assert source.replaced
    assert other.replaced
    assert [str(proxy) for proxy in other.load()] == ["http://b:2"]
    assert source.replaced
    assert not other.changed()
    file.write_text("a:1\nc:3\n")  # which is not asked any more
    assert not other.changed()


def test_a_byte_order_mark_is_no_part_of_the_first_proxy(tmp_path: Path) -> None:
    path = tmp_path / "proxies.txt"
    path.write_bytes(b"\xef\xbb\xbfhttp://a.test:1\r\nhttp://b.test:2\r\n")
    loaded = ProxySource([], path, None).load()
    assert [str(proxy) for proxy in loaded] == ["http://a.test:1", "http://b.test:2"]


@pytest.mark.parametrize(
    ("brought", "told"),
    [
        (None, "give a list of proxies, not NoneType"),
        (5, "give a list of proxies, not int"),
        ("http://a:1", "give a list of proxies, not str"),
        ([5], "a proxy is a string or a Proxy, not int"),
        (["a:1", None], "a proxy is a string or a Proxy, not NoneType"),
        ([b"http://a:1"], "a proxy is a string or a Proxy, not bytes"),
    ],
)
def test_a_callable_that_brings_no_proxies_is_told(brought: Any, told: str) -> None:
    with pytest.raises(OptionError, match=f"^proxy callable: {told}$"):
        ProxySource([], None, lambda: brought).load()


def test_a_list_without_a_proxy_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "proxies.txt"
    path.write_text("# none today\n")
    told = r"^proxy file proxies\.txt: the list is empty; give"
    with pytest.raises(OptionError, match=told):
        ProxySource(path=path).load()
    with pytest.raises(OptionError, match="^proxy: the list is empty; give"):
        ProxySource().load()
