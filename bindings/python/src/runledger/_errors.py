"""The exceptions: one class for each code of the contract."""

from __future__ import annotations

import json
from typing import Any, ClassVar


class RunledgerError(Exception):
    """What every exception of this package derives from."""

    code: ClassVar[str] = ""
    """The stable code, such as ``stale_token``."""

    message: str
    """What happened, for people. It holds no payload, no SQL and no token."""
    details: dict[str, Any]
    """The same facts as data, under the names of the JSON form: ``entity``, ``projectId``, ``id``, ``field``, ``status`` …"""
    retryable: bool
    """Whether the same call may succeed when it is made again."""

    def __init__(self, message: str, details: dict[str, Any] | None = None, retryable: bool = False) -> None:
        super().__init__(message, details, retryable)
        self.message = message
        self.details = {} if details is None else details
        self.retryable = retryable

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> str:
        """The error object of the JSON form."""
        error = {"code": self.code, "message": self.message, "retryable": self.retryable, "details": self.details}
        return json.dumps(error, ensure_ascii=False, separators=(",", ":"))


class InvalidInput(RunledgerError, ValueError):
    """The request itself is wrong; ``details["field"]`` names where."""

    code = "invalid_input"

    @classmethod
    def of(cls, field: str, what: str) -> InvalidInput:
        """What is wrong with one field."""
        return cls(f"{field}: {what}", {"field": field})


class NotFound(RunledgerError, LookupError):
    """A record that the command needs is not there."""

    code = "not_found"


class AlreadyExists(RunledgerError):
    """The id is taken."""

    code = "already_exists"


class InvalidTransition(RunledgerError):
    """A record's status does not allow it; ``details["status"]`` has it."""

    code = "invalid_transition"


class StaleToken(RunledgerError):
    """The caller does not own the execution (any more): stop work."""

    code = "stale_token"


class WorkflowMismatch(RunledgerError):
    """The run belongs to another workflow."""

    code = "workflow_mismatch"


class NotAgentNode(RunledgerError):
    """The node run is not of type ``agent``."""

    code = "not_agent_node"


class LeaseActive(RunledgerError):
    """A guarded reclaim came before the lease ended."""

    code = "lease_active"


class Conflict(RunledgerError):
    """An import found another record under the same key."""

    code = "conflict"


class Busy(RunledgerError):
    """The store's lock was not had within the busy timeout."""

    code = "busy"


class Locked(RunledgerError):
    """Another process or handle holds the store open."""

    code = "locked"


class ReadOnly(RunledgerError):
    """The store, file or directory can't be written."""

    code = "read_only"


class Full(RunledgerError):
    """The disk is full; nothing of the command was kept."""

    code = "full"


class Io(RunledgerError):
    """The system refused an open, read, write or flush."""

    code = "io"


class Corrupt(RunledgerError):
    """The content of the file or stream is damaged."""

    code = "corrupt"


class SchemaTooNew(RunledgerError):
    """Written by a newer version; left untouched."""

    code = "schema_too_new"


class NotALedger(RunledgerError):
    """The file is of another program; left untouched."""

    code = "not_a_ledger"


class Unsupported(RunledgerError, NotImplementedError):
    """This build or backend lacks it."""

    code = "unsupported"


class Closed(RunledgerError):
    """The handle was closed, or was carried over a fork."""

    code = "closed"


class Unavailable(RunledgerError):
    """The database server can't be reached or dropped the connection."""

    code = "unavailable"


class Internal(RunledgerError):
    """A defect in the library; other calls still work."""

    code = "internal"


class TooLarge(RunledgerError, ValueError):
    """A payload, text or request is over the limit."""

    code = "too_large"


class Interrupted(RunledgerError):
    """The caller stopped it; nothing was kept."""

    code = "interrupted"


ERRORS: dict[str, type[RunledgerError]] = {error.code: error for error in RunledgerError.__subclasses__()}
"""The class of each code."""
