"""The options of `hardfetch fetch`, in the order in which --help shows them.

Values stay text here: `hardfetch.options` checks them, for the command line as for
Python, so both take and refuse the same. Each option's name is the Fetcher's, and one
that is not given is None: defaults stand in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


def _value(*names: str, metavar: str, text: str, **more: Any) -> Callable[[_F], _F]:
    return click.option(*names, metavar=metavar, help=text, default=None, **more)


def _flag(*names: str, text: str) -> Callable[[_F], _F]:
    return click.option(*names, is_flag=True, default=None, help=text)


def _several(*names: str, metavar: str, text: str) -> Callable[[_F], _F]:
    return click.option(
        *names, metavar=metavar, help=f"{text}; may repeat", multiple=True
    )


_HOW_MUCH = (
    _value("-c", "--max-concurrency", metavar="N", text="Fetches in flight [256]"),
    _value("--max-per-host", metavar="N", text="The same per host:port, 0 = all [8]"),
    _value("--loops", metavar="N", text="Loop threads [one for every two processors]"),
    _value("--ring-bytes", metavar="SIZE", text="Output ring of each loop [4M]"),
    _value("--window", metavar="N", text="Inputs taken and not yet answered"),
    _value("--window-bytes", metavar="SIZE", text="The same in bytes of input [16M]"),
)
_HOSTS = (
    _value("--rate", metavar="RATE", text="Starts per host, as 5/s or 30/m [any]"),
    _value("--delay", metavar="TIME", text="Between two starts to a host [0]"),
    _value("--jitter", metavar="SHARE", text="Of the delay, added at random [0.5]"),
    _flag("--adaptive", text="Find the rate that each host bears"),
    _value("--breaker", metavar="N", text="Failures until a host rests, 0 = off [10]"),
    _value("--robots", metavar="HOW", text="obey or ignore robots.txt [ignore]"),
    _value("--limits", metavar="FILE", text="Limits per host pattern, TOML or JSON"),
)
_DEADLINES = (
    _value("--timeout", metavar="TIME", text="Soft total of an attempt [10]"),
    _value("--hard-timeout", metavar="TIME", text="Hard total [timeout + 5]"),
    _value("--connect-timeout", metavar="TIME", text="Name, TCP, proxy and TLS [5]"),
    _value(
        "--first-byte-timeout", metavar="TIME", text="From sent to first byte [off]"
    ),
    _value("--idle-timeout", metavar="TIME", text="Without a byte [off]"),
    _value("--deadline", metavar="TIME", text="Queue, attempts and waits [off]"),
    _value(
        "--drain", metavar="TIME", text="Left to fetches in flight by a signal [10]"
    ),
    _value(
        "--stall-warning", metavar="TIME", text="Tell of an unread output after [5]"
    ),
)
_REQUEST = (
    _value("-X", "--method", metavar="METHOD", text="[GET, with --data POST]"),
    _several("-H", "--header", metavar="LINE", text="A request header 'Name: value'"),
    _several(
        "-d",
        "--data",
        metavar="TEXT",
        text="Body, a form unless -H says; @FILE reads it; joined with &",
    ),
    _value(
        "--user-agent", metavar="TEXT", text="[hardfetch/VERSION, or the browser's]"
    ),
    _value(
        "--impersonate", metavar="NAME", text="A browser's profile; 'list' shows all"
    ),
    _value("--http-version", metavar="V", text="1.0, 1.1, 2 or 3 [by the server]"),
    _value("--retries", metavar="N", text="Further attempts after a failure [2]"),
    _several(
        "--retry-on-body",
        metavar="TEXT",
        text="Try again where the first 64 KiB of a body hold it, or match re:REGEX",
    ),
    _value("--sensitive-headers", metavar="NAMES", text="Not sent to another origin"),
    _flag("--no-redirects", text="A redirect is the result"),
    _value("--max-redirects", metavar="N", text="Redirects followed [10]"),
)
_ROUTE = (
    _several(
        "--proxy",
        metavar="URL",
        text="http, https, socks4, 4a, 5 or 5h; a lone one is never benched",
    ),
    _value("--proxy-file", metavar="FILE", text="A list of proxies, read when changed"),
    _value("--proxy-wait", metavar="TIME", text="Wait for a live proxy at most [30]"),
    _value("--sticky", metavar="TIME", text="A session keeps its proxy so long [600]"),
    _value("--exclusive", metavar="WHOM", text="A proxy serves one request or session"),
    _flag("-k", "--insecure", text="Do not check certificates"),
    _value(
        "--cacert", metavar="FILE", text="CA certificates [$SSL_CERT_FILE or certifi]"
    ),
    _value("--tls-cache", metavar="FILE", text="Keep TLS sessions for the next run"),
    _several("--dns-server", metavar="IP[:PORT]", text="Ask this name server"),
    _several("--resolve", metavar="HOST:PORT:ADDR", text="Use this address"),
    _flag("--ipv4", text="Use IPv4 only"),
    _flag("--ipv6", text="Use IPv6 only"),
    _value("--ech", metavar="MODE", text="Encrypted ClientHello: grease, dns, off"),
    _flag("--deny-private", text="Refuse addresses that are not public"),
    _several("--allow-net", metavar="CIDR", text="Let these through --deny-private"),
)
_RECORD = (
    _value("--body", metavar="HOW", text="auto, text, base64 or none [auto]"),
    _value("--headers", metavar="HOW", text="list or none [list]"),
    _value("--fields", metavar="A,B", text="Only these fields of the record"),
    _value("--exclude-fields", metavar="A,B", text="All fields but these"),
    _value("--max-body", metavar="SIZE", text="Body bytes kept, decoded [16M]"),
    _value("--max-wire", metavar="SIZE", text="Body bytes read, before decoding [any]"),
    _value("--max-ratio", metavar="N", text="Decoded over wire bytes [any]"),
    _value("--max-headers", metavar="SIZE", text="Bytes of one response head [300k]"),
)
_TELLING = (
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        default="-",
        help="Records go here; it is emptied first [stdout]",
    ),
    _flag("--resume", text="Keep -o FILE and fetch what has no record in it"),
    _value("--fsync", metavar="WHEN", text="never, interval (1 s) or close [never]"),
    _value("--rotate-size", metavar="SIZE", text="Bytes of a part of -o 'x-{part}'"),
    _value("--rotate-time", metavar="TIME", text="The same in time"),
    click.option("--summary", metavar="FILE", help="Write the run's figures as JSON"),
    click.option("--no-progress", is_flag=True, help="No progress on stderr"),
    click.option("-q", "--quiet", is_flag=True, help="Only errors on stderr"),
)


def fetch_options(function: _F) -> _F:
    """Add all options to a command; the last one added is the first one shown."""
    groups = (_TELLING, _HOW_MUCH, _HOSTS, _DEADLINES, _REQUEST, _ROUTE, _RECORD)
    for option in reversed([option for group in groups for option in group]):
        function = option(function)
    return function
