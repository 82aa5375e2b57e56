"""How the operations of a ledger are carried out, and the pages that lists answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from . import _abi
from ._answers import Read, read_rows
from ._handle import Handle
from ._request import Request
from ._wait import slices

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. Iterating goes over all rows of the list from here on, fetching page after page by cursor.

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
    _fetch: Callable[[str], Page[T]] = field(repr=False, compare=False)

    def next(self) -> Page[T] | None:
        """The next page, which is not asked for a total; None after the last one."""
        return None if self.next_cursor is None else self._fetch(self.next_cursor)

    def __iter__(self) -> Iterator[T]:
        page: Page[T] | None = self
        while page is not None:
            yield from page.rows
            page = page.next()


class Walk(Generic[T]):
    """A list of which pages are asked for. It is not part of a cycle, so that a ledger goes with its last reference."""

    __slots__ = ("_handle", "_request", "_rows", "_read_row")

    def __init__(self, handle: Handle, request: Request, rows: str, read_row: Read[T]) -> None:
        self._handle = handle
        self._request = request
        self._rows = rows
        self._read_row = read_row

    def page(self, cursor: str | None = None) -> Page[T]:
        """The first page, or the one at a cursor."""
        return self._handle.send(self._request.to_json(cursor), self._read)

    def _read(self, o: Any, text: bytes) -> Page[T]:
        rows = read_rows(o[self._rows], text, self._read_row)
        return Page(rows, o.get("total"), o["hasMore"], o.get("nextCursor"), self.page)


class LedgerCarrier:
    """Carries out requests on the calling thread."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def send(self, request: Request, read: Read[T]) -> T:
        return self._handle.send(request.to_json(), read)

    def claim(self, request: Request, read: Read[T | None], wait: float | timedelta | None) -> T | None:
        """Takes what is queued, and waits for it if that is asked."""
        if wait is None:
            return self.send(request, read)
        encoded = request.to_json()
        for timeout_ms in slices(wait):
            if (claimed := self._handle.claim(encoded, timeout_ms, read)) is not None:
                return claimed
        return None

    def page(self, request: Request, rows: str, read: Read[T]) -> Page[T]:
        return Walk(self._handle, request, rows, read).page()

    def confirm(self, entity: str, project_id: str, id: str, token: str, lease_expires_at: datetime) -> datetime:
        return _abi.confirm(self._handle.pointer, entity, project_id, id, token, lease_expires_at)
