"""What users hold: one handle on a store."""

from __future__ import annotations

import os
from types import TracebackType
from typing import BinaryIO

from . import _abi, _transfer
from ._answers import Counts, Imported
from ._batch import Batch
from ._carrier import LedgerCarrier
from ._handle import Handle
from ._operations import LedgerAgents, LedgerNodes, LedgerProjects, LedgerRuns, LedgerStore
from ._transfer import Backup, OnProgress


class Ledger:
    """A store of workflow runs, usable from any number of threads. Opened by :func:`runledger.open`.

    Every method that changes something is one command: one atomic step, answered once it is as durable as the store was
    opened to make it. Close a ledger when it is no longer needed, best by a ``with`` statement.
    """

    runs: LedgerRuns
    """What can be done with runs."""
    nodes: LedgerNodes
    """What can be done with node runs."""
    agents: LedgerAgents
    """What can be done with agent runs."""
    projects: LedgerProjects
    """What can be done with projects."""
    store: LedgerStore
    """What can be done with the store itself."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        carrier = LedgerCarrier(handle)
        self.runs = LedgerRuns(carrier)
        self.nodes = LedgerNodes(carrier)
        self.agents = LedgerAgents(carrier)
        self.projects = LedgerProjects(carrier)
        self.store = LedgerStore(carrier)

    def batch(self) -> Batch:
        """Several commands in one atomic step: ``with ledger.batch() as batch``."""
        return Batch(self._handle)

    def call_json(self, request: str | bytes) -> bytes:
        """A request of the JSON form, such as ``{"op":"runs.get","projectId":"shop","id":"r1"}``; answers the value of ``ok``."""
        return _abi.call_json(self._handle.pointer, request.encode("utf-8", "surrogatepass") if isinstance(request, str) else request)

    def export_to(self, file: BinaryIO, on_progress: OnProgress | None = None) -> Counts:
        """Writes the whole store to a binary file as one stream: one consistent state, even while writes go on.

        :param on_progress: Is told how far it has come; true stops it, and :class:`~runledger.Interrupted` is raised.
        """
        return _transfer.export_to(self._handle.pointer, file, on_progress)

    def import_from(self, file: BinaryIO, on_progress: OnProgress | None = None) -> Imported:
        """Adds the records of a stream from a binary file in one step. A record that is there and equal is skipped.

        :param on_progress: Is told how far it has come; true stops it, and :class:`~runledger.Interrupted` is raised.
        """
        return _transfer.import_from(self._handle.pointer, file, on_progress)

    def copy_to(self, target: Ledger, on_progress: OnProgress | None = None) -> Imported:
        """Adds all records to another ledger in one step.

        :param on_progress: Is told how far it has come; true stops it, and :class:`~runledger.Interrupted` is raised.
        """
        return _transfer.copy_to(self._handle.pointer, target._handle.pointer, on_progress)

    def backup(self, path: str | os.PathLike[str], on_progress: OnProgress | None = None) -> Backup:
        """Writes a copy of the store to a new file, while it is in use: what to do instead of copying a store's file.

        :param on_progress: Is told how far it has come; true stops it, and :class:`~runledger.Interrupted` is raised.
        """
        return _transfer.backup(self._handle.pointer, path, on_progress)

    def snapshot(self) -> bytes:
        """Everything that the store holds, as the bytes of a stream."""
        return _transfer.snapshot(self._handle.pointer)

    def restore(self, snapshot: bytes) -> Imported:
        """Replaces everything that the store holds by a snapshot, in one step."""
        return _transfer.restore(self._handle.pointer, snapshot)

    def close(self) -> None:
        """Waits for the calls that are under way, and closes the store. Later calls raise :class:`~runledger.Closed`; what was
        answered stays readable. A second close does nothing."""
        self._handle.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<runledger.Ledger at {self._handle.address}{', closed' if self._handle.is_closed else ''}>"
