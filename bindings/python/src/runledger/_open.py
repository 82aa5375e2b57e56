"""Opens ledgers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from types import TracebackType
from typing import Any, Literal

from ._async_ledger import AsyncLedger
from ._handle import Handle
from ._ledger import Ledger

Durability = Literal["full", "relaxed"]
Mode = Literal["create", "existing", "read_only"]
Journal = Literal["wal", "delete"]


def open(
    url: str,
    *,
    durability: Durability | None = None,
    mode: Mode | None = None,
    busy_timeout_ms: int | None = None,
    max_payload_bytes: int | None = None,
    journal: Journal | None = None,
    allow_shared_file: bool = False,
) -> Ledger:
    """Opens the store at an address: ``memory:``, ``sqlite:PATH`` or ``redb:PATH``.

    In a path, ``%``, ``?`` and ``#`` are escaped, as :func:`url_of` does.

    :param durability: What an acknowledged command survives: ``full`` (default) a loss of power, ``relaxed`` a kill.
    :param mode: ``create`` (default), ``existing`` or ``read_only``.
    :param busy_timeout_ms: How long a call waits for the store's lock; 5,000 when not given.
    :param max_payload_bytes: The limit of one payload or text; 16 MiB when not given.
    :param journal: SQLite only; on an existing store, given means switch.
    :param allow_shared_file: Opens a SQLite file even though this process holds it through another descriptor, and leaves
        ``open`` and ``sqlite3.connect`` unguarded. Only for files that nobody else writes.
    """
    return Ledger(Handle(url, _options(durability, mode, busy_timeout_ms, max_payload_bytes, journal, allow_shared_file)))


def open_async(
    url: str,
    *,
    durability: Durability | None = None,
    mode: Mode | None = None,
    busy_timeout_ms: int | None = None,
    max_payload_bytes: int | None = None,
    journal: Journal | None = None,
    allow_shared_file: bool = False,
    max_threads: int = 16,
) -> Opening:
    """As :func:`open`, for asyncio: ``async with runledger.open_async(url) as ledger``, or ``await`` it.

    :param max_threads: How many calls are under way at once, and how many claims wait; writers that wait together share one flush.
    """
    options = _options(durability, mode, busy_timeout_ms, max_payload_bytes, journal, allow_shared_file)
    return Opening(url, options, max_threads)


class Opening:
    """A ledger for asyncio that is about to be opened."""

    def __init__(self, url: str, options: dict[str, Any], max_threads: int) -> None:
        if max_threads < 1:
            raise ValueError("max_threads must be at least 1")
        self._url = url
        self._options = options
        self._max_threads = max_threads
        self._ledger: AsyncLedger | None = None

    async def _open(self) -> AsyncLedger:
        handle = await asyncio.to_thread(Handle, self._url, self._options)
        return AsyncLedger(handle, self._max_threads)

    def __await__(self) -> Generator[Any, None, AsyncLedger]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncLedger:
        self._ledger = await self._open()
        return self._ledger

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._ledger is not None:
            await self._ledger.close()


def url_of(backend: Literal["sqlite", "redb"], path: str | os.PathLike[str]) -> str:
    """The address of a store at any path, with the characters escaped that mean something in an address."""
    escaped = os.fspath(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return f"{backend}:{escaped}"


def _options(
    durability: str | None,
    mode: str | None,
    busy_timeout_ms: int | None,
    max_payload_bytes: int | None,
    journal: str | None,
    allow_shared_file: bool,
) -> dict[str, Any]:
    options = {
        "durability": durability,
        "mode": mode,
        "busy_timeout_ms": busy_timeout_ms,
        "max_payload_bytes": max_payload_bytes,
        "journal": journal,
        "allow_shared_file": allow_shared_file or None,
    }
    return {name: value for name, value in options.items() if value is not None}
