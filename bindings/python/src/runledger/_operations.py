"""Every operation of a ledger. Written by tools/generate.py; edit that or the Rust sources."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from ._absent import ABSENT
from ._answers import (
    CompactReport,
    Counts,
    Expired,
    ProjectSummary,
    Purged,
    RunStats,
    StoreInfo,
    VerifyReport,
    read_maybe_run,
    read_maybe_node,
    read_maybe_agent,
    read_runs,
    read_expired_runs,
    read_expired_agents,
    read_counts,
    read_purged,
    read_stats,
    read_info,
    read_verified,
    read_compacted,
    read_project,
)
from ._carrier import LedgerCarrier, Page
from ._payload import PayloadLike
from ._records import AgentRun, Execution, NodeRun, Principal, Run, read_agent, read_node, read_run
from ._request import Request
from ._words import AnswerForm, EndStatus, Order, Status


class LedgerRuns:
    """What can be done with runs."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: LedgerCarrier) -> None:
        self._carrier = carrier

    def queue(
        self,
        project_id: str,
        id: str,
        *,
        workflow_id: str,
        input: PayloadLike,
        queued_at: datetime | None = None,
        source: PayloadLike = ABSENT,
        requested_by_principal: Principal | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Queues a new run.

        :param project_id: The project.
        :param id: The new run's id.
        :param workflow_id: The workflow.
        :param input: What the workflow is given.
        :param queued_at: When it is queued; the clock's time when not given.
        :param source: What triggered it.
        :param requested_by_principal: Who asked for it; ``system``, ``system`` when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.queue")
        request.text("projectId", project_id)
        request.text("id", id)
        request.text("workflowId", workflow_id)
        request.payload("input", input)
        if queued_at is not None:
            request.time("queuedAt", queued_at)
        if source is not ABSENT:
            request.payload("source", source)
        if requested_by_principal is not None:
            request.principal("requestedByPrincipal", requested_by_principal)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def start(
        self,
        project_id: str,
        id: str,
        *,
        workflow_id: str,
        input: PayloadLike,
        started_at: datetime | None = None,
        source: PayloadLike = ABSENT,
        requested_by_principal: Principal | None = None,
        execution: Execution | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Starts a new run, or one that is queued.

        :param project_id: The project.
        :param id: The run's id.
        :param workflow_id: The workflow; a queued run must be of it.
        :param input: What the workflow is given; it replaces a queued run's.
        :param started_at: When it starts; the clock's time when not given.
        :param source: What triggered it; a queued run that has one keeps its own.
        :param requested_by_principal: Who asked for it; a queued run keeps its own.
        :param execution: Who owns it from now on; without one, calls without a token own it.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.start")
        request.text("projectId", project_id)
        request.text("id", id)
        request.text("workflowId", workflow_id)
        request.payload("input", input)
        if started_at is not None:
            request.time("startedAt", started_at)
        if source is not ABSENT:
            request.payload("source", source)
        if requested_by_principal is not None:
            request.principal("requestedByPrincipal", requested_by_principal)
        if execution is not None:
            request.execution("execution", execution)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def claim(
        self,
        project_id: str,
        *,
        execution: Execution,
        workflow_ids: Iterable[str] | None = None,
        started_at: datetime | None = None,
        answer: AnswerForm | None = None,
        wait: float | timedelta | None = None,
    ) -> Run | None:
        """Takes the queued run with the smallest (queuedAt, id), if there is one. Two claimers never get the same run.

        :param project_id: The project.
        :param execution: Who owns the run from now on.
        :param workflow_ids: Only runs of these workflows.
        :param started_at: When it starts; the clock's time when not given.
        :param answer: How much of the record to answer.
        :param wait: How long to wait for one to be queued: seconds or a timedelta. The end of the lease stays as it is given.
        """
        request = Request("runs.claim")
        request.text("projectId", project_id)
        request.execution("execution", execution)
        if workflow_ids is not None:
            request.texts("workflowIds", workflow_ids)
        if started_at is not None:
            request.time("startedAt", started_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.claim(request, read_maybe_run, wait)

    def reclaim(
        self,
        project_id: str,
        id: str,
        *,
        execution: Execution,
        lease_expired_by: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Takes a running run over from its owner.

        :param project_id: The project.
        :param id: The run's id.
        :param execution: Who owns it from now on.
        :param lease_expired_by: Refuse unless the current lease ends at or before this time.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.reclaim")
        request.text("projectId", project_id)
        request.text("id", id)
        request.execution("execution", execution)
        if lease_expired_by is not None:
            request.time("leaseExpiredBy", lease_expired_by)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def confirm(
        self,
        project_id: str,
        id: str,
        *,
        execution_token: str,
        lease_expires_at: datetime,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Says that the owner is alive: the lease ends at the later of its current end and the given one.

        :param project_id: The project.
        :param id: The run's id.
        :param execution_token: The owner's token.
        :param lease_expires_at: The new end of the lease.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.confirm")
        request.text("projectId", project_id)
        request.text("id", id)
        request.text("executionToken", execution_token)
        request.time("queueLeaseExpiresAt", lease_expires_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def wait(
        self,
        project_id: str,
        id: str,
        *,
        execution_token: str | None = None,
        waiting_at: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Suspends a running run; nobody owns it then.

        :param project_id: The project.
        :param id: The run's id.
        :param execution_token: The owner's token, if the run has an execution.
        :param waiting_at: Since when it waits; the clock's time when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.wait")
        request.text("projectId", project_id)
        request.text("id", id)
        if execution_token is not None:
            request.text("executionToken", execution_token)
        if waiting_at is not None:
            request.time("waitingAt", waiting_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def resume(
        self,
        project_id: str,
        id: str,
        *,
        execution: Execution | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Sets a waiting run to work again.

        :param project_id: The project.
        :param id: The run's id.
        :param execution: Who owns it from now on; without one, calls without a token own it.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.resume")
        request.text("projectId", project_id)
        request.text("id", id)
        if execution is not None:
            request.execution("execution", execution)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def finish(
        self,
        project_id: str,
        id: str,
        *,
        status: EndStatus,
        finished_at: datetime | None = None,
        output: PayloadLike = ABSENT,
        error: str | None = None,
        execution_token: str | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Ends a run. What is under it stays as it is; ``cancel`` cancels that too.

        :param project_id: The project.
        :param id: The run's id.
        :param status: How it ends; only a running run can succeed.
        :param finished_at: When it ended; the clock's time when not given.
        :param output: What it came to; kept only if it succeeded.
        :param error: Why it failed or was cancelled; kept only if it did not succeed.
        :param execution_token: The owner's token, if the run has an execution.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.finish")
        request.text("projectId", project_id)
        request.text("id", id)
        request.text("status", status)
        if finished_at is not None:
            request.time("finishedAt", finished_at)
        if output is not ABSENT:
            request.payload("output", output)
        if error is not None:
            request.text("error", error)
        if execution_token is not None:
            request.text("executionToken", execution_token)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def cancel(
        self,
        project_id: str,
        id: str,
        *,
        error: str | None = None,
        finished_at: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> Run:
        """Cancels a run and, in the same step, every active node run and agent run under it. No token is asked.

        :param project_id: The project.
        :param id: The run's id.
        :param error: Why.
        :param finished_at: When; the clock's time when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.cancel")
        request.text("projectId", project_id)
        request.text("id", id)
        if error is not None:
            request.text("error", error)
        if finished_at is not None:
            request.time("finishedAt", finished_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_run)

    def delete(
        self,
        project_id: str,
        id: str,
    ) -> Counts:
        """Deletes an ended run with its node runs and their agent runs.

        :param project_id: The project.
        :param id: The run's id.
        """
        request = Request("runs.delete")
        request.text("projectId", project_id)
        request.text("id", id)
        return self._carrier.send(request, read_counts)

    def purge(
        self,
        project_id: str,
        *,
        finished_before: datetime,
        statuses: Iterable[EndStatus] | None = None,
        workflow_ids: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> Purged:
        """Deletes ended runs by (finishedAt, id), with what is under them.

        :param project_id: The project.
        :param finished_before: Only runs that ended strictly before this time.
        :param statuses: Only runs that ended so.
        :param workflow_ids: Only runs of these workflows.
        :param limit: The most runs to delete in this step: 1 to 10,000, and 1,000 when not given.
        """
        request = Request("runs.purge")
        request.text("projectId", project_id)
        request.time("finishedBefore", finished_before)
        if statuses is not None:
            request.texts("statuses", statuses)
        if workflow_ids is not None:
            request.texts("workflowIds", workflow_ids)
        if limit is not None:
            request.integer("limit", limit)
        return self._carrier.send(request, read_purged)

    def get(
        self,
        project_id: str,
        id: str,
        *,
        answer: AnswerForm | None = None,
    ) -> Run | None:
        """Reads a run.

        :param project_id: The project.
        :param id: The run's id.
        :param answer: How much of the record to answer.
        """
        request = Request("runs.get")
        request.text("projectId", project_id)
        request.text("id", id)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_maybe_run)

    def latest(
        self,
        project_id: str,
        *,
        workflow_ids: Iterable[str],
        answer: AnswerForm | None = None,
    ) -> tuple[Run, ...]:
        """The run with the greatest (startedAt, id) of each workflow, in the order first asked.

        :param project_id: The project.
        :param workflow_ids: The workflows; repeats count once.
        :param answer: How much of the records to answer.
        """
        request = Request("runs.latest")
        request.text("projectId", project_id)
        request.texts("workflowIds", workflow_ids)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_runs)

    def expired(
        self,
        *,
        expired_by: datetime,
        project_id: str | None = None,
        limit: int | None = None,
        answer: AnswerForm | None = None,
    ) -> Expired[Run]:
        """Running runs whose lease ended, by (lease end, projectId, id).

        :param expired_by: Leases that end at or before this time.
        :param project_id: Only runs of this project; of all when not given.
        :param limit: The most rows: 1 to 10,000, and 1,000 when not given.
        :param answer: How much of the records to answer.
        """
        request = Request("runs.expired")
        request.time("expiredBy", expired_by)
        if project_id is not None:
            request.text("projectId", project_id)
        if limit is not None:
            request.integer("limit", limit)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_expired_runs)

    def stats(
        self,
        project_id: str,
        *,
        workflow_ids: Iterable[str] | None = None,
    ) -> RunStats:
        """How many runs there are, by status and by workflow.

        :param project_id: The project.
        :param workflow_ids: Only runs of these workflows.
        """
        request = Request("runs.stats")
        request.text("projectId", project_id)
        if workflow_ids is not None:
            request.texts("workflowIds", workflow_ids)
        return self._carrier.send(request, read_stats)

    def list(
        self,
        project_id: str,
        *,
        workflow_id: str | None = None,
        workflow_ids: Iterable[str] | None = None,
        statuses: Iterable[Status] | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
        answer: AnswerForm | None = None,
        order: Order | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        with_total: bool | None = None,
    ) -> Page[Run]:
        """Lists runs by (startedAt, id), the newest first unless the caller says.

        :param project_id: The project.
        :param workflow_id: Only runs of this workflow.
        :param workflow_ids: Only runs of these workflows.
        :param statuses: Only runs in these statuses.
        :param started_after: Only runs started at or after this time.
        :param started_before: Only runs started at or before this time.
        :param answer: How much of the records to answer.
        :param order: The direction.
        :param limit: The most rows: 0 to 10,000, and 50 when not given.
        :param offset: How many matching rows to pass over; not together with a cursor.
        :param cursor: Where an earlier page ended: its ``next_cursor``.
        :param with_total: Whether to count all matches; it does when not given.
        """
        request = Request("runs.list")
        request.text("projectId", project_id)
        if workflow_id is not None:
            request.text("workflowId", workflow_id)
        if workflow_ids is not None:
            request.texts("workflowIds", workflow_ids)
        if statuses is not None:
            request.texts("statuses", statuses)
        if started_after is not None:
            request.time("startedAfter", started_after)
        if started_before is not None:
            request.time("startedBefore", started_before)
        if answer is not None:
            request.text("answer", answer)
        if order is not None:
            request.text("order", order)
        if limit is not None:
            request.integer("limit", limit)
        if offset is not None:
            request.integer("offset", offset)
        if cursor is not None:
            request.text("cursor", cursor)
        if with_total is not None:
            request.boolean("withTotal", with_total)
        return self._carrier.page(request, "runs", read_run)

    def confirm_lease(
        self,
        project_id: str,
        id: str,
        *,
        execution_token: str,
        lease_expires_at: datetime,
    ) -> datetime:
        """As ``confirm``, answering only the lease's end as it now is: the cheapest heartbeat, made without JSON.

        :param project_id: The project.
        :param id: The run's id.
        :param execution_token: The owner's token.
        :param lease_expires_at: The new end of the lease.
        """
        return self._carrier.confirm("run", project_id, id, execution_token, lease_expires_at)


class LedgerNodes:
    """What can be done with node runs."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: LedgerCarrier) -> None:
        self._carrier = carrier

    def start(
        self,
        project_id: str,
        id: str,
        *,
        workflow_run_id: str,
        workflow_id: str,
        node_index: int,
        node_type: str,
        node_id: str,
        node_key: str,
        input: PayloadLike,
        started_at: datetime | None = None,
        execution_token: str | None = None,
        answer: AnswerForm | None = None,
    ) -> NodeRun:
        """Starts a new node run under a running run.

        :param project_id: The project.
        :param id: The new node run's id.
        :param workflow_run_id: The run of which it is a step.
        :param workflow_id: The run's workflow.
        :param node_index: The step's place in its workflow.
        :param node_type: What kind of step; one of type ``agent`` can have an agent run.
        :param node_id: The step's id in its workflow.
        :param node_key: The step's key in its workflow.
        :param input: What the step is given.
        :param started_at: When it starts; the clock's time when not given.
        :param execution_token: The token of the run's owner, if the run has an execution.
        :param answer: How much of the record to answer.
        """
        request = Request("nodes.start")
        request.text("projectId", project_id)
        request.text("id", id)
        request.text("workflowRunId", workflow_run_id)
        request.text("workflowId", workflow_id)
        request.integer("nodeIndex", node_index)
        request.text("nodeType", node_type)
        request.text("nodeId", node_id)
        request.text("nodeKey", node_key)
        request.payload("input", input)
        if started_at is not None:
            request.time("startedAt", started_at)
        if execution_token is not None:
            request.text("executionToken", execution_token)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_node)

    def wait(
        self,
        project_id: str,
        id: str,
        *,
        execution_token: str | None = None,
        waiting_at: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> NodeRun:
        """Suspends a running node run.

        :param project_id: The project.
        :param id: The node run's id.
        :param execution_token: The token of the run's owner, if the run has an execution.
        :param waiting_at: Since when it waits; the clock's time when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("nodes.wait")
        request.text("projectId", project_id)
        request.text("id", id)
        if execution_token is not None:
            request.text("executionToken", execution_token)
        if waiting_at is not None:
            request.time("waitingAt", waiting_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_node)

    def finish(
        self,
        project_id: str,
        id: str,
        *,
        status: EndStatus,
        finished_at: datetime | None = None,
        output: PayloadLike = ABSENT,
        error: str | None = None,
        execution_token: str | None = None,
        answer: AnswerForm | None = None,
    ) -> NodeRun:
        """Ends a running or waiting node run.

        :param project_id: The project.
        :param id: The node run's id.
        :param status: How it ends.
        :param finished_at: When it ended; the clock's time when not given.
        :param output: What it came to; kept only if it succeeded.
        :param error: Why it failed or was cancelled; kept only if it did not succeed.
        :param execution_token: The token of the run's owner, if the run has an execution.
        :param answer: How much of the record to answer.
        """
        request = Request("nodes.finish")
        request.text("projectId", project_id)
        request.text("id", id)
        request.text("status", status)
        if finished_at is not None:
            request.time("finishedAt", finished_at)
        if output is not ABSENT:
            request.payload("output", output)
        if error is not None:
            request.text("error", error)
        if execution_token is not None:
            request.text("executionToken", execution_token)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_node)

    def get(
        self,
        project_id: str,
        id: str,
        *,
        answer: AnswerForm | None = None,
    ) -> NodeRun | None:
        """Reads a node run.

        :param project_id: The project.
        :param id: The node run's id.
        :param answer: How much of the record to answer.
        """
        request = Request("nodes.get")
        request.text("projectId", project_id)
        request.text("id", id)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_maybe_node)

    def list(
        self,
        project_id: str,
        *,
        workflow_run_id: str | None = None,
        workflow_id: str | None = None,
        node_type: str | None = None,
        node_id: str | None = None,
        node_key: str | None = None,
        statuses: Iterable[Status] | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
        answer: AnswerForm | None = None,
        order: Order | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        with_total: bool | None = None,
    ) -> Page[NodeRun]:
        """Lists node runs by (startedAt, nodeIndex, id), the newest first unless the caller says. The nodes of one run come in order from an index; a list across a whole project reads all its node runs.

        :param project_id: The project.
        :param workflow_run_id: Only steps of this run.
        :param workflow_id: Only steps of runs of this workflow.
        :param node_type: Only steps of this type.
        :param node_id: Only steps with this id in their workflow.
        :param node_key: Only steps with this key in their workflow.
        :param statuses: Only steps in these statuses.
        :param started_after: Only steps started at or after this time.
        :param started_before: Only steps started at or before this time.
        :param answer: How much of the records to answer.
        :param order: The direction.
        :param limit: The most rows: 0 to 10,000, and 50 when not given.
        :param offset: How many matching rows to pass over; not together with a cursor.
        :param cursor: Where an earlier page ended: its ``next_cursor``.
        :param with_total: Whether to count all matches; it does when not given.
        """
        request = Request("nodes.list")
        request.text("projectId", project_id)
        if workflow_run_id is not None:
            request.text("workflowRunId", workflow_run_id)
        if workflow_id is not None:
            request.text("workflowId", workflow_id)
        if node_type is not None:
            request.text("nodeType", node_type)
        if node_id is not None:
            request.text("nodeId", node_id)
        if node_key is not None:
            request.text("nodeKey", node_key)
        if statuses is not None:
            request.texts("statuses", statuses)
        if started_after is not None:
            request.time("startedAfter", started_after)
        if started_before is not None:
            request.time("startedBefore", started_before)
        if answer is not None:
            request.text("answer", answer)
        if order is not None:
            request.text("order", order)
        if limit is not None:
            request.integer("limit", limit)
        if offset is not None:
            request.integer("offset", offset)
        if cursor is not None:
            request.text("cursor", cursor)
        if with_total is not None:
            request.boolean("withTotal", with_total)
        return self._carrier.page(request, "nodes", read_node)


class LedgerAgents:
    """What can be done with agent runs."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: LedgerCarrier) -> None:
        self._carrier = carrier

    def create(
        self,
        project_id: str,
        node_run_id: str,
        *,
        agent_id: str,
        prompt: str,
        created_at: datetime | None = None,
        execution_token: str | None = None,
        answer: AnswerForm | None = None,
    ) -> AgentRun:
        """Creates the agent run of a running node run of type ``agent``.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param agent_id: The agent.
        :param prompt: What the agent is asked.
        :param created_at: When it is created; the clock's time when not given.
        :param execution_token: The token of the run's owner; where it is given it must be the right one.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.create")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        request.text("agentId", agent_id)
        request.text("prompt", prompt)
        if created_at is not None:
            request.time("createdAt", created_at)
        if execution_token is not None:
            request.text("executionToken", execution_token)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_agent)

    def claim(
        self,
        project_id: str,
        *,
        execution: Execution,
        agent_ids: Iterable[str] | None = None,
        execution_principal: Principal | None = None,
        model_id: str | None = None,
        started_at: datetime | None = None,
        answer: AnswerForm | None = None,
        wait: float | timedelta | None = None,
    ) -> AgentRun | None:
        """Takes the queued agent run with the smallest (createdAt, nodeRunId), if there is one.

        :param project_id: The project.
        :param execution: Who owns the agent run from now on.
        :param agent_ids: Only runs of these agents.
        :param execution_principal: On whose behalf it runs.
        :param model_id: The model it uses.
        :param started_at: When it starts; the clock's time when not given.
        :param answer: How much of the record to answer.
        :param wait: How long to wait for one to be queued: seconds or a timedelta. The end of the lease stays as it is given.
        """
        request = Request("agents.claim")
        request.text("projectId", project_id)
        request.execution("execution", execution)
        if agent_ids is not None:
            request.texts("agentIds", agent_ids)
        if execution_principal is not None:
            request.principal("executionPrincipal", execution_principal)
        if model_id is not None:
            request.text("modelId", model_id)
        if started_at is not None:
            request.time("startedAt", started_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.claim(request, read_maybe_agent, wait)

    def start(
        self,
        project_id: str,
        node_run_id: str,
        *,
        execution: Execution,
        execution_principal: Principal | None = None,
        model_id: str | None = None,
        started_at: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> AgentRun:
        """Starts a queued agent run.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param execution: Who owns the agent run from now on.
        :param execution_principal: On whose behalf it runs.
        :param model_id: The model it uses.
        :param started_at: When it starts; the clock's time when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.start")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        request.execution("execution", execution)
        if execution_principal is not None:
            request.principal("executionPrincipal", execution_principal)
        if model_id is not None:
            request.text("modelId", model_id)
        if started_at is not None:
            request.time("startedAt", started_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_agent)

    def reclaim(
        self,
        project_id: str,
        node_run_id: str,
        *,
        execution: Execution,
        lease_expired_by: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> AgentRun:
        """Takes a running agent run over from its owner.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param execution: Who owns it from now on.
        :param lease_expired_by: Refuse unless the current lease ends at or before this time.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.reclaim")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        request.execution("execution", execution)
        if lease_expired_by is not None:
            request.time("leaseExpiredBy", lease_expired_by)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_agent)

    def confirm(
        self,
        project_id: str,
        node_run_id: str,
        *,
        execution_token: str,
        lease_expires_at: datetime,
        answer: AnswerForm | None = None,
    ) -> AgentRun:
        """Says that the agent run's owner is alive: its lease ends at the later of its current end and the given one.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param execution_token: The owner's token.
        :param lease_expires_at: The new end of the lease.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.confirm")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        request.text("executionToken", execution_token)
        request.time("queueLeaseExpiresAt", lease_expires_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_agent)

    def finish(
        self,
        project_id: str,
        node_run_id: str,
        *,
        execution_token: str,
        status: EndStatus,
        model_id: str | None = None,
        finish_reason: str | None = None,
        usage: PayloadLike = ABSENT,
        trace: PayloadLike = ABSENT,
        diagnostics: PayloadLike = ABSENT,
        error: str | None = None,
        completed_at: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> AgentRun:
        """Ends a running agent run. What is not given keeps its value.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param execution_token: The owner's token.
        :param status: How it ends.
        :param model_id: The model it used.
        :param finish_reason: Why the model stopped.
        :param usage: What it used up.
        :param trace: What it did.
        :param diagnostics: What it noted about itself.
        :param error: Why it failed or was cancelled; kept only if it did not succeed.
        :param completed_at: When it ended; the clock's time when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.finish")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        request.text("executionToken", execution_token)
        request.text("status", status)
        if model_id is not None:
            request.text("modelId", model_id)
        if finish_reason is not None:
            request.text("finishReason", finish_reason)
        if usage is not ABSENT:
            request.payload("usage", usage)
        if trace is not ABSENT:
            request.payload("trace", trace)
        if diagnostics is not ABSENT:
            request.payload("diagnostics", diagnostics)
        if error is not None:
            request.text("error", error)
        if completed_at is not None:
            request.time("completedAt", completed_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_agent)

    def cancel(
        self,
        project_id: str,
        node_run_id: str,
        *,
        error: str | None = None,
        completed_at: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> AgentRun:
        """Cancels a queued or running agent run. No token is asked.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param error: Why.
        :param completed_at: When; the clock's time when not given.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.cancel")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        if error is not None:
            request.text("error", error)
        if completed_at is not None:
            request.time("completedAt", completed_at)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_agent)

    def get(
        self,
        project_id: str,
        node_run_id: str,
        *,
        answer: AnswerForm | None = None,
    ) -> AgentRun | None:
        """Reads an agent run.

        :param project_id: The project.
        :param node_run_id: The node run that it executes.
        :param answer: How much of the record to answer.
        """
        request = Request("agents.get")
        request.text("projectId", project_id)
        request.text("nodeRunId", node_run_id)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_maybe_agent)

    def expired(
        self,
        *,
        expired_by: datetime,
        project_id: str | None = None,
        limit: int | None = None,
        answer: AnswerForm | None = None,
    ) -> Expired[AgentRun]:
        """Running agent runs whose lease ended, by (lease end, projectId, nodeRunId).

        :param expired_by: Leases that end at or before this time.
        :param project_id: Only agent runs of this project; of all when not given.
        :param limit: The most rows: 1 to 10,000, and 1,000 when not given.
        :param answer: How much of the records to answer.
        """
        request = Request("agents.expired")
        request.time("expiredBy", expired_by)
        if project_id is not None:
            request.text("projectId", project_id)
        if limit is not None:
            request.integer("limit", limit)
        if answer is not None:
            request.text("answer", answer)
        return self._carrier.send(request, read_expired_agents)

    def list(
        self,
        project_id: str,
        *,
        agent_id: str | None = None,
        statuses: Iterable[Status] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        answer: AnswerForm | None = None,
        order: Order | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        with_total: bool | None = None,
    ) -> Page[AgentRun]:
        """Lists agent runs by (createdAt, nodeRunId), the newest first unless the caller says.

        :param project_id: The project.
        :param agent_id: Only runs of this agent.
        :param statuses: Only agent runs in these statuses.
        :param created_after: Only agent runs created at or after this time.
        :param created_before: Only agent runs created at or before this time.
        :param answer: How much of the records to answer.
        :param order: The direction.
        :param limit: The most rows: 0 to 10,000, and 50 when not given.
        :param offset: How many matching rows to pass over; not together with a cursor.
        :param cursor: Where an earlier page ended: its ``next_cursor``.
        :param with_total: Whether to count all matches; it does when not given.
        """
        request = Request("agents.list")
        request.text("projectId", project_id)
        if agent_id is not None:
            request.text("agentId", agent_id)
        if statuses is not None:
            request.texts("statuses", statuses)
        if created_after is not None:
            request.time("createdAfter", created_after)
        if created_before is not None:
            request.time("createdBefore", created_before)
        if answer is not None:
            request.text("answer", answer)
        if order is not None:
            request.text("order", order)
        if limit is not None:
            request.integer("limit", limit)
        if offset is not None:
            request.integer("offset", offset)
        if cursor is not None:
            request.text("cursor", cursor)
        if with_total is not None:
            request.boolean("withTotal", with_total)
        return self._carrier.page(request, "agents", read_agent)

    def confirm_lease(
        self,
        project_id: str,
        node_run_id: str,
        *,
        execution_token: str,
        lease_expires_at: datetime,
    ) -> datetime:
        """As ``confirm``, answering only the lease's end as it now is: the cheapest heartbeat, made without JSON.

        :param project_id: The project.
        :param node_run_id: The node run.
        :param execution_token: The owner's token.
        :param lease_expires_at: The new end of the lease.
        """
        return self._carrier.confirm("agent", project_id, node_run_id, execution_token, lease_expires_at)


class LedgerProjects:
    """What can be done with projects."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: LedgerCarrier) -> None:
        self._carrier = carrier

    def list(
        self,
        *,
        order: Order | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        with_total: bool | None = None,
    ) -> Page[ProjectSummary]:
        """Every project that has a run, in byte order.

        :param order: The direction.
        :param limit: The most rows: 0 to 10,000, and 50 when not given.
        :param offset: How many matching rows to pass over; not together with a cursor.
        :param cursor: Where an earlier page ended: its ``next_cursor``.
        :param with_total: Whether to count all matches; it does when not given.
        """
        request = Request("projects.list")
        if order is not None:
            request.text("order", order)
        if limit is not None:
            request.integer("limit", limit)
        if offset is not None:
            request.integer("offset", offset)
        if cursor is not None:
            request.text("cursor", cursor)
        if with_total is not None:
            request.boolean("withTotal", with_total)
        return self._carrier.page(request, "projects", read_project)


class LedgerStore:
    """What can be done with the store itself."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: LedgerCarrier) -> None:
        self._carrier = carrier

    def info(self) -> StoreInfo:
        """What the store is and how it was opened."""
        request = Request("store.info")
        return self._carrier.send(request, read_info)

    def verify(self) -> VerifyReport:
        """Holds indexes, counters, checksums and references against the records. It never repairs."""
        request = Request("store.verify")
        return self._carrier.send(request, read_verified)

    def compact(self) -> CompactReport:
        """Gives unused space back to the system."""
        request = Request("store.compact")
        return self._carrier.send(request, read_compacted)
