"""What operations answer beside records, and how answers are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from ._records import AgentRun, NodeRun, Run, read_agent, read_node, read_run
from ._words import Status

T = TypeVar("T")

Read = Callable[[Any, bytes], T]
"""Reads an answer from its outline and its text. In the outline, a payload is its place in the text."""


@dataclass(frozen=True, slots=True)
class Expired(Generic[T]):
    """Expired leases."""

    rows: tuple[T, ...]
    """The rows, in order."""
    has_more: bool
    """Whether there are more than the limit."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records of each kind."""

    runs: int
    nodes: int
    agents: int


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed."""

    runs: int
    nodes: int
    agents: int
    has_more: bool
    """Whether more runs match than the limit."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    runs: int
    nodes: int
    agents: int
    skipped: int
    """Records that were there already and equal."""


@dataclass(frozen=True, slots=True)
class WorkflowStats:
    """How many runs of a workflow there are."""

    workflow_id: str
    total: int
    by_status: Mapping[Status, int]
    """A count for every status."""


@dataclass(frozen=True, slots=True)
class RunStats:
    """How many runs there are, by status and by workflow."""

    total: int
    by_status: Mapping[Status, int]
    """A count for every status."""
    by_workflow: tuple[WorkflowStats, ...]
    """The workflows that have runs, in byte order."""


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    """A project that has runs."""

    project_id: str
    runs: int
    """How many runs it has."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine of a store."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store is and how it was opened."""

    backend: str
    """``memory``, ``sqlite``, ``redb``, …"""
    address: str
    """Where the store is, without a password."""
    schema_version: int
    """The version of the store's layout."""
    library_version: str
    engine: Engine
    durability: str
    """``full`` or ``relaxed``, as it is in effect."""
    mode: str
    """``create``, ``existing`` or ``read_only``, as it was opened."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a store that is not as it must be."""

    kind: str
    """``index``, ``counter``, ``checksum``, ``reference``, ``record`` or ``engine``."""
    message: str
    """What was found, and what was expected."""
    entity: str | None
    """What kind of record it concerns."""
    project_id: str | None
    id: str | None


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found."""

    ok: bool
    checked: Counts
    """How many records were read."""
    problems: tuple[Problem, ...]
    engine_check: Literal["done", "skipped"]
    """Whether the engine's own check was made too; it needs the store alone."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction gained."""

    bytes_before: int
    bytes_after: int


def _maybe(read: Read[T]) -> Read[T | None]:
    return lambda o, text: None if o is None else read(o, text)


read_maybe_run: Read[Run | None] = _maybe(read_run)
read_maybe_node: Read[NodeRun | None] = _maybe(read_node)
read_maybe_agent: Read[AgentRun | None] = _maybe(read_agent)


def read_rows(rows: Any, text: bytes, read: Read[T]) -> tuple[T, ...]:
    """The rows of a list."""
    return tuple([read(row, text) for row in rows])


def read_runs(o: Any, text: bytes) -> tuple[Run, ...]:
    return read_rows(o["runs"], text, read_run)


def read_expired_runs(o: Any, text: bytes) -> Expired[Run]:
    return Expired(read_rows(o["runs"], text, read_run), o["hasMore"])


def read_expired_agents(o: Any, text: bytes) -> Expired[AgentRun]:
    return Expired(read_rows(o["agents"], text, read_agent), o["hasMore"])


def read_counts(o: Any, text: bytes) -> Counts:
    return Counts(o["runs"], o["nodes"], o["agents"])


def read_purged(o: Any, text: bytes) -> Purged:
    return Purged(o["runs"], o["nodes"], o["agents"], o["hasMore"])


def read_imported(o: Any, text: bytes) -> Imported:
    return Imported(o["runs"], o["nodes"], o["agents"], o["skipped"])


def read_stats(o: Any, text: bytes) -> RunStats:
    workflows = [WorkflowStats(w["workflowId"], w["total"], w["byStatus"]) for w in o["byWorkflow"]]
    return RunStats(o["total"], o["byStatus"], tuple(workflows))


def read_project(o: Any, text: bytes) -> ProjectSummary:
    return ProjectSummary(o["projectId"], o["runs"])


def read_info(o: Any, text: bytes) -> StoreInfo:
    engine = Engine(o["engine"]["name"], o["engine"]["version"])
    return StoreInfo(
        backend=o["backend"],
        address=o["address"],
        schema_version=o["schemaVersion"],
        library_version=o["libraryVersion"],
        engine=engine,
        durability=o["durability"],
        mode=o["mode"],
        size_bytes=o["sizeBytes"],
    )


def read_verified(o: Any, text: bytes) -> VerifyReport:
    problems = [Problem(p["kind"], p["message"], p.get("entity"), p.get("projectId"), p.get("id")) for p in o["problems"]]
    return VerifyReport(o["ok"], read_counts(o["checked"], text), tuple(problems), o["engineCheck"])


def read_compacted(o: Any, text: bytes) -> CompactReport:
    return CompactReport(o["bytesBefore"], o["bytesAfter"])
