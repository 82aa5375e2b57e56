"""Whole stores through binary files."""

from __future__ import annotations

import gzip
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runledger
from helpers import start


def fill(ledger: runledger.Ledger, count: int) -> None:
    for begin in range(0, count, 500):
        with ledger.batch() as batch:
            for number in range(begin, min(begin + 500, count)):
                batch.runs.queue("shop", f"r{number:05}", workflow_id="wf", input={"number": number, "text": "x" * 100})


def exported(ledger: runledger.Ledger) -> bytes:
    stream = io.BytesIO()
    ledger.export_to(stream)
    return stream.getvalue()


def test_a_store_goes_through_a_file_into_another(ledger: runledger.Ledger, memory: runledger.Ledger, tmp_path: Path) -> None:
    fill(ledger, 1000)
    with open(tmp_path / "runs.jsonl", "wb") as file:
        assert ledger.export_to(file) == runledger.Counts(1000, 0, 0)
    with open(tmp_path / "runs.jsonl", "rb") as file:
        assert memory.import_from(file) == runledger.Imported(1000, 0, 0, 0)
    assert exported(memory) == exported(ledger) == (tmp_path / "runs.jsonl").read_bytes()
    assert ledger.copy_to(memory) == runledger.Imported(0, 0, 0, 1000)
    with gzip.open(tmp_path / "runs.gz", "wb") as packed:
        ledger.export_to(packed)  # type: ignore[arg-type]
    with gzip.open(tmp_path / "runs.gz", "rb") as packed:
        assert memory.import_from(packed).skipped == 1000  # type: ignore[arg-type]


def test_raw_files_that_take_and_give_a_little_at_a_time(memory: runledger.Ledger) -> None:
    fill(memory, 200)

    class Slow(io.RawIOBase):
        def __init__(self, content: bytes = b"") -> None:
            self.content = bytearray(content)

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.content += bytes(data[:100])
            return min(len(data), 100)

        def read(self, size: int = -1) -> bytes:
            taken = bytes(self.content[: min(size, 77)])
            del self.content[: len(taken)]
            return taken

    slow: Any = Slow()
    memory.export_to(slow)
    assert bytes(slow.content) == exported(memory)
    slow = Slow(exported(memory))
    assert memory.import_from(slow).skipped == 200


def test_a_snapshot_is_restored(ledger: runledger.Ledger) -> None:
    fill(ledger, 3)
    taken = ledger.snapshot()
    assert taken == exported(ledger)
    ledger.runs.cancel("shop", "r00000")
    start(ledger, "new")
    assert ledger.restore(taken).runs == 3
    assert ledger.snapshot() == taken
    with pytest.raises(runledger.Corrupt):
        ledger.restore(taken[:-10])
    assert ledger.snapshot() == taken


def test_a_backup_is_a_store_or_a_stream(ledger: runledger.Ledger, backend: str, tmp_path: Path) -> None:
    fill(ledger, 10)
    made = ledger.backup(tmp_path / "copy")
    assert made.form == ("stream" if backend == "memory" else "store") and made.size_bytes == os.stat(tmp_path / "copy").st_size
    if backend != "memory":
        with runledger.open(runledger.url_of(backend, tmp_path / "copy"), mode="existing") as copy:  # type: ignore[arg-type]
            assert exported(copy) == exported(ledger)
    with pytest.raises(runledger.RunledgerError):
        ledger.backup(tmp_path / "no" / "such" / "directory")


def test_progress_is_told_and_can_stop_a_transfer(ledger: runledger.Ledger, memory: runledger.Ledger, tmp_path: Path) -> None:
    fill(ledger, 2000)
    stream = exported(ledger)
    told: list[Any] = []
    ledger.export_to(io.BytesIO(), on_progress=lambda progress: told.append(progress))
    assert {progress.stage for progress in told} == {"exporting"} and told[-1].done == 2000
    calls: dict[str, Callable[[Any], object]] = {
        "export": lambda stop: ledger.export_to(io.BytesIO(), on_progress=stop),
        "import": lambda stop: memory.import_from(io.BytesIO(stream), on_progress=stop),
        "copy": lambda stop: ledger.copy_to(memory, on_progress=stop),
        "backup": lambda stop: ledger.backup(tmp_path / "copy", on_progress=stop),
    }
    for name, call in calls.items():
        with pytest.raises(runledger.Interrupted):
            call(lambda progress: True)
        with pytest.raises(ZeroDivisionError):
            call(lambda progress: 1 // 0)
        assert memory.runs.list("shop").total == 0 and not (tmp_path / "copy").exists(), name
    assert memory.import_from(io.BytesIO(stream), on_progress=lambda progress: None).runs == 2000


def test_what_a_file_raises_is_raised(memory: runledger.Ledger) -> None:
    fill(memory, 100)

    class Broken(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

        def read(self, size: int | None = -1) -> bytes:
            raise EOFError("gone")

    with pytest.raises(OSError, match="No space left"):
        memory.export_to(Broken())
    with pytest.raises(EOFError):
        memory.import_from(Broken())
    text: Any = io.StringIO()
    with pytest.raises(TypeError):
        memory.export_to(text)
    with pytest.raises(TypeError):
        memory.import_from(text)
    with pytest.raises(runledger.Corrupt):
        memory.import_from(io.BytesIO(b""))
    assert memory.runs.list("shop").total == 100


def test_ctrl_c_stops_a_transfer(memory: runledger.Ledger) -> None:
    fill(memory, 2000)
    stream = exported(memory)

    def interrupt(progress: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        memory.export_to(io.BytesIO(), on_progress=interrupt)
    with runledger.open("memory:") as other:
        with pytest.raises(KeyboardInterrupt):
            other.import_from(io.BytesIO(stream), on_progress=interrupt)
        assert other.runs.list("shop").total == 0
        assert other.import_from(io.BytesIO(stream)).runs == 2000
