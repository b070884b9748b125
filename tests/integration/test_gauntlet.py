"""hardfetch through its own gauntlet: every deadline holds."""

from __future__ import annotations

import pytest

from hardfetch.testing.gauntlet import LIMITED, TOLERANCE, gauntlet_faults, run_gauntlet

HEAVY = {"endless-body", "endless-chunks", "h2-endless-body"}
"""They end by `max_body`: records of 16 MiB are another matter than deadlines."""


@pytest.mark.slow
def test_every_fault_ends_within_its_deadline_with_one_record() -> None:
    faults = [name for name in gauntlet_faults() if name not in HEAVY]
    report = run_gauntlet(faults=faults, limit=1.0)
    assert report.missing == []
    late = [row for row in report.rows if row.elapsed > row.limit + TOLERANCE]
    assert late == []
    early = [
        row for row in report.rows if row.outcome in LIMITED and row.elapsed < row.limit
    ]
    assert early == []
    assert report.overrun["max"] is not None
    assert report.overrun["max"] < TOLERANCE
    assert report.descriptors["after"] <= report.descriptors["before"]
