"""What users of asyncio hold: one handle on a store."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from types import TracebackType
from typing import BinaryIO

from . import _abi, _transfer
from ._answers import Counts, Imported
from ._async_carrier import AsyncCarrier
from ._async_operations import AsyncAgents, AsyncNodes, AsyncProjects, AsyncRuns, AsyncStore
from ._batch import AsyncBatch
from ._handle import Handle
from ._transfer import Backup, OnProgress


class AsyncLedger:
    """As :class:`~runledger.Ledger`, for asyncio: every method answers what must be awaited. Opened by
    :func:`runledger.open_async`.

    Calls are made on threads of the ledger's own. A task that is cancelled stops waiting; its command goes on, and may have
    taken effect. Callbacks of progress run on those threads.
    """

    runs: AsyncRuns
    """What can be done with runs."""
    nodes: AsyncNodes
    """What can be done with node runs."""
    agents: AsyncAgents
    """What can be done with agent runs."""
    projects: AsyncProjects
    """What can be done with projects."""
    store: AsyncStore
    """What can be done with the store itself."""

    def __init__(self, handle: Handle, max_threads: int) -> None:
        self._handle = handle
        self._carrier = AsyncCarrier(handle, max_threads)
        self.runs = AsyncRuns(self._carrier)
        self.nodes = AsyncNodes(self._carrier)
        self.agents = AsyncAgents(self._carrier)
        self.projects = AsyncProjects(self._carrier)
        self.store = AsyncStore(self._carrier)

    def batch(self) -> AsyncBatch:
        """Several commands in one atomic step: ``async with ledger.batch() as batch``."""
        return AsyncBatch(self._carrier)

    def call_json(self, request: str | bytes) -> Awaitable[bytes]:
        """A request of the JSON form; answers the value of ``ok``."""
        encoded = request.encode() if isinstance(request, str) else request
        return self._carrier.run(lambda: _abi.call_json(self._handle.pointer, encoded))

    def export_to(self, file: BinaryIO, on_progress: OnProgress | None = None) -> Awaitable[Counts]:
        """Writes the whole store to a binary file as one stream: one consistent state, even while writes go on."""
        return self._carrier.run(lambda: _transfer.export_to(self._handle.pointer, file, on_progress))

    def import_from(self, file: BinaryIO, on_progress: OnProgress | None = None) -> Awaitable[Imported]:
        """Adds the records of a stream from a binary file in one step. A record that is there and equal is skipped."""
        return self._carrier.run(lambda: _transfer.import_from(self._handle.pointer, file, on_progress))

    def copy_to(self, target: AsyncLedger, on_progress: OnProgress | None = None) -> Awaitable[Imported]:
        """Adds all records to another ledger in one step."""
        return self._carrier.run(lambda: _transfer.copy_to(self._handle.pointer, target._handle.pointer, on_progress))

    def backup(self, path: str | os.PathLike[str], on_progress: OnProgress | None = None) -> Awaitable[Backup]:
        """Writes a copy of the store to a new file, while it is in use: what to do instead of copying a store's file."""
        return self._carrier.run(lambda: _transfer.backup(self._handle.pointer, path, on_progress))

    def snapshot(self) -> Awaitable[bytes]:
        """Everything that the store holds, as the bytes of a stream."""
        return self._carrier.run(lambda: _transfer.snapshot(self._handle.pointer))

    def restore(self, snapshot: bytes) -> Awaitable[Imported]:
        """Replaces everything that the store holds by a snapshot, in one step."""
        return self._carrier.run(lambda: _transfer.restore(self._handle.pointer, snapshot))

    async def close(self) -> None:
        """Waits for the calls that are under way, and closes the store. A second close does nothing."""
        await self._carrier.close()

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<runledger.AsyncLedger at {self._handle.address}{', closed' if self._handle.is_closed else ''}>"
