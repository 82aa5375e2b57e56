"""Waiting in slices: between two of them Python handles signals, and tasks are cancelled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from time import monotonic

from ._errors import InvalidInput

_SLICE_MS = 200
"""How long Ctrl-C and cancelled tasks may have to wait. Each slice looks first, so nothing is missed between two."""

_FOREVER = 1e10
"""No wait is longer, in seconds."""


def slices(wait: float | timedelta) -> Iterator[int]:
    """How many milliseconds to wait at a time until the whole wait is over; one slice at least, be it of none.

    The wait is judged at once, and begins with the first slice.

    :raises InvalidInput: for what is no time to wait: a negative one, NaN, no number.
    """
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise InvalidInput.of("wait", f"seconds or a timedelta were expected, not {type(wait).__name__}")
    if not seconds >= 0:
        raise InvalidInput.of("wait", "can't be negative or NaN")
    return _slices(seconds)


def _slices(seconds: float) -> Iterator[int]:
    end = monotonic() + min(seconds, _FOREVER)
    left_ms = _SLICE_MS + 1
    while left_ms > _SLICE_MS:
        left_ms = max(0, math.ceil((end - monotonic()) * 1000))
        yield min(left_ms, _SLICE_MS)
