"""The words that some parameters take and some fields hold."""

from __future__ import annotations

from typing import Literal

Status = Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled"]
"""The status of a run, node run or agent run. A node run is never queued, an agent run never waiting."""

EndStatus = Literal["succeeded", "failed", "cancelled"]
"""A status that ends a run, node run or agent run."""

AnswerForm = Literal["record", "state"]
"""How much of a record to answer: ``state`` leaves out payloads and prompt, which are then not even read."""

Order = Literal["asc", "desc"]
"""The direction of a list. Both reverse the whole order, ties included."""
