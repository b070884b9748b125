"""What a fault is: its name, where it is served and what a client should make of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hardfetch.testing.peer import Peer

Facts = dict[str, Any]
"""Fields of `Fault` by name, where several faults share them."""

Script = Callable[["Peer"], Awaitable[None]]

Kind = Literal["http", "raw", "tls", "h2", "dns", "backlog", "closed"]
"""How a fault listens. http: a script over TCP that is also at a path of the page
server. raw: a script over TCP on a port of its own (it acts before a request, or
speaks something else). tls, h2: a script inside TLS. dns: UDP. backlog: it never
accepts. closed: nobody listens."""

OK = "ok"
"""Stands in `Fault.expect` for a record without an error."""

SILENCE = ("first_byte_timeout", "idle_timeout", "timeout", "hard_timeout")
"""Errors that fit a peer which hangs after the connection is made."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One misbehaviour of a site, a proxy or a name server, and where to meet it."""

    name: str
    group: str
    description: str
    url: str
    """Empty in the catalogue's templates; filled in by a running site."""
    expect: tuple[str, ...]
    """The values of a record's `error.type` that are right; "ok" for no error."""
    proxy: str | None = None
    dns_server: str | None = None
    """`IP:PORT` of the name server to ask, where the fault is in the names."""
    method: str = "GET"
    body: str | None = None
    origin: str | None = None
    """Who is to blame in the record: site, proxy; None where there is no error."""
    status: int | None = None
    """The final status that the record must show; None: none, or it doesn't matter."""
    content: bytes | None = field(default=None, repr=False)
    """The body after content decoding: whole, or of a cut one what may be kept."""
    truncated: str | None = None
    hangs: bool = False
    """The peer never ends it: only the client's own clock does."""
    gauntlet: bool = False
    """Part of `hardfetch gauntlet`: it tries a client's deadlines."""

    def as_dict(self) -> dict[str, Any]:
        """The fault as plain JSON values; `content` is left out, it may be large."""
        row = asdict(self)
        del row["content"]
        row["expect"] = list(self.expect)
        return row


@dataclass(frozen=True, slots=True)
class Spec:
    """A catalogue entry: a fault whose addresses are still templates.

    In `fault.url`, `fault.proxy` and `fault.dns_server`, `{self}` stands for the
    fault's own `host:port`, `{port}` for its port; `{http}`, `{https}` and `{h2}` for
    the base URL of the site's healthy servers.
    """

    fault: Fault
    kind: Kind
    script: Script | None = None
    cert: str = "site"
    dns_mode: str = ""


def spec(
    name: str,
    group: str,
    description: str,
    script: Script | None,
    expect: tuple[str, ...] = SILENCE,
    *,
    kind: Kind = "http",
    url: str = "",
    cert: str = "site",
    dns_mode: str = "",
    **more: Any,
) -> Spec:
    """Makes one catalogue entry; `more` are further fields of `Fault`."""
    if not url:
        url = ("https" if kind in ("tls", "h2") else "http") + "://{self}/"
    if OK not in expect:
        more.setdefault("origin", "site")
    fault = Fault(name, group, description, url, expect, **more)
    return Spec(fault, kind, script, cert, dns_mode)
