"""How the operations of a ledger are carried out, and the pages that lists answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from . import _abi
from ._answers import Read, read_rows
from ._handle import Handle
from ._request import Request

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


class LedgerCarrier:
    """Carries out requests on the calling thread."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def send(self, request: Request, read: Read[T]) -> T:
        return self._handle.send(request.to_json(), read)

    def page(self, request: Request, rows: str, read: Read[T]) -> Page[T]:
        def read_page(o: Any, text: bytes) -> Page[T]:
            return Page(read_rows(o[rows], text, read), o.get("total"), o["hasMore"], o.get("nextCursor"), fetch)

        def fetch(cursor: str) -> Page[T]:
            return self._handle.send(request.to_json(cursor), read_page)

        return self._handle.send(request.to_json(), read_page)

    def confirm(self, entity: str, project_id: str, id: str, token: str, lease_expires_at: datetime) -> datetime:
        return _abi.confirm(self._handle.pointer, entity, project_id, id, token, lease_expires_at)
