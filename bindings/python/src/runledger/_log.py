"""What the library tells operators, in Python's logging."""

from __future__ import annotations

import logging
import threading
from typing import Any

from ._abi import take_error
from ._native import ffi, lib

TRACE = 5
"""The level of what the library says of every commit, below DEBUG."""

_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG, 5: TRACE}

_lock = threading.Lock()
_callback: Any = ffi.NULL


def log_to(logger: logging.Logger | None, level: int = logging.WARNING) -> None:
    """Has what the library tells operators logged by a logger, at most down to a level; None ends that.

    There is one log for the whole process. Records are made on the thread of the call that they are about, which waits for
    the handlers: these must not use a ledger.
    """
    global _callback
    callback, deepest = ffi.NULL, 0
    if logger is not None:
        deepest = max((number for number, of in _LEVELS.items() if of >= level), default=1)
        callback = ffi.callback("runledger_log_fn", _to(logger))
    with _lock:
        err = ffi.new("runledger_error **")
        if lib.runledger_set_log(callback, ffi.NULL, deepest, err):
            raise take_error(err)
        # The former one is not called any more, so it can go now.
        _callback = callback


def _to(logger: logging.Logger) -> Any:
    def log(_: Any, level: int, message: Any, size: int) -> None:
        logger.log(_LEVELS.get(level, logging.INFO), "%s", str(ffi.buffer(message, size), "utf-8"))

    return log
