"""Every operation through its typed method, pages, batches and the cheap heartbeat."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import runledger
from helpers import T0, at, start, start_node
from runledger._table import OPERATIONS


def test_every_operation_has_its_method(memory: runledger.Ledger) -> None:
    assert len(OPERATIONS) == 35
    for op, fields in OPERATIONS.items():
        namespace, method = op.split(".")
        function = getattr(getattr(memory, namespace), method)
        # Waiting is no field of a claim.
        wait = ["wait"] if method == "claim" else []
        assert list(inspect.signature(function).parameters) == [name for name, _, _ in fields.values()] + wait, op
        assert function.__doc__


def test_the_life_of_a_run(ledger: runledger.Ledger) -> None:
    assert ledger.runs.claim("shop", execution=runledger.Execution("t", at(60))) is None
    queued = ledger.runs.queue("shop", "r1", workflow_id="ship", input={"order": 17}, requested_by_principal=runledger.Principal("user", "u1"))
    assert (queued.status, queued.attempt, queued.requested_by_principal) == ("queued", 0, runledger.Principal("user", "u1"))
    run = ledger.runs.claim("shop", execution=runledger.Execution("t", at(60)), workflow_ids=["ship"])
    assert run is not None and run.status == "running" and run.execution == runledger.Execution("t", at(60))
    node = start_node(ledger, workflow_id="ship", execution_token="t")
    assert (node.node_index, node.node_type, node.workflow_run_id) == (0, "agent", "r1")
    ledger.agents.create("shop", "n1", agent_id="packer", prompt="pack", execution_token="t")
    agent = ledger.agents.claim("shop", execution=runledger.Execution("a", at(60)), model_id="m")
    assert agent is not None and (agent.status, agent.model_id, agent.prompt) == ("running", "m", "pack")
    agent = ledger.agents.finish("shop", "n1", execution_token="a", status="succeeded", usage={"tokens": 5}, trace=[], finish_reason="stop")
    assert agent.usage and agent.usage.value == {"tokens": 5} and agent.trace == runledger.Payload(b"[]") and agent.diagnostics is None
    ledger.nodes.finish("shop", "n1", execution_token="t", status="succeeded", output=1)
    done = ledger.runs.finish("shop", "r1", execution_token="t", status="succeeded", output={"parcel": 3})
    assert done.execution is None and done.output and done.output.value == {"parcel": 3}
    stats = ledger.runs.stats("shop")
    assert (stats.total, stats.by_status["succeeded"], stats.by_workflow[0].workflow_id) == (1, 1, "ship")
    assert [(p.project_id, p.runs) for p in ledger.projects.list()] == [("shop", 1)]
    report = ledger.store.verify()
    assert report.ok and report.checked == runledger.Counts(1, 1, 1) and report.problems == ()
    info = ledger.store.info()
    assert info.library_version == runledger.__version__ and info.mode == "create" and info.engine.name
    ledger.store.compact()
    assert ledger.runs.delete("shop", "r1") == runledger.Counts(1, 1, 1)
    start(ledger, "r2")
    ledger.runs.cancel("shop", "r2", finished_at=at(1))
    assert ledger.runs.purge("shop", finished_before=at(2)) == runledger.Purged(1, 0, 0, False)


def test_expired_leases_are_listed(ledger: runledger.Ledger) -> None:
    for number in range(3):
        start(ledger, f"r{number}", execution=runledger.Execution(f"t{number}", at(number)))
    expired = ledger.runs.expired(expired_by=at(1), project_id="shop")
    assert ([run.id for run in expired.rows], expired.has_more) == (["r0", "r1"], False)
    assert ledger.runs.expired(expired_by=at(9), limit=2).has_more
    assert ledger.agents.expired(expired_by=at(9)).rows == ()
    again = ledger.runs.reclaim("shop", "r0", execution=runledger.Execution("new", at(60)), lease_expired_by=at(1))
    assert again.attempt == 2


# ---- pages


def test_iterating_over_a_page_goes_over_all_rows(ledger: runledger.Ledger) -> None:
    for number in range(25):
        start(ledger, f"r{number:02}", started_at=at(number))
    page = ledger.runs.list("shop", limit=10, order="asc")
    assert (len(page.rows), page.total, page.has_more) == (10, 25, True) and page.next_cursor
    assert [run.id for run in page] == [f"r{number:02}" for number in range(25)]
    # Each iteration begins anew, and one after an offset goes on from there.
    assert len(list(page)) == 25
    assert [run.id for run in ledger.runs.list("shop", limit=4, offset=20, order="asc")] == [f"r{number}" for number in range(20, 25)]
    assert len(list(ledger.runs.list("shop", limit=7, statuses=["running"], started_after=at(5)))) == 20
    second = page.next()
    assert second and second.rows[0].id == "r10" and second.total is None
    third = second.next()
    assert third and third.next() is None and third.next_cursor is None
    assert list(ledger.runs.list("shop", cursor=page.next_cursor, order="asc", limit=3)) == list(page)[10:]


def test_a_page_of_no_rows(ledger: runledger.Ledger) -> None:
    for number in range(5):
        start(ledger, f"r{number}")
    for options, has_more in (({"limit": 0}, True), ({"limit": 0, "offset": 5}, False)):
        wanted: Any = options
        page = ledger.runs.list("shop", **wanted)
        assert (page.rows, page.total, page.has_more, page.next_cursor, list(page)) == ((), 5, has_more, None, [])


def test_a_walk_gives_every_lasting_row_once_while_rows_are_written(ledger: runledger.Ledger) -> None:
    for number in range(20):
        start(ledger, f"r{number:02}", started_at=at(number))
    seen = []
    for run in ledger.runs.list("shop", limit=3):
        seen.append(run.id)
        if len(seen) <= 20:
            start(ledger, f"new{len(seen)}", started_at=at(100 + len(seen)))
    assert seen == [f"r{number:02}" for number in reversed(range(20))]


# ---- batches


def test_a_batch_is_one_step(ledger: runledger.Ledger) -> None:
    with ledger.batch() as batch:
        run = batch.runs.start("shop", "r1", workflow_id="wf", input={"x": [1]})
        node = batch.nodes.start(
            "shop", "n1", workflow_run_id="r1", workflow_id="wf", node_index=0, node_type="agent", node_id="s", node_key="k", input=None
        )
        agent = batch.agents.create("shop", "n1", agent_id="a", prompt="p")
        claimed = batch.runs.claim("other", execution=runledger.Execution("t", T0))
        with pytest.raises(RuntimeError):
            run.value
        assert len(batch) == 4 and ledger.runs.list("shop").total == 0
    assert run.value == ledger.runs.get("shop", "r1") and run.value.input == runledger.Payload(b'{"x":[1]}')
    assert node.value == ledger.nodes.get("shop", "n1") and agent.value == ledger.agents.get("shop", "n1") and claimed.value is None
    for use in (batch.commit, lambda: batch.runs.delete("shop", "r1")):
        with pytest.raises(RuntimeError):
            use()


def test_a_refused_batch_changes_nothing_and_says_which_command(ledger: runledger.Ledger) -> None:
    with pytest.raises(runledger.NotFound) as refused:
        with ledger.batch() as batch:
            first = batch.runs.start("shop", "r1", workflow_id="wf", input={})
            batch.runs.finish("shop", "none", status="succeeded")
    assert refused.value.details["index"] == 1
    with pytest.raises(RuntimeError):
        first.value
    assert ledger.runs.list("shop").total == 0


def test_a_batch_left_by_an_exception_is_not_sent(memory: runledger.Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        with memory.batch() as batch:
            batch.runs.start("shop", "r1", workflow_id="wf", input={})
            1 / 0
    assert memory.runs.list("shop").total == 0
    with pytest.raises(runledger.InvalidInput):
        memory.batch().commit()


# ---- the cheap heartbeat


def test_confirming_a_lease_without_json(ledger: runledger.Ledger) -> None:
    start(ledger, execution=runledger.Execution("t", at(60)))
    confirm = ledger.runs.confirm_lease
    odd = at(90).replace(microsecond=123457)
    assert confirm("shop", "r1", execution_token="t", lease_expires_at=odd) == odd
    assert confirm("shop", "r1", execution_token="t", lease_expires_at=at(70)) == odd, "a lease is never shortened"
    run = ledger.runs.confirm("shop", "r1", execution_token="t", lease_expires_at=at(80), answer="state")
    assert run.execution == runledger.Execution("t", odd) and run.input is None
    with pytest.raises(runledger.StaleToken):
        confirm("shop", "r1", execution_token="other", lease_expires_at=odd)
    with pytest.raises(runledger.NotFound):
        confirm("shop", "none", execution_token="t", lease_expires_at=odd)
    # C would end them at the NUL, and so find the run and its owner.
    for field, arguments in (("projectId", ("shop\0x", "r1", "t")), ("id", ("shop", "r1\0x", "t")), ("executionToken", ("shop", "r1", "t\0x"))):
        with pytest.raises(runledger.InvalidInput) as refused:
            confirm(*arguments[:2], execution_token=arguments[2], lease_expires_at=odd)
        assert refused.value.details == {"field": field}

    start_node(ledger, execution_token="t")
    ledger.agents.create("shop", "n1", agent_id="a", prompt="")
    ledger.agents.start("shop", "n1", execution=runledger.Execution("g", at(60)))
    assert ledger.agents.confirm_lease("shop", "n1", execution_token="g", lease_expires_at=odd) == odd
    with pytest.raises(runledger.InvalidInput) as refused:
        ledger.agents.confirm_lease("shop", "", execution_token="g", lease_expires_at=odd)
    assert refused.value.details == {"field": "nodeRunId"}
