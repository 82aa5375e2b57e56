"""Answers requests of the JSON form by the typed methods of the package, for the conformance suite.

It serves a socket: a frame is the lengths of a head and of a body, then the head, which is JSON, and the body. A request that
a typed method can't express (an unknown field, a field given twice, text that is no JSON …) goes through ``call_json``, and
the reason is counted; the counts are written when standard input ends.
"""

from __future__ import annotations

import dataclasses
import gc
import io
import json
import re
import socketserver
import struct
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from json.decoder import scanstring
from typing import Any

import runledger
from runledger._handle import Handle
from runledger._table import OPERATIONS

_scan = json.JSONDecoder().scan_once
_MAX_REQUEST_BYTES = 256 * 1024 * 1024
_SPACE = re.compile(r"[ \t\n\r]*")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII)


class Untyped(Exception):
    """A request that the typed methods can't express, with the reason."""


# ---- from the JSON form to parameters


def members(text: str) -> Iterator[tuple[str, str, Any]]:
    """The members of an object: name, text of the value, value."""
    try:
        yield from _members(text)
    except RecursionError:
        raise Untyped("nested deeper than Python reads") from None
    except (ValueError, StopIteration, IndexError):
        raise Untyped("no JSON object") from None


def _members(text: str) -> list[tuple[str, str, Any]]:
    def space(at: int) -> int:
        found = _SPACE.match(text, at)
        assert found is not None
        return found.end()

    found: list[tuple[str, str, Any]] = []
    at = space(0)
    if text[at] != "{":
        raise ValueError
    at = space(at + 1)
    while text[at] != "}" or found:
        if text[at] != '"':
            raise ValueError
        name, at = scanstring(text, at + 1, True)
        at = space(at)
        if text[at] != ":":
            raise ValueError
        begin = space(at + 1)
        value, end = _scan(text, begin)
        if any(name == earlier for earlier, _, _ in found):
            raise Untyped("a field is given twice")
        found.append((name, text[begin:end], value))
        at = space(end)
        if text[at] == "}":
            break
        if text[at] != ",":
            raise ValueError
        at = space(at + 1)
    if space(at + 1) != len(text):
        raise ValueError
    return found


def time_of(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _TIME.fullmatch(value)
    if match is None:
        raise Untyped("a time that no datetime can be")
    *parts, fraction, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        year, month, day, hour, minute, second = map(int, parts)
        return datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")), timezone(offset))
    except ValueError:
        raise Untyped("a time that no datetime can be") from None


def nested(text: str, names: tuple[str, str]) -> list[Any]:
    values = {name: value for name, _, value in members(text)}
    if set(values) != set(names):
        raise Untyped("an unknown or missing field of an object")
    return [values[name] for name in names]


def parameter(kind: str, text: str, value: Any) -> Any:
    if kind == "payload":
        return text.encode()
    if value is None:
        return None
    if kind == "time":
        return time_of(value)
    if kind == "integer" and text == "-0":
        raise Untyped("an integer in a spelling that Python does not keep")
    if kind == "execution" and isinstance(value, dict):
        token, lease = nested(text, ("token", "queueLeaseExpiresAt"))
        return runledger.Execution(token, time_of(lease))
    if kind == "principal" and isinstance(value, dict):
        return runledger.Principal(*nested(text, ("type", "id")))
    return value


def op_of(given: list[tuple[str, str, Any]]) -> str:
    op: object = next((value for name, _, value in given if name == "op"), None)
    if not isinstance(op, str) or op != "batch" and op not in OPERATIONS:
        raise Untyped("there is no such operation")
    return op


def parameters(op: str, given: list[tuple[str, str, Any]]) -> dict[str, Any]:
    fields = OPERATIONS[op]
    arguments = {}
    for name, text, value in given:
        if name not in fields:
            raise Untyped("an unknown field")
        parameter_name, kind, _ = fields[name]
        arguments[parameter_name] = parameter(kind, text, value)
    if any(required and name not in arguments for name, _, required in fields.values()):
        raise Untyped("a required field is missing")
    return arguments


def call(ledger: Any, op: str, arguments: dict[str, Any]) -> Any:
    namespace, method = op.split(".")
    return getattr(getattr(ledger, namespace), method)(**arguments)


# ---- from answers to the JSON form


def camel(name: str) -> str:
    if name == "lease_expires_at":
        return "queueLeaseExpiresAt"
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def render(value: Any, rows: str) -> str:
    if isinstance(value, runledger.Payload):
        return value.raw.decode()
    if isinstance(value, datetime):
        assert value.tzinfo is timezone.utc
        return f'"{value.isoformat(timespec="microseconds")[:-6]}Z"'
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(render(item, rows) for item in value) + "]"
    if dataclasses.is_dataclass(value):
        fields = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if not f.name.startswith("_")]
        texts = [(rows if name == "rows" else camel(name), render(found, rows)) for name, found in fields if found is not None]
        return "{" + ",".join(f'"{name}":{text}' for name, text in texts) + "}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def answer(op: str, value: Any) -> str:
    rows = op.split(".")[0]
    text = render(value, rows)
    return f'{{"runs":{text}}}' if op == "runs.latest" else text


# ---- requests


