"""Options: what is taken, what is refused, and how it is said."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from hardfetch import _ffi, profiles
from hardfetch._config import OUTPUT_LINES, Config
from hardfetch.errors import OptionError
from hardfetch.options import OPTION_NAMES, RECORD_FIELDS, Options, default_loops
from hardfetch.retry import RetryPolicy


def test_defaults_are_those_of_the_contract() -> None:
    options = Options.build()
    assert options.max_concurrency == 256
    assert options.max_per_host == 8
    assert (options.timeout, options.hard_timeout) == (10, 15)
    assert options.connect_timeout == 5
    assert (
        options.first_byte_timeout is options.idle_timeout is options.deadline is None
    )
    assert options.retries == 2
    assert options.max_body == 16 * 1024 * 1024
    assert options.max_headers == 300 * 1024
    assert options.max_redirects == 10
    assert options.drain == 10
    assert options.loops == default_loops() >= 1
    assert options.ech == "grease"
    assert options.body == "auto"
    assert options.verify
    assert options.user_agent.startswith("hardfetch/")


def test_none_stands_for_the_default_of_every_option() -> None:
    assert Options.build(**dict.fromkeys(OPTION_NAMES)) == Options.build()


TIMES = [
    "timeout", "hard_timeout", "connect_timeout", "first_byte_timeout", "idle_timeout",
    "deadline", "drain", "stall_warning",
]  # fmt: skip
NO_TIMES = [
    0,
    -1,
    -0.5,
    math.nan,
    math.inf,
    True,
    "0",
    "x",
    "-1",
    "1 s s",
    [],
    b"1",
    1e12,
]


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", NO_TIMES, ids=repr)
def test_what_is_no_time_is_refused_with_the_options_name(
    name: str, value: Any
) -> None:
    with pytest.raises(OptionError, match=f"^{name}: .*give seconds"):
        Options.build(**{name: value})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.3", 0.3),
        ("2m", 120.0),
        ("500ms", 0.5),
        ("1h", 3600.0),
        (".5", 0.5),
        ("1 s", 1),
        ("4e-7", 1e-6),  # a microsecond is the least that the core counts
    ],
)
def test_times_are_read_from_text(text: str, value: float) -> None:
    assert Options.build(idle_timeout=text).idle_timeout == pytest.approx(value)


COUNTS = ["max_concurrency", "loops", "window", "max_ratio"]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "", "a", "1.5", math.nan, 10**30])
def test_what_is_no_count_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"^{name}: .*integer"):
        Options.build(**{name: value})


@pytest.mark.parametrize("name", ["max_per_host", "retries", "max_redirects"])
def test_zero_is_a_value_where_it_means_none(name: str) -> None:
    assert getattr(Options.build(**{name: 0}), name) == 0
    with pytest.raises(OptionError):
        Options.build(**{name: -1})


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("300k", 300 << 10), ("16M", 16 << 20), ("1.5G", 3 << 29)],
)
def test_sizes_are_read_from_text(text: str, value: int) -> None:
    assert Options.build(max_body=text).max_body == value


@pytest.mark.parametrize("value", [0, -1, "0", "1x", True, 1.5, "16 MM", 1 << 60])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="^max_body: .*give bytes"):
        Options.build(max_body=value)


@pytest.mark.parametrize(
    "name", ["verify", "insecure", "ipv4", "deny_private", "follow"]
)
@pytest.mark.parametrize("value", [0, 1, "yes", []])
def test_only_bools_are_flags(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"^{name}: .*True or False"):
        Options.build(**{name: value})


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"^timeot .*did you mean timeout"):
        Options.build(timeot=1)
    with pytest.raises(OptionError, match="no option"):
        Options.build(zzzzzz=1)


def test_a_hard_limit_below_the_soft_one_is_refused() -> None:
    with pytest.raises(OptionError, match="^hard_timeout: 1 .*timeout"):
        Options.build(timeout=2, hard_timeout=1)
    assert Options.build(timeout=2, hard_timeout=2).hard_timeout == 2


def test_one_limit_moves_the_other_along() -> None:
    assert Options.build(timeout=30).hard_timeout == 35
    short = Options.build(hard_timeout=3)
    assert (short.timeout, short.hard_timeout) == (3, 3)
    long = Options.build(hard_timeout=60)
    assert (long.timeout, long.hard_timeout) == (10, 60)


def test_a_profile_is_checked_and_its_alias_resolved() -> None:
    chrome = Options.build(impersonate="chrome").impersonate
    assert chrome.startswith("chrome")
    assert chrome in profiles.names()
    assert chrome[len("chrome") :].isalnum()
    with pytest.raises(OptionError, match=r"^impersonate: 'chrme131' .*did you mean"):
        Options.build(impersonate="chrme131")
    assert Options.build(impersonate="").impersonate == ""


def test_a_profile_brings_its_own_user_agent() -> None:
    assert Options.build(impersonate="chrome").user_agent == ""
    own = Options.build(impersonate="chrome", user_agent="me")
    assert (own.user_agent, own.headers) == ("me", (b"User-Agent: me",))
    for name, added in (("User-agent", ()), ("User-Agent-X", (b"User-Agent: me",))):
        own = Options.build(
            impersonate="chrome", user_agent="me", headers={name: "you"}
        )
        assert own.headers == (f"{name}: you".encode(), *added)


def test_reading_the_profiles_does_not_import_curl_cffi() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from hardfetch import profiles\n"
        "assert 'chrome' in profiles.names()\n"
        "assert 'curl_cffi' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_headers_are_taken_in_three_forms_and_say_what_the_record_holds() -> None:
    expected = (b"Accept: text/html", b"X-Name: caf\xc3\xa9")
    for given in (
        {"Accept": "text/html", "X-Name": "café"},
        [("Accept", "text/html"), ["X-Name", " café "]],
        ["Accept: text/html", "X-Name:café"],
    ):
        assert Options.build(headers=given).headers == expected
    assert Options.build(header="A: b").headers == (b"A: b",)
    assert not Options.build(headers="none").record_headers
    assert Options.build(headers="list").record_headers


@pytest.mark.parametrize(
    "value",
    [{"A b": "c"}, {"A": "b\r\nC: d"}, {"A": 1}, {"": "x"}, [("A",)], 5,
     {"A": "\ud800"}, "nonsense", {"A": "\0"}],
)  # fmt: skip
def test_a_header_that_cannot_be_sent_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="^headers: "):
        Options.build(headers=value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("SOCKS5H://u:p@h:1", "socks5h://u:p@h:1"),
        ("http://[::1]:3128", "http://[::1]:3128"),
        ("", ""),
    ],
)
def test_a_proxy_is_taken_with_its_scheme(given: str, kept: str) -> None:
    assert Options.build(proxy=given).proxy == kept


@pytest.mark.parametrize(
    "value", ["foo://user:s3cret@h:1", "http://", "http://user:s3cret@", "http://h:x",
              "h", "http://u:s3cret@h",
              "http://u:s3cret@h\r\n:1", "http://u:s3cret@a b:1", ["a:1", "x://b:2"], 7]
)  # fmt: skip
def test_a_wrong_proxy_is_refused_without_its_password(value: Any) -> None:
    with pytest.raises(OptionError, match="^proxy: ") as caught:
        Options.build(proxy=value)
    assert "s3cret" not in str(caught.value)


def test_fields_are_chosen_from_the_closed_list() -> None:
    assert Options.build(fields="url,body").fields == ("url", "body", "body_base64")
    left = Options.build(exclude_fields=["body", "headers"]).fields
    assert left == tuple(
        name for name in RECORD_FIELDS if name not in ("body", "body_base64", "headers")
    )
    with pytest.raises(OptionError, match=r"^fields: 'status' .*status_code"):
        Options.build(fields="status")
    with pytest.raises(OptionError):
        Options.build(fields="")
    with pytest.raises(OptionError, match="no field is left"):
        Options.build(fields="url", exclude_fields="url")


def test_the_way_is_checked() -> None:
    options = Options.build(
        dns_server="127.0.0.1:53,::1",
        resolve=["a.test:80:127.0.0.1"],
        allow_net="10.1.2.3/8",
        ipv4=True,
    )
    assert options.dns_server == ("127.0.0.1:53", "::1")
    assert options.allow_net == ("10.0.0.0/8",)
    assert options.ip_version == 4
    for name, value in (
        ("dns_server", "localhost"),
        ("dns_server", "1.1.1.1:0"),
        ("resolve", "a.test:127.0.0.1"),
        ("allow_net", "10.0.0.0/40"),
        ("ech", "maybe"),
        ("http_version", "1.2"),
        ("body", "txt"),
        ("method", "GE T"),
        ("cacert", "/does/not/exist.pem"),
        ("data", 5),
    ):
        with pytest.raises(OptionError, match=f"^{name}: "):
            Options.build(**{name: value})
    with pytest.raises(OptionError, match="not both"):
        Options.build(ipv4=True, ipv6=True)


def test_negated_names_say_the_same_as_the_plain_ones() -> None:
    assert not Options.build(insecure=True).verify
    assert not Options.build(no_redirects=True).follow


def test_a_ring_is_rounded_up_to_a_power_of_two() -> None:
    assert Options.build(ring_bytes=100_000).ring_bytes == 131072
    with pytest.raises(OptionError):
        Options.build(ring_bytes=1000)


def test_data_makes_the_request_a_post() -> None:
    options = Options.build(data="é")
    assert (options.method, options.data) == ("POST", "é".encode())
    assert Options.build(data=b"", method="PUT").method == "PUT"


def test_methods_of_the_standards_are_put_into_capitals() -> None:
    for given, sent in (
        ("post", "POST"), ("Get", "GET"), ("patch", "PATCH"), ("oPTIONS", "OPTIONS"),
        ("purge", "purge"), ("Purge", "Purge"), ("POST", "POST"), ("posts", "posts"),
    ):  # fmt: skip
        assert Options.build(method=given).method == sent


def test_a_path_is_taken_for_the_ca_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----")
    assert Options.build(cacert=bundle).cacert == os.fspath(bundle)


LIMITS = (1e-6, 31e6)
EXTREMES = {
    "loops": (1, 256), "max_concurrency": (1, 1_000_000),
    "max_per_host": (0, 1_000_000), "ring_bytes": ("64k", "1G"),
    "window": (1, 1 << 31), "window_bytes": (1, "1T"), "timeout": LIMITS,
    "connect_timeout": LIMITS, "deadline": LIMITS, "idle_timeout": LIMITS,
    "first_byte_timeout": LIMITS, "max_body": (1, "1T"), "max_wire": (1, "1T"),
    "max_ratio": (1, 1 << 40), "max_headers": ("1k", "16M"),
    "max_redirects": (0, 1000),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_what_is_taken_here_the_core_takes_too(name: str) -> None:
    for value in EXTREMES[name]:
        config = Config(
            Options.build(**{"loops": 1, name: value}), output=OUTPUT_LINES, window=100
        )
        if value not in (256, 1_000_000, "1G"):  # of which it would make that many
            _ffi.Engine(config.c).close()


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("value", [-1, 1 << 60, 10**400])
def test_what_is_beyond_is_refused_here(name: str, value: int) -> None:
    with pytest.raises(OptionError, match=f"^{name}: "):
        Options.build(**{name: value})


@pytest.mark.parametrize("value", [1, 1023, "17M", "1G"])
def test_a_cap_of_heads_has_bounds(value: Any) -> None:
    with pytest.raises(OptionError, match="^max_headers: .*give 1k to 16M"):
        Options.build(max_headers=value)


@pytest.mark.parametrize(
    "entry",
    ["", "a:1", "a:1:x", "a:1:1.2.3", "a:0:1.2.3.4", "a:65536:1.2.3.4", "a::1.2.3.4",
     ":1:1.2.3.4", "a:1:1.2.3.4,", "a:1:[1.2.3.4", "-a:1", "a:1:host.test"],
)  # fmt: skip
def test_what_is_no_resolution_is_refused(entry: str) -> None:
    with pytest.raises(OptionError, match="^resolve: .*give HOST:PORT:ADDR"):
        Options.build(resolve=[entry])


@pytest.mark.parametrize(
    "entry",
    ["a.test:1:1.2.3.4", "a:65535:::1", "a:1:[::1]", "[::1]:1:::2", "*:80:127.0.0.1",
     "+a:1:1.2.3.4", "a:1:1.2.3.4,[::1],5.6.7.8"],
)  # fmt: skip
def test_a_resolution_has_a_host_a_port_and_addresses(entry: str) -> None:
    assert Options.build(resolve=entry).resolve == (entry,)


@pytest.mark.parametrize("port", [0, 65536, 99999])
def test_a_proxy_has_a_port(port: int) -> None:
    with pytest.raises(OptionError, match="^proxy: "):
        Options.build(proxy=f"http://a.test:{port}")


def test_an_empty_name_server_is_none() -> None:
    for value in ("", [""], " "):
        with pytest.raises(OptionError, match="^dns_server: "):
            Options.build(dns_server=value)


def test_certificates_are_certificates(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    for text in ("", "no PEM", "-----BEGIN PRIVATE KEY-----\n"):
        path.write_text(text)
        with pytest.raises(OptionError, match="^cacert: .*holds no certificate"):
            Options.build(cacert=path)


def test_retries_stand_in_one_place() -> None:
    assert Options.build(retry=RetryPolicy(5)).retries == 5
    assert Options.build(retry=RetryPolicy(5), retries=5).retries == 5
    with pytest.raises(OptionError, match="retries: the policy given as retry says 2"):
        Options.build(retry=RetryPolicy(2), retries=5)


@pytest.mark.parametrize("empty", [[], (), ""])
def test_an_empty_list_of_proxies_is_no_direct_connection(empty: Any) -> None:
    with pytest.raises(OptionError, match="the list is empty"):
        Options.build(proxies=empty)
    assert Options.build(proxies=None).proxies is None


def test_of_several_nets_the_wrong_one_is_named() -> None:
    with pytest.raises(OptionError, match=r"^allow_net: '1\.2\.3' is not allowed"):
        Options.build(deny_private=True, allow_net=["10.0.0.0/8", "1.2.3"])
