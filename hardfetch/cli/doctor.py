"""`hardfetch doctor`: whether this machine is fit for the asked concurrency."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hardfetch import profiles, values
from hardfetch._version import __version__
from hardfetch.cli import exits, limits
from hardfetch.errors import EngineError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hardfetch._config import Library

_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `bad` makes the doctor's exit code 1."""

    level: Literal["ok", "note", "bad"]
    name: str
    text: str


@click.command()
@click.option(
    "-c",
    "--max-concurrency",
    metavar="N",
    default="256",
    help="Fetches in flight [256]",
)
@click.pass_context
def doctor(ctx: click.Context, max_concurrency: str) -> int:
    """Tell whether this machine is fit: versions, libcurl, symbols and limits.

    Exit code 0 when all is well, 1 when something has to be changed.
    """
    try:
        asked = values.count("max_concurrency", max_concurrency)
    except OptionError as error:
        reason = str(error).partition(": ")[2]
        raise click.BadParameter(
            reason, ctx, param_hint="'-c' / '--max-concurrency'"
        ) from None
    for name, text in (("hardfetch", __version__), *versions(), *_surroundings()):
        click.echo(f"      {name:<12} {text}")
    click.echo()
    healthy = True
    for finding in findings(asked):
        healthy = healthy and finding.level != "bad"
        click.echo(f"{finding.level:<5} {finding.name:<12} {finding.text}")
    return exits.OK if healthy else exits.FAILED


def versions() -> list[tuple[str, str]]:
    """Return the versions of curl_cffi and of the libcurl in use."""
    try:
        from hardfetch import _config
    except ImportError as error:
        return [("core", f"not built: {error}")]
    found = [("curl_cffi", _config.curl_cffi_version() or "not installed")]
    try:
        found.append(("libcurl", _config.probe(_config.library_path()).version))
    except EngineError as error:
        found.append(("libcurl", f"unusable: {error}"))
    return found


def _surroundings() -> list[tuple[str, str]]:
    from hardfetch import jsonio

    libc = " ".join(part for part in platform.libc_ver() if part)
    return [
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("kernel", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("libc", libc or "unknown"),
        ("processors", f"{len(os.sched_getaffinity(0))} usable"),
        ("JSON", "orjson" if jsonio.have_orjson() else "stdlib; orjson is faster"),
    ]


def findings(max_concurrency: int) -> Iterator[Finding]:
    """Look at everything that a run with so many fetches in flight needs."""
    yield from _library()
    yield _certificates()
    yield _descriptors(max_concurrency)
    yield _ports(max_concurrency)
    yield _start(max_concurrency)


def _library() -> Iterator[Finding]:
    try:
        from hardfetch import _config

        path = _config.library_path()
        library = _config.probe(path)
    except (EngineError, ImportError) as error:
        yield Finding("bad", "library", str(error))
        return
    yield Finding("ok", "library", path)
    yield Finding("ok", "symbols", "every needed one was found")
    if library.missing:
        yield Finding("note", "optional", f"absent: {', '.join(library.missing)}")
    yield _decoding(library)
    yield _impersonation(library)


def _decoding(library: Library) -> Finding:
    if library.decodes:
        lacking = {
            word: any(symbol.startswith(word) for symbol in library.missing)
            for word in ("Brotli", "ZSTD")
        }
        names = ["gzip", "deflate"]
        names += [] if lacking["Brotli"] else ["br"]
        names += [] if lacking["ZSTD"] else ["zstd"]
        text = f"{', '.join(names)} by the core"
        return Finding("note" if any(lacking.values()) else "ok", "decoding", text)
    text = (
        "by libcurl: this one lacks the decoders' symbols, so a body that was cut "
        "inside its encoding may pass for whole"
    )
    return Finding("note", "decoding", text)


def _impersonation(library: Library) -> Finding:
    if library.impersonates:
        return Finding("ok", "profiles", f"{len(profiles.names())} to impersonate")
    return Finding("note", "profiles", "none: this libcurl can't impersonate")


def _certificates() -> Finding:
    try:
        from hardfetch import _config

        return Finding("ok", "CA bundle", _config.ca_bundle())
    except (EngineError, ImportError) as error:
        return Finding("bad", "CA bundle", str(error))


def _descriptors(max_concurrency: int) -> Finding:
    needed = limits.descriptors_needed(max_concurrency)
    soft, hard = limits.descriptor_limits()
    has = f"{needed} may be needed for {max_concurrency} in flight; {soft} are allowed"
    if limits.allows(soft, needed):
        return Finding("ok", "nofile", has)
    if limits.allows(hard, needed):
        text = f"{has} and `hardfetch fetch` raises that; in Python call setrlimit"
        return Finding("note", "nofile", text)
    remedy = (
        f"raise it to {needed}: `ulimit -n`, LimitNOFILE= of systemd, nofile in "
        "limits.conf or --ulimit of the container, or lower --max-concurrency"
    )
    return Finding("bad", "nofile", f"{has}, {hard} at most; {remedy}")


def _ports(max_concurrency: int) -> Finding:
    try:
        low, high = map(int, _PORT_RANGE.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return Finding("note", "ports", "their range can't be read here")
    count = high - low + 1
    text = f"{count} local ones for each address and port of a site or proxy"
    if count >= max_concurrency:
        return Finding("ok", "ports", text)
    remedy = "widen net.ipv4.ip_local_port_range"
    return Finding("note", "ports", f"{text}, fewer than fetches in flight; {remedy}")


def _start(max_concurrency: int) -> Finding:
    try:
        from hardfetch import _config, _ffi
        from hardfetch.options import Options

        options = Options.build(max_concurrency=max_concurrency)
        config = _config.Config(options, output=_config.OUTPUT_LINES, window=1)
        _ffi.Engine(config.c).close()
    except (EngineError, ImportError) as error:
        return Finding("bad", "engine", str(error))
    return Finding("ok", "engine", "starts and ends")
