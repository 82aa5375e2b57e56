"""A store of the C ABI: opened, called from any thread, closed, and freed with its last reference."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote

from . import _abi, _guard
from ._answers import Read
from ._errors import InvalidInput

T = TypeVar("T")


class Handle:
    """A store of the C ABI. Every call releases the interpreter's lock while the library works."""

    __slots__ = ("_store", "_address", "_pid", "_is_closed", "_watch", "__weakref__")

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        # First of all, so that what is left of a failed opening can be collected.
        self._store: Any = None
        self._is_closed = True
        self._pid = os.getpid()
        if not isinstance(url, str):
            raise InvalidInput.of("url", f"a str was expected, not {type(url).__name__}: url_of() makes an address of a path")
        address, _, query = url.partition("?")
        self._address = re.sub(r"//[^/@]*@", "//", address)
        self._watch: _guard.Watch | None = None
        is_shared = options.get("allow_shared_file") or "allow_shared_file=true" in query.split("&")
        if address.startswith("sqlite:") and not is_shared:
            self._watch = _guard.Watch(unquote(address.removeprefix("sqlite:")))
        try:
            self._store = _abi.open_store(url, options)
            self._is_closed = False
        finally:
            if self._watch is not None and self._store is None:
                self._watch.end()
        if self._watch is not None:
            self._watch.look()

    @property
    def pointer(self) -> Any:
        """The store, for the functions of the C ABI."""
        return self._store

    @property
    def address(self) -> str:
        """Where the store is, without options and password."""
        return self._address

    @property
    def is_closed(self) -> bool:
        """Whether it was closed here."""
        return self._is_closed

    def send(self, request: bytes, read: Read[T]) -> T:
        """Carries out a request and reads its answer."""
        return _abi.call(self._store, request, read)

    def claim(self, request: bytes, timeout_ms: int, read: Read[T]) -> T:
        """Carries out a claim, which waits in the library so long, and reads its answer."""
        return _abi.claim_wait(self._store, request, timeout_ms, read)

    def close(self) -> None:
        """Waits for the calls that are under way and closes the store. A second close does nothing."""
        # The guard goes last: the locks must stand until the store has let go of its file.
        try:
            _abi.close_store(self._store)
        finally:
            self._is_closed = True
            if self._watch is not None:
                self._watch.end()

    # What is needed when the interpreter ends is held by the method, since modules are emptied then.
    def __del__(
        self,
        getpid: Callable[[], int] = os.getpid,
        warn: Callable[..., None] = warnings.warn,
        free: Callable[[Any], None] = _abi.free_store,
    ) -> None:
        if self._store is None:
            return
        # A child of a fork has the handles of its parent, which are the parent's to close.
        is_lost = not self._is_closed and self._pid == getpid()
        free(self._store)
        self._store = None
        if self._watch is not None:
            self._watch.end()
        if is_lost:
            warn(f"the ledger at {self._address} was never closed", ResourceWarning, stacklevel=2, source=self)
