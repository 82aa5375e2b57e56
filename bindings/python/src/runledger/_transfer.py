"""Whole stores through Python's binary files: export, import, copy, backup, snapshot and restore."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeVar

from ._abi import read_doc, take_error, take_text
from ._answers import Counts, Imported, Read, read_counts, read_imported
from ._native import ffi, lib

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer has come."""

    stage: str
    """What it is at. Later versions may have other stages."""
    done: int
    """How much of the stage is done, in the stage's own unit."""
    total: int
    """How much the stage has in all; 0 when that is not known."""


OnProgress = Callable[[Progress], object]
"""Told how far a transfer has come; what is true stops the transfer, which keeps nothing then. Like the file of a transfer, it
must not use the ledger that is at work: a call might wait for the transfer that waits for it."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup wrote."""

    form: Literal["store", "stream"]
    """``store`` for a file that can be opened, ``stream`` for one to import."""
    size_bytes: int


class _Callbacks:
    """Callbacks that the library makes during one call. What they raise stops it, and is raised again from there."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []

    def make(self, signature: str, call: Callable[..., object]) -> Any:
        def guarded(*arguments: Any) -> int:
            try:
                return 1 if call(*arguments) else 0
            except BaseException as e:
                self._raised.append(e)
                return 1

        def on_error(kind: object, error: BaseException, trace: object) -> int:
            # An interruption that came before the code above could catch it.
            self._raised.append(error)
            return 1

        return ffi.callback(signature, guarded, error=1, onerror=on_error)

    def progress(self, on_progress: OnProgress | None) -> Any:
        if on_progress is None:
            return ffi.NULL
        told = on_progress

        def tell(_: Any, stage: Any, done: int, total: int) -> object:
            return told(Progress(ffi.string(stage).decode(), done, total))

        return self.make("runledger_progress_fn", tell)

    def carry_out(self, function: Callable[..., int], *arguments: Any) -> Any:
        """Makes a call that answers a doc."""
        out, err = ffi.new("runledger_doc **"), ffi.new("runledger_error **")
        status = function(*arguments, out, err)
        if self._raised:
            lib.runledger_doc_free(out[0])
            lib.runledger_error_free(err[0])
            raise self._raised[0]
        if status:
            raise take_error(err)
        return out[0]


def _transfer(read: Read[T], callbacks: _Callbacks, function: Callable[..., int], *arguments: Any) -> T:
    return read_doc(callbacks.carry_out(function, *arguments), read)


def export_to(store: Any, file: BinaryIO, on_progress: OnProgress | None) -> Counts:
    def write(_: Any, data: Any, size: int) -> None:
        # A raw file may take less than it is given.
        rest = memoryview(bytes(ffi.buffer(data, size)))
        while rest:
            written = file.write(rest)
            if written is None:
                raise BlockingIOError("the file would block: a transfer needs one that waits")
            if written == 0:
                raise OSError("the file takes nothing")
            rest = rest[written:]

    callbacks = _Callbacks()
    stream = callbacks.make("runledger_write_fn", write)
    return _transfer(read_counts, callbacks, lib.runledger_export, store, stream, callbacks.progress(on_progress), ffi.NULL)


def import_from(store: Any, file: BinaryIO, on_progress: OnProgress | None) -> Imported:
    def read(_: Any, buffer: Any, capacity: int, size: Any) -> None:
        data = file.read(capacity)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"a binary file was expected: read() answered {type(data).__name__}")
        ffi.memmove(buffer, data, len(data))
        size[0] = len(data)

    callbacks = _Callbacks()
    stream = callbacks.make("runledger_read_fn", read)
    return _transfer(read_imported, callbacks, lib.runledger_import, store, stream, callbacks.progress(on_progress), ffi.NULL)


def copy_to(store: Any, target: Any, on_progress: OnProgress | None) -> Imported:
    callbacks = _Callbacks()
    return _transfer(read_imported, callbacks, lib.runledger_copy, store, target, callbacks.progress(on_progress), ffi.NULL)


def backup(store: Any, path: str | os.PathLike[str], on_progress: OnProgress | None) -> Backup:
    callbacks = _Callbacks()
    arguments = (store, os.fsencode(path), callbacks.progress(on_progress), ffi.NULL)
    return _transfer(lambda o, _: Backup(o["form"], o["sizeBytes"]), callbacks, lib.runledger_backup, *arguments)


def snapshot(store: Any) -> bytes:
    return take_text(_Callbacks().carry_out(lib.runledger_snapshot, store))


def restore(store: Any, taken: bytes) -> Imported:
    return _transfer(read_imported, _Callbacks(), lib.runledger_restore, store, taken, len(taken))
