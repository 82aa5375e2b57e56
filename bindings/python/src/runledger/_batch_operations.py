"""Every command of a batch. Written by tools/generate.py; edit that or the Rust sources."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ._absent import ABSENT
from ._answers import Counts, Purged, read_maybe_run, read_maybe_agent, read_counts, read_purged
from ._batch_carrier import BatchCarrier, Pending
from ._payload import PayloadLike
from ._records import AgentRun, Execution, NodeRun, Principal, Run, read_agent, read_node, read_run
from ._request import Request
from ._words import AnswerForm, EndStatus


class BatchRuns:
    """What can be done with runs."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: BatchCarrier) -> None:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Run | None]:
        """Takes the queued run with the smallest (queuedAt, id), if there is one. Two claimers never get the same run.

        :param project_id: The project.
        :param execution: Who owns the run from now on.
        :param workflow_ids: Only runs of these workflows.
        :param started_at: When it starts; the clock's time when not given.
        :param answer: How much of the record to answer.
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
        return self._carrier.send(request, read_maybe_run)

    def reclaim(
        self,
        project_id: str,
        id: str,
        *,
        execution: Execution,
        lease_expired_by: datetime | None = None,
        answer: AnswerForm | None = None,
    ) -> Pending[Run]:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Run]:
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
    ) -> Pending[Counts]:
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
    ) -> Pending[Purged]:
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


class BatchNodes:
    """What can be done with node runs."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: BatchCarrier) -> None:
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
    ) -> Pending[NodeRun]:
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
    ) -> Pending[NodeRun]:
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
    ) -> Pending[NodeRun]:
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


class BatchAgents:
    """What can be done with agent runs."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: BatchCarrier) -> None:
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
    ) -> Pending[AgentRun]:
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
    ) -> Pending[AgentRun | None]:
        """Takes the queued agent run with the smallest (createdAt, nodeRunId), if there is one.

        :param project_id: The project.
        :param execution: Who owns the agent run from now on.
        :param agent_ids: Only runs of these agents.
        :param execution_principal: On whose behalf it runs.
        :param model_id: The model it uses.
        :param started_at: When it starts; the clock's time when not given.
        :param answer: How much of the record to answer.
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
        return self._carrier.send(request, read_maybe_agent)

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
    ) -> Pending[AgentRun]:
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
    ) -> Pending[AgentRun]:
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
    ) -> Pending[AgentRun]:
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
    ) -> Pending[AgentRun]:
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
    ) -> Pending[AgentRun]:
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
