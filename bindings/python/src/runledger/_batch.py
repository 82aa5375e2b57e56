"""Several commands in one atomic step."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import Any

from ._async_carrier import AsyncCarrier
from ._batch_carrier import BatchCarrier
from ._batch_operations import BatchAgents, BatchNodes, BatchRuns
from ._handle import Handle


class _Gathering:
    """The commands of a batch, with the methods of a ledger that answer :class:`Pending` here."""

    def __init__(self) -> None:
        self._carrier = BatchCarrier()
        self.runs = BatchRuns(self._carrier)
        self.nodes = BatchNodes(self._carrier)
        self.agents = BatchAgents(self._carrier)

    def __len__(self) -> int:
        return len(self._carrier)


class Batch(_Gathering):
    """1 to 1,000 commands that all succeed, or none takes effect: one atomic step, later ones seeing earlier ones.

    The methods of :attr:`runs`, :attr:`nodes` and :attr:`agents` only gather commands here. The ``with`` statement commits
    them at its end, unless it is left by an exception::

        with ledger.batch() as batch:
            run = batch.runs.start("shop", "r1", workflow_id="ship", input={})
            batch.nodes.start("shop", "n1", workflow_run_id="r1", ...)
        print(run.value.status)

    When a command is refused, ``details["index"]`` of the exception says which one.
    """

    def __init__(self, handle: Handle) -> None:
        super().__init__()
        self._handle = handle

    def commit(self) -> tuple[Any, ...]:
        """Carries all commands out and gives their answers, which stand in each :class:`Pending` too."""
        return self._handle.send(self._carrier.to_json(), self._carrier.read)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.commit()


class AsyncBatch(_Gathering):
    """As :class:`Batch`, for asyncio: ``async with ledger.batch() as batch``."""

    def __init__(self, carrier: AsyncCarrier) -> None:
        super().__init__()
        self._async_carrier = carrier

    def commit(self) -> Awaitable[tuple[Any, ...]]:
        """Carries all commands out and gives their answers, which stand in each :class:`Pending` too."""
        return self._async_carrier.send_json(self._carrier.to_json(), self._carrier.read)

    async def __aenter__(self) -> AsyncBatch:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            await self.commit()
