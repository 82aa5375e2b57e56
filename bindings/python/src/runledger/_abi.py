"""The functions of the C ABI as the package uses them. Every call of the library releases the interpreter's lock."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from ._answers import Read
from ._errors import ERRORS, Internal, InvalidInput, RunledgerError
from ._native import ffi, lib
from ._time import time_of_us, us_of_time

T = TypeVar("T")

ABI_VERSION = 1
"""The version of the C ABI that this package was written for."""

if lib.runledger_abi_version() != ABI_VERSION:
    raise ImportError(f"this package is for version {ABI_VERSION} of the library's ABI, not {lib.runledger_abi_version()}: install it anew")

_NULL = ffi.NULL
_DOC, _ERROR, _STORE, _REQUEST = (ffi.typeof(f"runledger_{name} **") for name in ("doc", "error", "store", "request"))
_SIZE, _INT64 = ffi.typeof("size_t *"), ffi.typeof("int64_t *")
_new, _buffer, _call, _outline, _json, _free_doc = (
    ffi.new,
    ffi.buffer,
    lib.runledger_call,
    lib.runledger_doc_outline,
    lib.runledger_doc_json,
    lib.runledger_doc_free,
)
_decode = json.JSONDecoder().decode

free_store: Callable[[Any], None] = lib.runledger_store_free


def version() -> str:
    """The version of the library."""
    return str(ffi.string(lib.runledger_version()).decode())


def build_info() -> dict[str, Any]:
    """How the library was built: version, backends, target, profile."""
    info: dict[str, Any] = _decode(ffi.string(lib.runledger_build_info()).decode())
    return info


def live_objects() -> int:
    """How many objects of the library are alive."""
    return int(lib.runledger_live_objects())


def take_error(place: Any) -> RunledgerError:
    """The exception of an error of the library, which is freed."""
    error = place[0]
    size = _new(_SIZE)
    try:
        code = ffi.string(lib.runledger_status_name(lib.runledger_error_code(error))).decode()
        message = str(_buffer(lib.runledger_error_message(error, size), size[0]), "utf-8")
        details = _decode(str(_buffer(lib.runledger_error_details(error, size), size[0]), "utf-8"))
        return ERRORS.get(code, Internal)(message, details, bool(lib.runledger_error_retryable(error)))
    finally:
        lib.runledger_error_free(error)


def call(store: Any, request: bytes, read: Read[T]) -> T:
    """Carries out a request and reads its answer."""
    out, err = _new(_DOC), _new(_ERROR)
    if _call(store, _NULL, request, len(request), out, err):
        raise take_error(err)
    return read_doc(out[0], read)


def claim_wait(store: Any, request: bytes, timeout_ms: int, read: Read[T]) -> T:
    """Carries out a claim, waits for something to be queued, and reads its answer."""
    out, err = _new(_DOC), _new(_ERROR)
    if lib.runledger_claim_wait(store, _NULL, request, len(request), timeout_ms, out, err):
        raise take_error(err)
    return read_doc(out[0], read)


def read_doc(doc: Any, read: Read[T]) -> T:
    """Reads an answer, which is freed.

    Its payloads are not decoded: the outline has their places, and they are taken as they are.
    """
    outline = _outline(doc)
    try:
        size = _new(_SIZE)
        text = _buffer(_json(doc, size), size[0])
        return read(_decode(str(_buffer(_json(outline, size), size[0]), "utf-8")), text)
    finally:
        _free_doc(outline)
        _free_doc(doc)


def take_text(doc: Any) -> bytes:
    """The text of an answer, which is freed."""
    size = _new(_SIZE)
    try:
        pointer = _json(doc, size)
        return bytes(_buffer(pointer, size[0]))
    finally:
        _free_doc(doc)


def call_json(store: Any, request: bytes) -> bytes:
    """Carries out a request and gives the text of its answer."""
    out, err = _new(_DOC), _new(_ERROR)
    if _call(store, _NULL, request, len(request), out, err):
        raise take_error(err)
    return take_text(out[0])


def open_store(url: str, options: dict[str, Any]) -> Any:
    """Opens a store."""
    out, err = _new(_STORE), _new(_ERROR)
    if lib.runledger_store_open(_terminated("url", url), json.dumps(options).encode(), out, err):
        raise take_error(err)
    return out[0]


def close_store(store: Any) -> None:
    """Closes a store."""
    err = _new(_ERROR)
    if lib.runledger_store_close(store, err):
        raise take_error(err)


_CONFIRM = {
    "run": (lib.runledger_confirm_run, "id"),
    "agent": (lib.runledger_confirm_agent, "nodeRunId"),
}


def confirm(store: Any, entity: str, project_id: str, id: str, token: str, lease_expires_at: datetime) -> datetime:
    """Says that an owner is alive, and gives the lease's end as it now is."""
    function, id_field = _CONFIRM[entity]
    out, err = _new(_INT64), _new(_ERROR)
    status = function(
        store,
        _terminated("projectId", project_id),
        _terminated(id_field, id),
        _terminated("executionToken", token),
        us_of_time("queueLeaseExpiresAt", lease_expires_at),
        out,
        err,
    )
    if status:
        raise take_error(err)
    return time_of_us(out[0])


def check_json(field: str, raw: bytes) -> None:
    """Refuses what is not one whole JSON value: anything else could add fields of its own to a request."""
    out = _new(_REQUEST)
    if lib.runledger_request_new(b"runs.queue", out, _NULL):
        raise MemoryError
    status = lib.runledger_request_set_json(out[0], b"input", raw, len(raw))
    lib.runledger_request_free(out[0])
    if status:
        raise InvalidInput.of(field, "bytes must be one JSON value in UTF-8")


def _terminated(field: str, value: str) -> bytes:
    """A text that C ends at its first NUL."""
    if not isinstance(value, str):
        raise InvalidInput.of(field, f"a str was expected, not {type(value).__name__}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise InvalidInput.of(field, "a lone surrogate is no text") from None
    if b"\0" in encoded:
        raise InvalidInput.of(field, "can't hold the character NUL")
    return encoded
