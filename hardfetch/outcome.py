"""What the engine tells policy and what policy answers: plain values.

All times are seconds as ``float``; ``now`` and every "until" are on one monotonic clock
that the caller owns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Union, get_args

from hardfetch import values

if TYPE_CHECKING:
    from hardfetch.proxy import Proxy

__all__ = [
    "AvoidExit",
    "Choice",
    "CloseGate",
    "ExitChoice",
    "Failure",
    "Final",
    "NoExit",
    "Order",
    "ProxyRow",
    "ProxyUpdate",
    "Retry",
    "Verdict",
]

ExitChoice = Literal["same", "other", "only_other", "higher"]
"""Over which exit to try again: the same; another where there is one; another or not
at all; another, and from the next tier where there is one."""

_EXITS = get_args(ExitChoice)


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that policy asked to see, as in ``hf_event``.

    Most are failures. An attempt without error and with a status outside the retry
    table is good news; it needs no verdict and only heals.
    """

    seq: int
    host: str  # host:port
    error: str = ""  # type from the closed list, "" = an answer
    origin: str = "site"
    phase: str = "queue"
    status: int = 0  # 0 = none
    curl_code: int = 0
    attempt: int = 1  # 1 = the first
    proxy: int = -1  # number in the table, -1 = direct or given by the caller
    elapsed: float = 0.0  # of this attempt
    since: float = 0.0  # since acceptance
    left: float | None = None  # until the job's deadline
    retry_after: float | None = None  # as the site asked, None = not, or junk
    exit_retry_after: float | None = None  # the same by the proxy, which refused
    reused: bool = False  # the connection had served before
    sent: bool = True  # request bytes may have reached the server
    idempotent: bool = True
    fresh: bool = False  # a fresh connection was asked for
    matched: bool = False  # the body matched a retry_on_body pattern
    session: str = ""
    probe: bool = False  # the one request that a closed gate or breaker let through
    host_alive: bool = False  # the host answered another request since this one began
    host_requests: int = -1  # first attempts to the host so far, -1 = unknown
    pair_failures: int = -1  # in a row of exit and host, this included; -1 = unknown
    # Since the exit answered anybody last; infinite: it never did; None: unknown.
    exit_quiet: float | None = None
    silent: int = 0  # silent retries among the attempts; filled in by Policy

    @property
    def tries(self) -> int:
        """Attempts that count, this one included."""
        return self.attempt - self.silent


@dataclass(frozen=True, slots=True)
class Retry:
    """Again after ``delay`` seconds. Raises OptionError for another exit or delay."""

    delay: float
    exit: ExitChoice = "other"
    fresh: bool = False  # on a new connection
    silent: bool = False  # does not count as a retry

    def __post_init__(self) -> None:
        """Check what a policy of anybody's may have put in."""
        values.number("Retry: delay", self.delay, values.MAX_SECONDS)
        values.choice("Retry: exit", self.exit, _EXITS)


@dataclass(frozen=True, slots=True)
class Final:
    """No further attempt. ``reason`` names what denied one, "" when none was due."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one failure, as in ``hf_verdict``."""

    seq: int
    retry: bool
    delay: float = 0.0
    proxy: str = field(default="", repr=False)  # URL with credentials, "" = as before
    proxy_number: int = -1
    fresh: bool = False
    silent: bool = False  # does not count as a retry
    denied: str = ""  # at most 31 ASCII characters
    content: bool = False  # what its record holds is bad: policy is to be asked
    error: str = ""  # what a request ends as that was held and never tried


@dataclass(frozen=True, slots=True)
class Choice:
    """An exit to use. ``start`` takes it; a choice alone reserves nothing."""

    number: int
    proxy: Proxy
    probe: bool = False


@dataclass(frozen=True, slots=True)
class NoExit:
    """None now. ``until`` is when a bench ends; infinite: when some lease ends."""

    until: float
    number: int = -1  # the exit that comes back first


@dataclass(frozen=True, slots=True)
class CloseGate:
    """Nothing to ``host`` before ``until``; after that one probe first."""

    host: str
    until: float
    wait: float  # the same, relative


@dataclass(frozen=True, slots=True)
class ProxyRow:
    """One line of the table from which C picks exits."""

    number: int
    url: str = field(repr=False)  # with credentials
    weight: float
    tier: int
    state: Literal["up", "benched", "dead", "gone"]
    until: float = 0.0  # benched: then one probe


@dataclass(frozen=True, slots=True)
class ProxyUpdate:
    """Rows that changed."""

    rows: tuple[ProxyRow, ...]


@dataclass(frozen=True, slots=True)
class AvoidExit:
    """Exit ``number`` is not for ``host`` before ``until``, where there is another.

    With number -1: requests to the host start at ``tier``.
    """

    host: str
    number: int
    tier: int
    until: float


Order = Union[CloseGate, ProxyUpdate, AvoidExit]  # noqa: UP007 - evaluated at run time on 3.10 too
