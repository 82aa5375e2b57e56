"""How the operations of a ledger are carried out for asyncio, and the pages that lists answer then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from ._answers import Read, read_rows
from ._carrier import LedgerCarrier
from ._errors import Closed
from ._handle import Handle
from ._request import Request
from ._wait import slices

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AsyncPage(Generic[T]):
    """A page of a list. ``async for`` goes over all rows of the list from here on, fetching page after page by cursor.

    Walking gives every record that existed, and kept its place, throughout the walk exactly once, whatever is written
    meanwhile. Between two pages nothing is held open.
    """

    rows: tuple[T, ...]
    """The rows of this page, in order."""
    total: int | None
    """How many rows match in all, those before a cursor too; None if it was not asked."""
    has_more: bool
    """Whether another row follows the page."""
    next_cursor: str | None
    """Where the next page begins; there exactly when ``has_more`` is true and the page is not empty."""
    _fetch: Callable[[str], Awaitable[AsyncPage[T]]] = field(repr=False, compare=False)

    async def next(self) -> AsyncPage[T] | None:
        """The next page, which is not asked for a total; None after the last one."""
        return None if self.next_cursor is None else await self._fetch(self.next_cursor)

    async def __aiter__(self) -> AsyncIterator[T]:
        page: AsyncPage[T] | None = self
        while page is not None:
            for row in page.rows:
                yield row
            page = await page.next()


class AsyncCarrier:
    """Carries out requests on threads of its own. A request is written when it is made, not when it is awaited."""

    def __init__(self, handle: Handle, max_threads: int) -> None:
        self._handle = handle
        self._direct = LedgerCarrier(handle)
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="runledger")
        # Claims that wait have threads of their own, so that no other call waits for them.
        self._waiters = ThreadPoolExecutor(max_threads, thread_name_prefix="runledger-wait")

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        """Does blocking work on a thread. Nobody who stops waiting for it stops the work."""
        return self._run_on(self._threads, work)

    def _run_on(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> Awaitable[T]:
        loop = asyncio.get_running_loop()
        if self._handle.is_closed:
            closed: asyncio.Future[T] = loop.create_future()
            closed.set_exception(Closed("the ledger was closed", {"entity": "store"}))
            return closed
        done = loop.run_in_executor(threads, work)
        # A task that is cancelled must not take back work that still waits for a thread, nor complain of what becomes of it.
        done.add_done_callback(lambda future: None if future.cancelled() else future.exception())
        return asyncio.shield(done)

    def send_json(self, request: bytes, read: Read[T]) -> Awaitable[T]:
        return self.run(lambda: self._handle.send(request, read))

    def send(self, request: Request, read: Read[T]) -> Awaitable[T]:
        return self.send_json(request.to_json(), read)

    def claim(self, request: Request, read: Read[T | None], wait: float | timedelta | None) -> Awaitable[T | None]:
        """Takes what is queued, and waits for it if that is asked. A slice that a cancelled task leaves goes on to its end."""
        if wait is None:
            return self.send(request, read)
        encoded, parts = request.to_json(), slices(wait)
        return asyncio.get_running_loop().create_task(self._claim(encoded, read, parts))

    async def _claim(self, request: bytes, read: Read[T | None], parts: Iterator[int]) -> T | None:
        for timeout_ms in parts:
            work = partial(self._handle.claim, request, timeout_ms, read)
            if (claimed := await self._run_on(self._waiters, work)) is not None:
                return claimed
        return None

    def page(self, request: Request, rows: str, read: Read[T]) -> Awaitable[AsyncPage[T]]:
        return AsyncWalk(self, request, rows, read).page()

    def confirm(self, entity: str, project_id: str, id: str, token: str, lease_expires_at: datetime) -> Awaitable[datetime]:
        return self.run(lambda: self._direct.confirm(entity, project_id, id, token, lease_expires_at))

    async def close(self) -> None:
        """Closes the store once the calls under way have ended. A second close does nothing."""
        if not self._handle.is_closed:
            try:
                await self.run(self._handle.close)
            finally:
                self._threads.shutdown(wait=False)
                self._waiters.shutdown(wait=False)


class AsyncWalk(Generic[T]):
    """A list of which pages are asked for. It is not part of a cycle, so that a ledger goes with its last reference."""

    __slots__ = ("_carrier", "_request", "_rows", "_read_row")

    def __init__(self, carrier: AsyncCarrier, request: Request, rows: str, read_row: Read[T]) -> None:
        self._carrier = carrier
        self._request = request
        self._rows = rows
        self._read_row = read_row

    def page(self, cursor: str | None = None) -> Awaitable[AsyncPage[T]]:
        """The first page, or the one at a cursor."""
        return self._carrier.send_json(self._request.to_json(cursor), self._read)

    def _read(self, o: Any, text: bytes) -> AsyncPage[T]:
        rows = read_rows(o[self._rows], text, self._read_row)
        return AsyncPage(rows, o.get("total"), o["hasMore"], o.get("nextCursor"), self.page)
