"""Keeps this process from dropping the locks of its own SQLite stores.

POSIX gives a file's locks to the process, and takes them all away when the process closes the file anywhere: after one
``open(path).close()`` another process could write at the same time as the ledger. So ``sqlite3.connect`` and ``open`` are
refused for the files of the ledgers that are open here. What other modules open in C is not seen, nor is SQLite's ATTACH.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from urllib.parse import unquote

from ._errors import InvalidInput

_SHARED_MEMORY = "-shm"
_EVENTS = frozenset({"open", "sqlite3.connect"})

_Key = tuple[int, int]

_watched: Counter[_Key] = Counter()
# A collection may free a store, and end its watch, in the midst of a change.
_lock = threading.RLock()
_is_installed = False


def _key(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> _Key | None:
    """What a path names, whatever its spelling and links."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


class Watch:
    """The files of one store, from before it is opened until it is closed."""

    __slots__ = ("_path", "_keys")

    def __init__(self, path: str) -> None:
        global _is_installed
        self._path = path
        self._keys: set[_Key] = set()
        with _lock:
            if not _is_installed:
                # A hook stays for ever; it looks away while nothing is watched.
                sys.addaudithook(_on_event)
                os.register_at_fork(after_in_child=_forget)
                _is_installed = True
        self.look()

    def look(self) -> None:
        """Takes in the files that are there now: opening a store may create them."""
        with _lock:
            for path in (self._path, self._path + _SHARED_MEMORY):
                key = _key(path)
                if key is not None and key not in self._keys:
                    self._keys.add(key)
                    _watched[key] += 1

    def end(self) -> None:
        """Says that the store has been closed. A second end does nothing."""
        with _lock:
            for key in self._keys:
                _watched[key] -= 1
                if _watched[key] <= 0:
                    del _watched[key]
            self._keys = set()


def _forget() -> None:
    """In the child of a fork there are no locks: they are the parent's."""
    global _lock
    _lock = threading.RLock()
    _watched.clear()


def _on_event(event: str, args: tuple[object, ...]) -> None:
    if event in _EVENTS and _watched:
        path = args[0]
        if isinstance(path, (str, bytes, os.PathLike)):
            _refuse_watched(event, os.fsdecode(path))


def _refuse_watched(event: str, path: str) -> None:
    names = [path]
    if event == "sqlite3.connect" and path.startswith("file:"):
        # An address of SQLite, if the caller has asked for those; the path ends where its query begins.
        name = unquote(path[5:].partition("?")[0].partition("#")[0])
        names.append("/" + name[2:].partition("/")[2] if name.startswith("//") else name)
    if path.endswith(_SHARED_MEMORY):
        # It may have come after the store was opened; then it is known by the file beside it.
        names.append(path.removesuffix(_SHARED_MEMORY))
    if any(_key(name) in _watched for name in names):
        raise InvalidInput(
            f"path: {path} belongs to a ledger that is open in this process, which would lose its locks when this is closed. "
            "Use backup() or export_to() of the ledger, or look at the file in another process; "
            "allow_shared_file=True of runledger.open() turns this guard off",
            {"field": "path", "path": path},
        )