class Bridge:
    """The open ledgers, and how many requests went which way."""

    def __init__(self) -> None:
        self.ledgers: dict[int, runledger.Ledger] = {}
        self.count = 0
        self.typed = 0
        self.untyped: Counter[str] = Counter()
        self.lock = threading.Lock()

    def request(self, ledger: runledger.Ledger, request: bytes) -> str:
        try:
            result = self.carry_out(ledger, request)
        except Untyped as reason:
            with self.lock:
                self.untyped[str(reason)] += 1
            return ledger.call_json(request).decode()
        return result

    def carry_out(self, ledger: runledger.Ledger, request: bytes) -> str:
        if len(request) > _MAX_REQUEST_BYTES:
            raise Untyped("a request over the limit")
        try:
            given = list(members(request.decode()))
        except UnicodeDecodeError:
            raise Untyped("no text") from None
        op = op_of(given)
        rest = [member for member in given if member[0] != "op"]
        if op == "batch":
            return self.batch(ledger, rest)
        arguments = parameters(op, rest)
        return answer(op, self.counting(lambda: call(ledger, op, arguments)))

    def counting(self, work: Callable[[], Any]) -> Any:
        """Work that goes through typed methods, refused or not."""
        with self.lock:
            self.typed += 1
        return work()

    def batch(self, ledger: runledger.Ledger, given: list[tuple[str, str, Any]]) -> str:
        if [name for name, _, _ in given] != ["commands"] or not isinstance(given[0][2], list):
            raise Untyped("an unknown or missing field")
        # The texts of the commands, each an object again.
        wrapped = list(elements(given[0][1]))
        commands = []
        for text in wrapped:
            fields = list(members(text))
            op = op_of(fields)
            if op == "batch" or is_query(op):
                raise Untyped("a batch or query in a batch")
            commands.append((op, parameters(op, [member for member in fields if member[0] != "op"])))

        def work() -> Any:
            gathered = ledger.batch()
            pending = []
            for index, (op, arguments) in enumerate(commands):
                try:
                    pending.append(call(gathered, op, arguments))
                except runledger.InvalidInput as e:
                    # Refused by the method itself, so its place is known to the one who called it.
                    e.details["index"] = index
                    raise
            gathered.commit()
            return pending

        pending = self.counting(work)
        return '{"results":[' + ",".join(answer(op, one.value) for (op, _), one in zip(commands, pending)) + "]}"

    def open(self, backend: str, path: str, values: dict[str, str]) -> int:
        url = "memory:" if backend == "memory" else runledger.url_of(backend, path)  # type: ignore[arg-type]
        numbers = {name for name in ("busy_timeout_ms", "max_payload_bytes") if re.fullmatch("[0-9]+", values.get(name, ""))}
        options: dict[str, Any] = {name: int(value) if name in numbers else value for name, value in values.items()}
        if set(values) - {"durability", "mode", "journal"} <= numbers:
            ledger = runledger.open(url, **options)
        else:
            # An option that there is not, or a number that is none: not of the signature, but of the contract.
            ledger = runledger.Ledger(Handle(url, options))
        with self.lock:
            self.count += 1
            self.ledgers[self.count] = ledger
            return self.count

    def do(self, head: dict[str, Any], body: bytes) -> bytes:
        if head["do"] == "open":
            return str(self.open(head["backend"], head["path"], head["options"])).encode()
        if head["do"] == "drop":
            del self.ledgers[head["store"]]
            return b""
        ledger = self.ledgers[head["store"]]
        if head["do"] == "call":
            return self.request(ledger, body).encode()
        if head["do"] == "export":
            stream = io.BytesIO()
            ledger.export_to(stream)
            return stream.getvalue()
        if head["do"] == "import":
            return render(ledger.import_from(io.BytesIO(body)), "").encode()
        if head["do"] == "snapshot":
            return ledger.snapshot()
        if head["do"] == "restore":
            ledger.restore(body)
            return b""
        if head["do"] == "close":
            ledger.close()
            return b""
        raise AssertionError(head)


def is_query(op: str) -> bool:
    return op.partition(".")[2] in ("get", "list", "latest", "expired", "stats", "info", "verify", "compact")


def elements(text: str) -> Iterator[str]:
    """The texts of an array's elements; the array has been read before."""
    at = 1
    while True:
        space = _SPACE.match(text, at)
        assert space is not None
        at = space.end()
        if text[at] == "]":
            return
        if text[at] == ",":
            at += 1
            continue
        _, end = _scan(text, at)
        yield text[at:end]
        at = end


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128
    bridge: Bridge


class Connection(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        while frame := self.rfile.read(12):
            head_size, body_size = struct.unpack("<IQ", frame)
            self.answer(json.loads(self.rfile.read(head_size)), self.rfile.read(body_size))

    def answer(self, head: dict[str, Any], body: bytes) -> None:
        is_ok = True
        try:
            result = self.server.bridge.do(head, body)
        except runledger.RunledgerError as e:
            is_ok, result = False, e.to_json().encode()
        except BaseException as e:  # What is no error of the package fails the case that meets it.
            is_ok, result = False, json.dumps(f"{type(e).__name__}: {e}").encode()
        self.wfile.write(struct.pack("<?Q", is_ok, len(result)) + result)


def main() -> None:
    # Cases drop stores without closing them, which is what they are about.
    warnings.simplefilter("ignore", ResourceWarning)
    server = Server(sys.argv[1], Connection)
    server.bridge = Bridge()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    server.bridge.ledgers.clear()
    gc.collect()
    counts = {"typed": server.bridge.typed, "untyped": server.bridge.untyped, "liveObjects": runledger.live_objects()}
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main()
