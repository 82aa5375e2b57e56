"""Payloads from Python values and bytes, and what they are when they come back."""

from __future__ import annotations

import json
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

import runledger
from helpers import start, start_node


def value_of(ledger: runledger.Ledger, id: str = "r1") -> Any:
    run = ledger.runs.get("shop", id)
    assert run is not None and run.input is not None
    return run.input.value


def test_big_python_integers_are_exact_and_overflowing_exponents_invalid(ledger: runledger.Ledger) -> None:
    big = {"n": 2**200, "m": -(2**63), "k": 10**18 + 1}
    start(ledger, input=big)
    found = value_of(ledger)
    assert found == big and all(type(value) is int for value in found.values())
    for text in (b'{"x":1e400}', b'{"x":-1e400}'):
        with pytest.raises(runledger.InvalidInput) as refused:
            start(ledger, "r2", input=text)
        assert refused.value.details["field"] == "input"
    assert ledger.runs.get("shop", "r2") is None


def test_integers_past_64_bits_keep_every_digit(ledger: runledger.Ledger) -> None:
    numbers = {"a": 2**63 - 1, "b": 2**63, "c": 2**64 - 1, "d": 2**64, "e": -(2**63) - 1}
    assert start(ledger, input=numbers).input == runledger.Payload(json.dumps(numbers, separators=(",", ":")).encode())
    assert value_of(ledger) == numbers


def test_floats_come_back_bit_for_bit(ledger: runledger.Ledger) -> None:
    floats = {"x": 117.63331139400017, "m": 9007199254740991.0, "tiny": 5e-324, "huge": 1.7976931348623157e308}
    start(ledger, input=floats)
    assert value_of(ledger) == floats
    start(ledger, "r2", input=value_of(ledger))
    assert value_of(ledger, "r2") == floats


def test_the_kind_of_a_number_is_kept(ledger: runledger.Ledger) -> None:
    start(ledger, input=b'{"a":1.0,"b":1,"c":1e2,"d":-0.0,"e":100}')
    found = value_of(ledger)
    assert {name: type(value) for name, value in found.items()} == {"a": float, "b": int, "c": float, "d": float, "e": int}
    assert math.copysign(1, found["d"]) == -1
    start(ledger, "r2", input={"a": 1.0, "d": -0.0})
    again = ledger.runs.get("shop", "r2")
    assert again and again.input and again.input.raw == b'{"a":1.0,"d":-0.0}'


def test_nan_and_infinity_are_invalid_and_nothing_is_created(ledger: runledger.Ledger) -> None:
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError) as refused:
            start(ledger, input={"loss": bad, "ok": 1})
        assert isinstance(refused.value, runledger.InvalidInput) and refused.value.details == {"field": "input"}
    for text in (b"NaN", b"Infinity", b'{"loss":NaN}'):
        with pytest.raises(runledger.InvalidInput):
            start(ledger, input=text)
    assert ledger.runs.get("shop", "r1") is None


def test_a_lone_surrogate_is_a_value_error_before_anything_is_written(ledger: runledger.Ledger) -> None:
    def refused(field: str, call: Callable[[], object]) -> None:
        with pytest.raises(ValueError) as error:
            call()
        assert isinstance(error.value, runledger.InvalidInput) and error.value.details["field"] == field

    refused("id", lambda: start(ledger, "x\ud83d"))
    # Two halves that stand side by side are no character either.
    refused("id", lambda: start(ledger, "x\ud83d\ude00"))
    refused("input", lambda: start(ledger, input={"t": "\ud800"}))
    refused("input", lambda: start(ledger, input={"\udc00": 1}))
    refused("input", lambda: start(ledger, input=b'{"t":"\\ud800"}'))
    refused("input", lambda: start(ledger, input=b'"\xed\xa0\x80"'))
    start(ledger)
    start_node(ledger)
    refused("prompt", lambda: ledger.agents.create("shop", "n1", agent_id="a", prompt="\udfff"))
    refused("error", lambda: ledger.runs.cancel("shop", "r1", error="\ud800"))
    refused("executionToken", lambda: ledger.runs.wait("shop", "r1", execution_token="\ud800"))
    assert ledger.runs.list("shop").total == 1
    start(ledger, "r2", input="\U0001f600")
    assert value_of(ledger, "r2") == "\U0001f600"


def test_the_order_of_keys_is_kept(ledger: runledger.Ledger) -> None:
    start(ledger, input={"zeta": 1, "a": 2, "mm": {"y": 1, "b": 2}})
    found = value_of(ledger)
    assert list(found) == ["zeta", "a", "mm"] and list(found["mm"]) == ["y", "b"]


def test_bytes_are_kept_as_they_are(ledger: runledger.Ledger) -> None:
    text = b' {"A":"B", "A":123, "o":{"k":1,"k":2}, "e":"\\u00e9"}\t'
    run = start(ledger, input=text, source=bytearray(b"[1]"))
    assert run.input and run.input.raw == text.strip()
    assert run.source == runledger.Payload(b"[1]")
    listed = ledger.runs.list("shop").rows[0]
    assert listed.input == run.input
    # A payload of one record is the payload of another, byte for byte.
    assert start(ledger, "r2", input=listed.input).input == run.input


