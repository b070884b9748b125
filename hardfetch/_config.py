"""From checked options to the core's `hf_config`; finds libcurl and the CA bundle."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardfetch import profiles
from hardfetch._ffi import error_text, ffi, lib
from hardfetch.bodies import Expressions, texts
from hardfetch.errors import EngineError, OptionError
from hardfetch.limits import LimitRow, LimitTable
from hardfetch.options import BODY_MODES, ECH_MODES
from hardfetch.policy import Policy
from hardfetch.proxies import ProxyPool
from hardfetch.tlscache import store_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hardfetch.options import Options
    from hardfetch.retry import RetryTable

OUTPUT_LINES = 0
OUTPUT_FRAMES = 1

#: The first curl_cffi whose shared object has all that the core needs.
CURL_CFFI_LEAST = (0, 17)


@dataclass(frozen=True)
class Library:
    """What the libcurl that is used can do."""

    path: str
    version: str
    version_num: int  # 0xMMmmpp
    impersonates: bool
    decodes: bool
    missing: tuple[str, ...]  # optional symbols that it lacks


def curl_cffi_version() -> str | None:
    """Return the version of the installed curl_cffi, or None."""
    folder = profiles.package_dir()
    # importlib.metadata would do, but costs a fifth of the start-up.
    for found in folder.parent.glob("curl_cffi-*.dist-info") if folder else ():
        return found.name.split("-")[1].removesuffix(".dist")
    return None


def library_path() -> str:
    """Return the shared object to use: HARDFETCH_LIBCURL, else curl_cffi's own.

    Raises EngineError when there is none, or curl_cffi is too old.
    """
    chosen = os.environ.get("HARDFETCH_LIBCURL")
    if chosen:
        if not Path(chosen).is_file():
            raise EngineError(f"HARDFETCH_LIBCURL: {chosen} is no file")
        return chosen
    least = ".".join(map(str, CURL_CFFI_LEAST))
    folder, version = profiles.package_dir(), curl_cffi_version()
    found = sorted(folder.glob("_wrapper*.so")) if folder is not None else []
    if not found:
        raise EngineError(
            f"no libcurl: install curl_cffi>={least}, or set HARDFETCH_LIBCURL"
        )
    if version is not None and _numbers(version) < CURL_CFFI_LEAST:
        raise EngineError(
            f"curl_cffi {version} is too old for this hardfetch; install >={least}"
        )
    return str(found[0])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


@functools.cache
def probe(path: str) -> Library:
    """Load the libcurl at path and say what it is. Raises EngineError if unfit."""
    out = ffi.new("hf_library *")
    err = ffi.new("char[]", 512)
    if lib.hf_library_probe(os.fsencode(path), out, err, 512) < 0:
        raise EngineError(error_text(err) or f"{path}: not a usable libcurl")
    return Library(
        path=path,
        version=ffi.string(out.version).decode(),
        version_num=out.version_num,
        impersonates=bool(out.impersonates),
        decodes=bool(out.decodes),
        missing=tuple(re.split(r"[,\s]+", ffi.string(out.missing).decode().strip()))
        if ffi.string(out.missing)
        else (),
    )


def ca_bundle() -> str:
    """Return the CA bundle: SSL_CERT_FILE, else certifi's, else the system's."""
    chosen = os.environ.get("SSL_CERT_FILE")
    if chosen:
        if not Path(chosen).is_file():
            raise EngineError(f"SSL_CERT_FILE: {chosen} is no file")
        return chosen
    spec = importlib.util.find_spec("certifi")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        bundle = Path(folder) / "cacert.pem"
        if bundle.is_file():
            return str(bundle)
    for place in (
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    ):
        if Path(place).is_file():
            return place
    raise EngineError("no CA bundle: install certifi, or give cacert")


def policy_table(options: Options) -> RetryTable:
    """Return the outcomes about which the engine must ask policy."""
    pool = ProxyPool() if options.proxies is not None else None
    return Policy(options.retry, pool=pool).table()


def limit_rows(options: Options) -> list[dict[str, Any]]:
    """Return the rows of `hf_host_limits`; the last one matches every host."""
    table = options.limits or LimitTable()
    every = LimitRow("*", with_port=False, limits=table.default)
    return [
        {
            "pattern": row.pattern,
            "with_port": row.with_port,
            "max_per_host": row.limits.max_per_host,
            "rate": row.limits.rate,
            "delay": round(row.limits.delay * 1e6),
            "jitter": row.limits.jitter,
            "adaptive": row.limits.adaptive,
            "breaker_failures": row.limits.breaker_failures,
            "breaker_open": round(row.limits.breaker_open * 1e6),
        }
        for row in (*table.rows, every)
    ]


class Config:
    """An `hf_config` with the memory that its pointers need. `c` is the struct."""

    def __init__(
        self,
        options: Options,
        *,
        output: int,
        window: int,
        report_unanswered: bool = False,
        paused: bool = False,
        validate: bool = False,
    ) -> None:
        self.c: Any = ffi.new("hf_config *")
        self._alive: list[Any] = []
        lib.hf_config_default(self.c)
        self._set_numbers(options, options.window or window)
        self._set_texts(options)
        self._set_policy(options)
        self.c.output = output
        self.c.report_unanswered = report_unanswered
        self.c.validate = validate
        self.c.ask_hops = options.robots == "obey"
        # With a table of exits nothing may start before that is there.
        self.c.paused = paused or options.proxies is not None

    def _set_numbers(self, options: Options, window: int) -> None:
        c = self.c
        for name in _SAME:
            setattr(c, name, getattr(options, name))
        for name in _TIMES:
            setattr(c, name, round((getattr(options, name) or 0.0) * 1e6))
        c.window_requests = window
        if options.max_wire is not None:
            c.max_wire = options.max_wire
        c.max_redirects = options.max_redirects if options.follow else -1
        c.body_mode = BODY_MODES.index(options.body)
        c.headers = options.record_headers
        c.ech = ECH_MODES.index(options.ech)

    def _set_texts(self, options: Options) -> None:
        c = self.c
        path = library_path()
        if options.impersonate and not probe(path).impersonates:
            raise OptionError(
                "impersonate: only curl_cffi's libcurl has browser profiles; this is "
                f"{path} (HARDFETCH_LIBCURL)"
            )
        c.libcurl = self._text(path)
        c.cainfo = self._text(options.cacert or ca_bundle())
        for name in ("user_agent", "proxy", "impersonate", "http_version", "method"):
            setattr(c, name, self._text(getattr(options, name)))
        c.dns_servers = self._text(",".join(options.dns_server))
        self._set_tls_cache(options.tls_cache)
        if options.data is None:
            c.body_len = -1
        else:
            body = ffi.new("uint8_t[]", options.data or b"\0")
            self._alive.append(body)
            c.body, c.body_len = body, len(options.data)
        c.headers_list = self._list(options.headers)
        c.resolve = self._list(options.resolve)
        c.allow_nets = self._list(options.allow_net)
        c.sensitive = self._list(options.sensitive_headers)
        names = options.fields
        if names is not None:  # the core knows twins by one name
            names = tuple(dict.fromkeys(n.removesuffix("_base64") for n in names))
        c.fields = ffi.NULL if names is None else self._list(names)

    def _set_tls_cache(self, path: str) -> None:
        store = store_at(path)
        if store is not None:
            if "curl_easy_ssls_export" in probe(library_path()).missing:
                raise EngineError("tls_cache: this libcurl cannot hand out sessions")
            self._alive.append(store)
            self.c.tls_cache = store.handle

    def _set_policy(self, options: Options) -> None:
        c = self.c
        table = policy_table(options)
        c.retry_types = table.type_bits()
        ffi.memmove(c.retry_statuses, table.status_bytes(), len(c.retry_statuses))
        c.body_patterns = self._list(texts((*table.body, *options.retry_on_body)))
        c.ask_bodies = bool(Expressions(options.retry_on_body))
        rows = limit_rows(options)
        for row in rows:
            row["pattern"] = self._text(row["pattern"])
        array = ffi.new("hf_host_limits[]", rows)
        self._alive.append(array)
        c.host_limits, c.n_host_limits = array, len(rows)

    def _text(self, value: str | bytes) -> Any:
        data = os.fsencode(value) if isinstance(value, str) else value
        text = ffi.new("char[]", data)
        self._alive.append(text)
        return text

    def _list(self, items: Iterable[str | bytes]) -> Any:
        array = ffi.new("char *[]", [*map(self._text, items), ffi.NULL])
        self._alive.append(array)
        return ffi.cast("const char *const *", array)


_SAME = (
    "loops",
    "max_concurrency",
    "max_per_host",
    "ring_bytes",
    "window_bytes",
    "max_body",
    "max_ratio",
    "max_headers",
    "verify",
    "ip_version",
    "deny_private",
)
_TIMES = (
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "timeout",
    "hard_timeout",
    "deadline",
)
