"""How many retries may be made: globally, and per host."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hardfetch.budget import HostBudgets, RetryBudget


def test_the_budget_is_a_share_of_the_requests_plus_a_floor() -> None:
    budget = RetryBudget(ratio=0.2, floor=10.0, ttl=10.0)
    assert sum(budget.take(0.0) for _ in range(500)) == 100
    budget.count(1000, 0.0)
    assert sum(budget.take(0.0) for _ in range(500)) == 200
    assert budget.denied == 700
    assert sum(budget.take(20.0) for _ in range(500)) == 100


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.integers(0, 50), st.integers(0, 50)), max_size=60
    )
)
def test_over_any_time_the_budget_holds(steps: list[tuple[float, int, int]]) -> None:
    budget = RetryBudget(ratio=0.2, floor=2.0, ttl=10.0)
    now, requests, granted = 0.0, 0, 0
    for pause, asked, retries in steps:
        now += pause
        budget.count(asked, now)
        requests += asked
        granted += sum(budget.take(now) for _ in range(retries))
        assert granted <= 0.2 * requests + 2.0 * (now + 10.0) + 1e-9


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_a_hosts_budget_has_no_clock(steps: list[tuple[int, int]]) -> None:
    budgets = HostBudgets()
    requests, granted = 0, 0
    for asked, retries in steps:
        requests += asked
        budgets.count("h:80", requests)
        granted += sum(budgets.take("h:80") for _ in range(retries))
        assert granted <= 10 + 0.2 * requests
    assert budgets.take("other:80")


def test_host_budgets_are_bounded() -> None:
    budgets = HostBudgets(max_hosts=5)
    for n in range(50):
        budgets.seen(f"h{n}:80")
    assert len(budgets._hosts) == 5