def test_bytes_can_add_no_fields_to_the_request(memory: runledger.Ledger) -> None:
    for text in (b'1,"source":2', b"{}{}", b"1}", b'{},"id":"r2"', b"", b" ", b"[", b'"', b"\xff", b"\x00", b"1 //"):
        with pytest.raises(runledger.InvalidInput) as refused:
            start(memory, input=text)
        assert refused.value.details["field"] == "input"
        with pytest.raises(runledger.InvalidInput):
            start(memory, input=runledger.Payload(text))
    assert memory.runs.list("shop").total == 0


def test_up_to_127_levels_are_kept_and_more_are_invalid(ledger: runledger.Ledger) -> None:
    def nested(depth: int) -> Any:
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        return value

    for depth in (100, 127):
        start(ledger, f"r{depth}", input=nested(depth))
        assert value_of(ledger, f"r{depth}") == nested(depth)
    for depth in (128, 129, 200, 500, 100_000):
        with pytest.raises(runledger.InvalidInput) as refused:
            start(ledger, input=nested(depth))
        assert refused.value.details["field"] == "input"
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(runledger.InvalidInput):
        start(ledger, input=loop)


def test_null_absent_and_empty_stay_apart(ledger: runledger.Ledger) -> None:
    run = start(ledger, input=None)
    assert run.input is not None and run.input.value is None and run.source is None
    assert start(ledger, "r2", source=None).source == runledger.Payload(b"null")
    assert start(ledger, "r3", source=runledger.ABSENT).source is None
    for id, output, raw in (("n1", runledger.ABSENT, None), ("n2", {}, b"{}"), ("n3", {"x": None}, b'{"x":null}'), ("n4", "", b'""')):
        start_node(ledger, id)
        ledger.nodes.finish("shop", id, status="succeeded", output=output)
        node = ledger.nodes.get("shop", id)
        assert node and (node.output and node.output.raw) == raw


def test_an_empty_text_is_not_an_absent_one(ledger: runledger.Ledger) -> None:
    start(ledger)
    start(ledger, "r2")
    assert ledger.runs.finish("shop", "r1", status="failed", error="").error == ""
    assert ledger.runs.finish("shop", "r2", status="failed").error is None


def test_texts_keep_nul(ledger: runledger.Ledger) -> None:
    start(ledger)
    start_node(ledger)
    assert ledger.agents.create("shop", "n1", agent_id="a", prompt="x\0y\0").prompt == "x\0y\0"
    assert ledger.runs.cancel("shop", "r1", error="a\0b").error == "a\0b"
    with pytest.raises(runledger.InvalidInput):
        start(ledger, "r\0" + "1")


def test_a_caller_can_not_change_a_record_it_was_given(ledger: runledger.Ledger) -> None:
    run = start(ledger, input={"items": [1]})
    assert run.input is not None
    run.input.value["items"].append(2)
    assert run.input.value == {"items": [1]}
    with pytest.raises(AttributeError):
        run.status = "failed"  # type: ignore[misc]
    again = ledger.runs.get("shop", "r1")
    assert again and again.status == "running" and value_of(ledger) == {"items": [1]}


def test_a_caller_may_change_its_own_input_after_the_call(ledger: runledger.Ledger) -> None:
    given: dict[str, Any] = {"a": {"b": [1]}}
    ledger.runs.queue("shop", "r1", workflow_id="wf", input=given)
    given["a"]["b"].append(2)
    assert value_of(ledger) == {"a": {"b": [1]}}
    start(ledger, input=given)
    given.clear()
    assert value_of(ledger) == {"a": {"b": [1, 2]}}


def test_what_json_can_not_hold_is_a_type_error_that_names_the_field(memory: runledger.Ledger) -> None:
    for bad in (object(), {"x": {1, 2}}, [b"x"], {(1, 2): 3}, 1j):
        with pytest.raises(TypeError, match="input"):
            start(memory, input=bad)
    assert memory.runs.list("shop").total == 0


def test_any_mapping_and_sequence_is_taken(memory: runledger.Ledger) -> None:
    value = MappingProxyType({"a": (1, OrderedDict(b=MappingProxyType({"c": range(3)})))})
    start(memory, input=value)
    assert value_of(memory) == {"a": [1, {"b": {"c": [0, 1, 2]}}]}


def test_a_payload_compares_by_its_bytes() -> None:
    payload = runledger.Payload(b'{"a":1}')
    assert payload == runledger.Payload(b'{"a":1}') and hash(payload) == hash(runledger.Payload(b'{"a":1}'))
    assert payload != runledger.Payload(b'{"a": 1}') and payload != b'{"a":1}'
    assert pickle.loads(pickle.dumps(payload)) == payload
    assert repr(payload) == """Payload(b'{"a":1}')""" and len(repr(runledger.Payload(b"x" * 1000))) < 90


def test_a_payload_over_the_limit_is_too_large_before_anything_is_written(open_at: Callable[..., runledger.Ledger]) -> None:
    with open_at(max_payload_bytes=100) as ledger:
        start(ledger, input="x" * 98)
        with pytest.raises(runledger.TooLarge) as refused:
            start(ledger, "r2", input="x" * 99)
        assert refused.value.details == {"field": "input", "size": 101, "limit": 100}
        assert isinstance(refused.value, ValueError)
        assert ledger.runs.get("shop", "r2") is None


def test_a_state_answer_has_no_payloads(ledger: runledger.Ledger) -> None:
    run = start(ledger, input={"x": 1}, source=1, answer="state")
    assert (run.input, run.source, run.status) == (None, None, "running")
    assert ledger.runs.list("shop", answer="state").rows == (run,)
