"""The state of workflow runs: which run is queued, running, waiting or done, and who owns it now and until when.

::

    import runledger

    with runledger.open("sqlite:runs.db") as ledger:
        ledger.runs.queue("shop", "r1", workflow_id="ship", input={"order": 17})
        for run in ledger.runs.list("shop"):
            print(run.id, run.status, run.input and run.input.value)
"""

from __future__ import annotations

from ._abi import build_info, live_objects, version
from ._absent import ABSENT
from ._answers import (
    CompactReport,
    Counts,
    Engine,
    Expired,
    Imported,
    Problem,
    ProjectSummary,
    Purged,
    RunStats,
    StoreInfo,
    VerifyReport,
    WorkflowStats,
)
from ._async_carrier import AsyncPage
from ._async_ledger import AsyncLedger
from ._batch import AsyncBatch, Batch
from ._batch_carrier import Pending
from ._carrier import Page
from ._errors import (
    AlreadyExists,
    Busy,
    Closed,
    Conflict,
    Corrupt,
    Full,
    Internal,
    Interrupted,
    InvalidInput,
    InvalidTransition,
    Io,
    LeaseActive,
    Locked,
    NotAgentNode,
    NotALedger,
    NotFound,
    ReadOnly,
    RunledgerError,
    SchemaTooNew,
    StaleToken,
    TooLarge,
    Unavailable,
    Unsupported,
    WorkflowMismatch,
)
from ._ledger import Ledger
from ._log import log_to
from ._open import Durability, Journal, Mode, Opening, open, open_async, url_of
from ._payload import Payload, PayloadLike
from ._records import AgentRun, Execution, NodeRun, Principal, Run
from ._transfer import Backup, OnProgress, Progress
from ._words import AnswerForm, EndStatus, Order, Status

__version__ = version()

__all__ = [
    "ABSENT",
    "AgentRun",
    "AlreadyExists",
    "AnswerForm",
    "AsyncBatch",
    "AsyncLedger",
    "AsyncPage",
    "Backup",
    "Batch",
    "Busy",
    "Closed",
    "CompactReport",
    "Conflict",
    "Corrupt",
    "Counts",
    "Durability",
    "EndStatus",
    "Engine",
    "Execution",
    "Expired",
    "Full",
    "Imported",
    "Internal",
    "Interrupted",
    "InvalidInput",
    "InvalidTransition",
    "Io",
    "Journal",
    "LeaseActive",
    "Ledger",
    "Locked",
    "Mode",
    "NodeRun",
    "NotALedger",
    "NotAgentNode",
    "NotFound",
    "OnProgress",
    "Opening",
    "Order",
    "Page",
    "Payload",
    "PayloadLike",
    "Pending",
    "Principal",
    "Problem",
    "Progress",
    "ProjectSummary",
    "Purged",
    "ReadOnly",
    "Run",
    "RunStats",
    "RunledgerError",
    "SchemaTooNew",
    "StaleToken",
    "Status",
    "StoreInfo",
    "TooLarge",
    "Unavailable",
    "Unsupported",
    "VerifyReport",
    "WorkflowMismatch",
    "WorkflowStats",
    "build_info",
    "live_objects",
    "log_to",
    "open",
    "open_async",
    "url_of",
    "version",
]
