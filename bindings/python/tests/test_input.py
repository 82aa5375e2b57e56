"""What is wrong with a parameter is the contract's error, which names the field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runledger
from helpers import T0, start, start_node


def invalid(field: str, call: Callable[[], object]) -> None:
    with pytest.raises(runledger.InvalidInput) as refused:
        call()
    assert refused.value.details["field"] == field
    assert refused.value.code == "invalid_input" and not refused.value.retryable and field in str(refused.value)


def test_a_negative_limit_is_invalid_never_all_rows(ledger: runledger.Ledger) -> None:
    for number in range(5):
        start(ledger, f"r{number}")
    invalid("limit", lambda: ledger.runs.list("shop", limit=-1))
    invalid("limit", lambda: ledger.nodes.list("shop", limit=-1))
    invalid("limit", lambda: ledger.agents.list("shop", limit=-1))
    invalid("limit", lambda: ledger.projects.list(limit=-1))
    invalid("limit", lambda: ledger.runs.list("shop", limit=10_001))
    invalid("limit", lambda: ledger.runs.list("shop", limit=10**30))
    invalid("limit", lambda: ledger.runs.expired(expired_by=T0, limit=0))
    invalid("offset", lambda: ledger.runs.list("shop", offset=-1))


def test_an_empty_filter_is_never_no_filter(ledger: runledger.Ledger) -> None:
    start(ledger)
    invalid("workflowId", lambda: ledger.runs.list("shop", workflow_id=""))
    invalid("agentId", lambda: ledger.agents.list("shop", agent_id=""))
    invalid("projectId", lambda: ledger.runs.list(""))
    invalid("id", lambda: ledger.runs.get("shop", ""))
    assert ledger.runs.list("shop", workflow_ids=[]).total == 0


def test_wrong_kinds_are_invalid(memory: runledger.Ledger) -> None:
    # What mypy would refuse.
    def each(*wrong: Any) -> Any:
        return wrong

    start(memory)
    for wrong in each(5, None, b"r1", ["r1"], True):
        invalid("id", lambda: memory.runs.get("shop", wrong))
        invalid("projectId", lambda: memory.runs.list(wrong))
    for wrong in each(True, 5.0, "5", None):
        invalid("nodeIndex", lambda: start_node(memory, node_index=wrong))
    for wrong in each("wf", b"wf", 5, {"wf": 1}, ["wf", 5]):
        invalid("workflowIds", lambda: memory.runs.list("shop", workflow_ids=wrong))
    for wrong in each(1, "true"):
        invalid("withTotal", lambda: memory.runs.list("shop", with_total=wrong))
    for wrong in each(("t", T0), {"token": "t"}, "t"):
        invalid("execution", lambda: memory.runs.resume("shop", "r1", execution=wrong))
    for wrong in each(5, None, ""):
        invalid("execution.token", lambda: memory.runs.resume("shop", "r1", execution=runledger.Execution(wrong, T0)))
    for wrong in each("done", "running", 3):
        invalid("status", lambda: memory.runs.finish("shop", "r1", status=wrong))
    for wrong in each("all", 1):
        invalid("answer", lambda: memory.runs.get("shop", "r1", answer=wrong))
    invalid("requestedByPrincipal", lambda: start(memory, "r2", requested_by_principal="me"))
    invalid("requestedByPrincipal.type", lambda: start(memory, "r2", requested_by_principal=runledger.Principal("", "x")))
    invalid("input", lambda: start(memory, "r2", input=runledger.ABSENT))


def test_a_filter_takes_any_iterable(memory: runledger.Ledger) -> None:
    for number in range(3):
        start(memory, f"r{number}", workflow_id=f"wf-{number}")
    assert memory.runs.list("shop", workflow_ids={"wf-0", "wf-1"}).total == 2
    assert memory.runs.list("shop", workflow_ids=(f"wf-{n}" for n in range(3))).total == 3
    assert [run.id for run in memory.runs.latest("shop", workflow_ids=("wf-2", "wf-0", "wf-2"))] == ["r2", "r0"]


def test_lists_of_40000_values_work(ledger: runledger.Ledger) -> None:
    for number in range(3):
        start(ledger, f"r{number}", workflow_id=f"wf-{number}")
    many = [f"wf-{number}" for number in range(40_000)]
    page = ledger.runs.list("shop", workflow_ids=many, limit=2)
    assert (len(page.rows), page.total, page.has_more) == (2, 3, True)
    assert len(ledger.runs.latest("shop", workflow_ids=many)) == 3


def test_options_that_are_wrong_are_named() -> None:
    wrong: Any = "sometimes"
    invalid("durability", lambda: runledger.open("memory:", durability=wrong))
    invalid("mode", lambda: runledger.open("memory:", mode=wrong))
    invalid("busy_timeout_ms", lambda: runledger.open("memory:", busy_timeout_ms=-1))
    invalid("url", lambda: runledger.open("mysql:x"))
    invalid("url", lambda: runledger.open("memory:\0"))
    invalid("colour", lambda: runledger.open("memory:?colour=red"))
    wrong = Path("runs.db")
    invalid("url", lambda: runledger.open(wrong))
    with pytest.raises(TypeError):
        runledger.open("memory:", colour="red")  # type: ignore[call-arg]


def test_a_request_of_the_json_form(memory: runledger.Ledger) -> None:
    start(memory, input={"x": 1})
    answer = memory.call_json('{"op":"runs.get","projectId":"shop","id":"r1"}')
    assert answer.startswith(b'{"projectId":"shop","id":"r1"') and b'"input":{"x":1}' in answer
    assert memory.call_json(b'{"op":"runs.get","projectId":"shop","id":"none"}') == b"null"
    invalid("op", lambda: memory.call_json("{}"))
    invalid("colour", lambda: memory.call_json('{"op":"runs.get","projectId":"shop","id":"r1","colour":1}'))
    for bad in (b"", b"\xff", b"nonsense"):
        with pytest.raises(runledger.InvalidInput):
            memory.call_json(bad)
