"""Who asks for something, and who owns it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._time import read_time


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asked for something."""

    type: str
    """What kind of principal: ``user``, ``system``, …"""
    id: str
    """Its id among its kind."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Who owns a run or agent run, and until when.

    The token alone decides who owns it; the lease's end is data, judged only where a command is given a time to judge it
    by. Tokens must be unique per claim: the store can't tell two workers with one token apart.
    """

    token: str
    """The owner's token."""
    lease_expires_at: datetime
    """When the owner's lease ends, unless it is confirmed before; ``queueLeaseExpiresAt`` in the JSON form."""


def read_principal(o: Any) -> Principal:
    """A principal of an answer."""
    return Principal(o["type"], o["id"])


def read_execution(o: Any) -> Execution:
    """An execution of an answer."""
    return Execution(o["token"], read_time(o["queueLeaseExpiresAt"]))
