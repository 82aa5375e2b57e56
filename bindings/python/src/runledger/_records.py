"""What is stored: runs, node runs and agent runs. Written by tools/generate.py; edit that or the Rust sources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._owners import Execution, Principal, read_execution, read_principal
from ._payload import Payload, read_payload
from ._time import read_time
from ._words import Status

__all__ = ["AgentRun", "Execution", "NodeRun", "Principal", "Run", "read_agent", "read_node", "read_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a workflow."""

    project_id: str
    """The project that the run belongs to; with ``id``, the key."""
    id: str
    """The run's id within its project."""
    workflow_id: str
    """The workflow of which this is an execution."""
    status: Status
    """Where the run stands."""
    input: Payload | None
    """What the workflow was given; absent only in a ``state`` answer."""
    queued_at: datetime | None
    """When it was queued, if it went through the queue."""
    started_at: datetime
    """When it started; equals ``queued_at`` until then."""
    waiting_since: datetime | None
    """Since when it waits, only while it does."""
    finished_at: datetime | None
    """When it ended, only once it has."""
    output: Payload | None
    """What it came to, only if it succeeded and gave something; absent in a ``state`` answer."""
    error: str | None
    """Why it failed or was cancelled, if that was given."""
    source: Payload | None
    """What triggered it, if that was given; absent in a ``state`` answer."""
    requested_by_principal: Principal
    """Who asked for it."""
    attempt: int
    """How often it was started, claimed, reclaimed or resumed; 0 while it was never begun."""
    execution: Execution | None
    """Who owns it now, and until when."""


def read_run(o: Any, text: bytes) -> Run:
    """A record from the outline of an answer and the answer itself."""
    return Run(
        project_id=o["projectId"],
        id=o["id"],
        workflow_id=o["workflowId"],
        status=o["status"],
        input=read_payload(o["input"], text) if "input" in o else None,
        queued_at=read_time(o["queuedAt"]) if "queuedAt" in o else None,
        started_at=read_time(o["startedAt"]),
        waiting_since=read_time(o["waitingSince"]) if "waitingSince" in o else None,
        finished_at=read_time(o["finishedAt"]) if "finishedAt" in o else None,
        output=read_payload(o["output"], text) if "output" in o else None,
        error=o.get("error"),
        source=read_payload(o["source"], text) if "source" in o else None,
        requested_by_principal=read_principal(o["requestedByPrincipal"]),
        attempt=o["attempt"],
        execution=read_execution(o["execution"]) if "execution" in o else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One step of a run. It has no token of its own: the run's owner owns its nodes."""

    project_id: str
    """The project that the node run belongs to; with ``id``, the key."""
    id: str
    """The node run's id within its project."""
    workflow_run_id: str
    """The run of which this is a step."""
    workflow_id: str
    """The workflow of that run."""
    node_index: int
    """The step's place in its workflow."""
    node_type: str
    """What kind of step; ``agent`` is the one with a meaning here."""
    node_id: str
    """The step's id in its workflow."""
    node_key: str
    """The step's key in its workflow."""
    status: Status
    """Where the step stands."""
    input: Payload | None
    """What the step was given; absent only in a ``state`` answer."""
    started_at: datetime
    """When it started."""
    waiting_since: datetime | None
    """Since when it waits, only while it does."""
    finished_at: datetime | None
    """When it ended, only once it has."""
    output: Payload | None
    """What it came to, only if it succeeded and gave something; absent in a ``state`` answer."""
    error: str | None
    """Why it failed or was cancelled, if that was given."""


def read_node(o: Any, text: bytes) -> NodeRun:
    """A record from the outline of an answer and the answer itself."""
    return NodeRun(
        project_id=o["projectId"],
        id=o["id"],
        workflow_run_id=o["workflowRunId"],
        workflow_id=o["workflowId"],
        node_index=o["nodeIndex"],
        node_type=o["nodeType"],
        node_id=o["nodeId"],
        node_key=o["nodeKey"],
        status=o["status"],
        input=read_payload(o["input"], text) if "input" in o else None,
        started_at=read_time(o["startedAt"]),
        waiting_since=read_time(o["waitingSince"]) if "waitingSince" in o else None,
        finished_at=read_time(o["finishedAt"]) if "finishedAt" in o else None,
        output=read_payload(o["output"], text) if "output" in o else None,
        error=o.get("error"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """The agent execution behind a node run of type ``agent``; a node run has at most one."""

    project_id: str
    """The project that the agent run belongs to; with ``node_run_id``, the key."""
    node_run_id: str
    """The node run that it executes."""
    agent_id: str
    """The agent that does it."""
    status: Status
    """Where the agent run stands."""
    prompt: str | None
    """What the agent was asked; absent only in a ``state`` answer."""
    execution_principal: Principal | None
    """On whose behalf it runs."""
    model_id: str | None
    """The model it uses."""
    finish_reason: str | None
    """Why the model stopped."""
    usage: Payload | None
    """What it used up; absent in a ``state`` answer."""
    trace: Payload | None
    """What it did; absent in a ``state`` answer."""
    diagnostics: Payload | None
    """What it noted about itself; absent in a ``state`` answer."""
    error: str | None
    """Why it failed or was cancelled, if that was given."""
    attempt: int
    """How often it was started, claimed or reclaimed; 0 while it was never begun."""
    execution: Execution | None
    """Who owns it now, and until when."""
    created_at: datetime
    """When it was created."""
    started_at: datetime | None
    """When it was started, if it was."""
    completed_at: datetime | None
    """When it ended, only once it has."""


def read_agent(o: Any, text: bytes) -> AgentRun:
    """A record from the outline of an answer and the answer itself."""
    return AgentRun(
        project_id=o["projectId"],
        node_run_id=o["nodeRunId"],
        agent_id=o["agentId"],
        status=o["status"],
        prompt=o.get("prompt"),
        execution_principal=read_principal(o["executionPrincipal"]) if "executionPrincipal" in o else None,
        model_id=o.get("modelId"),
        finish_reason=o.get("finishReason"),
        usage=read_payload(o["usage"], text) if "usage" in o else None,
        trace=read_payload(o["trace"], text) if "trace" in o else None,
        diagnostics=read_payload(o["diagnostics"], text) if "diagnostics" in o else None,
        error=o.get("error"),
        attempt=o["attempt"],
        execution=read_execution(o["execution"]) if "execution" in o else None,
        created_at=read_time(o["createdAt"]),
        started_at=read_time(o["startedAt"]) if "startedAt" in o else None,
        completed_at=read_time(o["completedAt"]) if "completedAt" in o else None,
    )
