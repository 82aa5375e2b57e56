"""The default of a payload that may be left out: None is the value null."""

from __future__ import annotations

import enum
from typing import Final


class Absent(enum.Enum):
    """The type of :data:`ABSENT`."""

    ABSENT = "ABSENT"

    def __repr__(self) -> str:
        return "runledger.ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent.ABSENT
"""No payload at all, where None would be the JSON value null."""
