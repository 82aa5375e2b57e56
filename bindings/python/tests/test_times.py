"""Times are aware datetimes in UTC, exact to the microsecond, everywhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import runledger
from helpers import T0, at, start, start_node


def test_no_float_rounds_a_time_up(ledger: runledger.Ledger) -> None:
    for id, time in (
        ("last", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)),
        ("odd", datetime(2026, 1, 5, 10, 0, 0, 123999, tzinfo=timezone.utc)),
        ("first", datetime(1, 1, 1, tzinfo=timezone.utc)),
        ("before", datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=timezone.utc)),
        ("early", datetime(1901, 2, 3, 4, 5, 6, 7000, tzinfo=timezone.utc)),
    ):
        assert start(ledger, id, started_at=time).started_at == time
        found = ledger.runs.get("shop", id)
        assert found and found.started_at == time and found.started_at.microsecond == time.microsecond


def is_right(time: Any) -> bool:
    return type(time) is datetime and time.tzinfo is timezone.utc


def test_every_time_field_has_the_same_type_and_value_everywhere(ledger: runledger.Ledger) -> None:
    """As the return of each write, and read by get, list and latest; absent times are None."""
    owner = runledger.Execution("t", at(60))
    run = ledger.runs.queue("shop", "r1", workflow_id="wf", input={}, queued_at=at(0))
    assert (run.queued_at, run.started_at, run.waiting_since, run.finished_at, run.execution) == (at(0), at(0), None, None, None)
    run = ledger.runs.start("shop", "r1", workflow_id="wf", input={}, started_at=at(1), execution=owner)
    assert run.execution == owner
    node = start_node(ledger, execution_token="t", started_at=at(2))
    agent = ledger.agents.create("shop", "n1", agent_id="a", prompt="", created_at=at(3))
    assert (agent.created_at, agent.started_at, agent.completed_at) == (at(3), None, None)
    agent = ledger.agents.start("shop", "n1", execution=owner, started_at=at(4))
    agent = ledger.agents.finish("shop", "n1", execution_token="t", status="succeeded", completed_at=at(5))
    node = ledger.nodes.wait("shop", "n1", execution_token="t", waiting_at=at(6))
    assert node.waiting_since == at(6)
    node = ledger.nodes.finish("shop", "n1", execution_token="t", status="succeeded", finished_at=at(7))
    run = ledger.runs.wait("shop", "r1", execution_token="t", waiting_at=at(8))
    assert run.waiting_since == at(8)
    assert ledger.runs.list("shop").rows == ledger.runs.latest("shop", workflow_ids=["wf"]) == (run,)
    run = ledger.runs.resume("shop", "r1")
    run = ledger.runs.finish("shop", "r1", status="succeeded", finished_at=at(9))
    assert (run.queued_at, run.started_at, run.finished_at) == (at(0), at(1), at(9))
    assert (node.started_at, node.waiting_since, node.finished_at) == (at(2), None, at(7))
    assert (agent.created_at, agent.started_at, agent.completed_at) == (at(3), at(4), at(5))

    assert ledger.runs.get("shop", "r1") == run == ledger.runs.list("shop").rows[0]
    assert ledger.nodes.get("shop", "n1") == node == ledger.nodes.list("shop").rows[0]
    assert ledger.agents.get("shop", "n1") == agent == ledger.agents.list("shop").rows[0]
    times = [f for record in (run, node, agent) for f in dataclasses.fields(record) if f.name.endswith(("_at", "_since"))]
    assert len(times) == 10
    for record in (run, node, agent):
        for name in (f.name for f in dataclasses.fields(record) if f.name.endswith(("_at", "_since"))):
            value = getattr(record, name)
            assert value is None or is_right(value), name


def test_a_naive_time_is_a_value_error_that_names_the_field(ledger: runledger.Ledger) -> None:
    naive = datetime(2026, 1, 5)
    calls: dict[str, Callable[[], object]] = {
        "startedAt": lambda: start(ledger, started_at=naive),
        "execution.queueLeaseExpiresAt": lambda: start(ledger, execution=runledger.Execution("t", naive)),
        "startedAfter": lambda: ledger.runs.list("shop", started_after=naive),
        "expiredBy": lambda: ledger.runs.expired(expired_by=naive),
        "queueLeaseExpiresAt": lambda: ledger.runs.confirm_lease("shop", "r1", execution_token="t", lease_expires_at=naive),
    }
    for field, call in calls.items():
        with pytest.raises(ValueError) as refused:
            call()
        assert isinstance(refused.value, runledger.InvalidInput) and refused.value.details == {"field": field}
    assert ledger.runs.list("shop").total == 0


def test_what_is_no_datetime_is_invalid(memory: runledger.Ledger) -> None:
    for bad in ("2026-01-05T10:00:00Z", 1767607200, 1767607200.0, date(2026, 1, 5), True):
        with pytest.raises(runledger.InvalidInput) as refused:
            start(memory, started_at=bad)
        assert refused.value.details == {"field": "startedAt"}
    with pytest.raises(runledger.InvalidInput):
        memory.runs.expired(expired_by=None)  # type: ignore[arg-type]


def test_a_time_of_any_zone_is_the_instant_that_it_says(memory: runledger.Ledger) -> None:
    for zone in (timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=23, minutes=59, seconds=7)), ZoneInfo("Europe/Berlin")):
        local = T0.astimezone(zone)
        assert start(memory, str(zone), started_at=local).started_at == T0
    # The second of the two hours that the clock shows alike.
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    assert start(memory, "fold", started_at=twice).started_at == datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc)


def test_an_instant_beyond_the_years_is_invalid_whatever_its_zone(memory: runledger.Ledger) -> None:
    east, west = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))
    for bad in (datetime(1, 1, 1, 13, 59, tzinfo=east), datetime(9999, 12, 31, 12, tzinfo=west)):
        with pytest.raises(runledger.InvalidInput) as refused:
            start(memory, started_at=bad)
        assert refused.value.details == {"field": "startedAt"}
    assert start(memory, "low", started_at=datetime(1, 1, 1, 14, tzinfo=east)).started_at.year == 1


def test_a_time_that_is_not_given_comes_from_the_clock(memory: runledger.Ledger) -> None:
    before = datetime.now(timezone.utc)
    run = memory.runs.start("shop", "r1", workflow_id="wf", input={})
    assert before <= run.started_at <= datetime.now(timezone.utc)
