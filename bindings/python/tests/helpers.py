"""Short forms in which tests speak with a ledger."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import runledger

T0 = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
"""The instant that tests count from."""


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def start(ledger: runledger.Ledger, id: str = "r1", **fields: Any) -> runledger.Run:
    """A running run of project shop."""
    usual: dict[str, Any] = {"workflow_id": "wf", "input": {}, "started_at": T0}
    return ledger.runs.start("shop", id, **(usual | fields))


def start_node(ledger: runledger.Ledger, id: str = "n1", run: str = "r1", **fields: Any) -> runledger.NodeRun:
    """A running node run of type agent."""
    usual: dict[str, Any] = {"workflow_id": "wf", "node_index": 0, "node_type": "agent", "node_id": "step", "node_key": "main", "input": {}}
    return ledger.nodes.start("shop", id, workflow_run_id=run, **(usual | {"started_at": T0} | fields))
