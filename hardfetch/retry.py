"""When a failed attempt is worth another one, how long to wait, over which exit.

``RetryPolicy`` is pure: it holds no state but its random source and has no clock. What
needs memory (budgets, exits tried, gates) is added by ``hardfetch.policy``, and holds
for every subclass too.

To decide otherwise, derive from it::

    class MyPolicy(RetryPolicy):
        def decide(self, failure):
            if failure.status == 403 and failure.tries == 1:
                return Retry(delay=0.0, exit="higher")
            return super().decide(failure)

    policy = MyPolicy(statuses={403, *RetryPolicy.STATUSES})

The engine asks only about outcomes in ``table()``, so what ``decide`` wants to see has
to be named there: by ``statuses``, ``rules`` or ``retry_on_body``.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Union

from hardfetch import classify, values
from hardfetch.errors import OptionError
from hardfetch.outcome import Final, Retry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hardfetch.bodies import Pattern
    from hardfetch.outcome import ExitChoice, Failure

    Rules = (
        Mapping[str, "Rule | None"]
        | Mapping[int, "Rule | None"]
        | Mapping[str | int, "Rule | None"]
    )

__all__ = ["Decision", "RetryPolicy", "RetryTable", "Rule"]

Decision = Union[Retry, Final]  # noqa: UP007 - evaluated at run time on 3.10 too


@dataclass(frozen=True, slots=True)
class Rule:
    """How one error type or status is retried."""

    retries: int | None = None  # at most; None = as many as the policy allows
    base: float = 0.5  # seconds: the wait before retry n is rand(0, min(cap, base*2^n))
    cap: float = 30.0  # seconds
    exit: ExitChoice = "other"
    refused: bool = False  # the request was turned away unread: safe for any method


_NOW = Rule(base=0.05, cap=0.5)  # the request never left: the next exit may take it
_QUICK = Rule(base=0.1, cap=1.0)  # time-outs have cost enough time already
_SHORT = Rule(base=0.2, cap=5.0)
_ONCE = Rule(retries=1, base=0.2, cap=5.0)
_OURS = Rule(base=1.0, cap=10.0, exit="same")  # descriptors and ports come free again
_SERVER = Rule(base=0.5, cap=30.0)

_TYPE_RULES: dict[str, Rule] = {
    **dict.fromkeys(classify.TIMEOUTS, _QUICK),
    "local_port_exhausted": _OURS,
    "too_many_open_files": _OURS,
    "engine_stalled": _ONCE,
    "dns_error": _ONCE,
    "connect_refused": Rule(base=0.5, cap=10.0),
    "connect_error": Rule(base=0.5, cap=10.0),
    "proxy_refused": _NOW,
    "proxy_auth": replace(_NOW, exit="only_other"),  # final for those credentials
    "proxy_protocol": _NOW,
    "proxy_timeout": _NOW,
    "tls_error": _ONCE,
    "certificate_error": replace(_ONCE, exit="only_other"),  # or a proxy in between
    "send_error": _SHORT,
    "connection_reset": _SHORT,
    "empty_reply": _SHORT,
    "bad_response": _ONCE,
    "incomplete": _SHORT,
    "bad_encoding": _ONCE,
    "http2_error": _SHORT,
}

_STATUS_RULES: dict[int, Rule] = {
    408: replace(_SHORT, refused=True),
    425: Rule(base=1.0, refused=True),
    429: Rule(base=1.0, cap=60.0, exit="higher", refused=True),
    500: _SERVER,
    502: _SERVER,
    # Not "refused": a gateway says 503 too after its upstream took the request.
    503: Rule(base=1.0, cap=60.0),
    504: _SERVER,
    **dict.fromkeys(range(520, 525), _SERVER),  # a CDN about its origin
}

_BODY_RULE = Rule(base=1.0, cap=30.0, exit="higher")

# A connection that had served before and then died before any byte of an answer.
_STALE = frozenset({"connection_reset", "empty_reply", "send_error", "http2_error"})


@dataclass(frozen=True, slots=True)
class RetryTable:
    """Outcomes about which the engine asks."""

    types: frozenset[str]
    statuses: frozenset[int]
    body: tuple[Pattern, ...] = ()

    def type_bits(self) -> int:
        """Return ``hf_config.retry_types``: bit t set for type number t."""
        return sum(1 << classify.type_number(name) for name in self.types)

    def status_bytes(self) -> bytes:
        """Return ``hf_config.retry_statuses``: status n is bit n % 8 of byte n // 8."""
        out = bytearray(75)
        for status in self.statuses:
            out[status // 8] |= 1 << status % 8
        return bytes(out)


class RetryPolicy:
    """Decide about failed attempts one by one."""

    STATUSES: frozenset[int] = frozenset(_STATUS_RULES)

    def __init__(
        self,
        retries: int = 2,
        *,
        statuses: Iterable[int] | None = None,
        rules: Rules | None = None,
        retry_on_body: Iterable[Pattern] = (),
        retry_after_cap: float = 300.0,
        allow_unsafe: bool = False,
        exit_retries: int = 4,
        min_attempt: float = 0.25,
        rng: random.Random | None = None,
    ) -> None:
        """Make a policy.

        Args:
            retries: further attempts after the first; 0 or more.
            statuses: which statuses are retried, instead of ``STATUSES``.
            rules: by error type or status; None as value takes one out.
            retry_on_body: bytes that make an answer a failure, wherever they stand in
                its first 64 KiB, and regular expressions (compiled, of str or bytes)
                that are found there. With an expression each answer passes the policy
                thread, where one that backtracks without end holds it up.
            retry_after_cap: seconds; a longer ``Retry-After`` counts as this.
            allow_unsafe: retry POST and PATCH even if they may have been acted on.
            exit_retries: further attempts, beside ``retries``, of a request that died
            at
                an exit of the pool before it reached the site.
            min_attempt: seconds that an attempt needs before the job's deadline.
            rng: source of jitter, for repeatable tests.

        Raises:
            OptionError: a value out of range, or an unknown error type.
        """
        self.retries = values.number("retries", retries)
        self.retry_after_cap = values.number("retry_after_cap", retry_after_cap)
        self.allow_unsafe = allow_unsafe
        self.exit_retries = values.number("exit_retries", exit_retries)
        self.min_attempt = values.number("min_attempt", min_attempt)
        self.rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self.retry_on_body = tuple(retry_on_body)
        self._rules: dict[str | int, Rule] = dict(_TYPE_RULES.items())
        wanted = self.STATUSES if statuses is None else statuses
        self._rules.update({n: _STATUS_RULES.get(n, _SERVER) for n in wanted})
        for key, rule in (rules or {}).items():
            self._check_key(key)
            if rule is None:
                self._rules.pop(key, None)
            else:
                self._rules[key] = rule
        for key in self._rules:
            self._check_key(key)

    @staticmethod
    def _check_key(key: str | int) -> None:
        if isinstance(key, str):
            classify.type_number(key)
        elif not 100 <= key <= 599:
            raise OptionError(f"not an HTTP status: {key}")

    def table(self) -> RetryTable:
        """Return the outcomes that ``decide`` has to be asked about."""
        return RetryTable(
            types=frozenset(k for k in self._rules if isinstance(k, str)),
            statuses=frozenset(k for k in self._rules if isinstance(k, int)),
            body=self.retry_on_body,
        )

    def rule(self, failure: Failure) -> Rule | None:
        """Return the rule for this outcome, None when it is never retried."""
        if failure.error:
            return self._rules.get(failure.error)
        rule = self._rules.get(failure.status)
        return _BODY_RULE if rule is None and failure.matched else rule

    def decide(self, failure: Failure) -> Decision:
        """Return ``Retry`` or ``Final`` for one attempt.

        Budgets, the deadline and the choice of the exit are seen to afterwards; a
        decision here cannot go round them.
        """
        rule = self.rule(failure)
        if rule is None:
            return Final()
        if not self.is_safe(failure, rule):
            return Final("method")
        if self.is_stale(failure):
            return Retry(0.0, "same", fresh=True, silent=True)
        if failure.tries > self.limit(failure, rule):
            return Final("attempts")
        delay = self.backoff(failure, rule)
        asked = min(max(failure.retry_after or 0.0, 0.0), self.retry_after_cap)
        if failure.left is not None:
            room = failure.left - self.min_attempt
            if room < asked:
                return Final("deadline")
            delay = min(delay, room)
        return Retry(max(delay, asked), rule.exit)

    def limit(self, failure: Failure, rule: Rule) -> int:
        """Return how many retries this failure may have.

        What died at an exit of the pool says nothing about the request: with many dead
        exits in a new pool, three in a row are nothing special.
        """
        if failure.proxy >= 0 and self.retries and self._died_at_exit(failure):
            return self.retries + self.exit_retries
        return self.retries if rule.retries is None else min(self.retries, rule.retries)

    @staticmethod
    def _died_at_exit(failure: Failure) -> bool:
        """Whether it did, or may have: over an exit that never answered anybody."""
        mark = classify.proxy_mark(failure.error, failure.origin, failure.status)
        never = failure.exit_quiet == math.inf
        return mark is classify.Mark.HURT or (never and mark is classify.Mark.SUSPECT)

    def is_safe(self, failure: Failure, rule: Rule) -> bool:
        """Tell whether a second request can do no harm that the first did not."""
        return (
            failure.idempotent or not failure.sent or rule.refused or self.allow_unsafe
        )

    def is_stale(self, failure: Failure) -> bool:
        """Tell whether a reused connection died before it answered.

        That says nothing about the site, the proxy or the request. The next attempt is
        on a new connection, so this cannot repeat itself.
        """
        return (
            failure.reused
            and not failure.status
            and not failure.silent
            and failure.error in _STALE
        )

    def backoff(self, failure: Failure, rule: Rule) -> float:
        """Return a wait in seconds: full jitter, rand(0, min(cap, base * 2^n)).

        From the AWS Architecture Blog, "Exponential Backoff And Jitter".
        """
        power = min(max(failure.tries - 1, 0), 60)  # 2^60 is past any cap
        return self.rng.uniform(0.0, min(rule.cap, rule.base * 2.0**power))
