"""Claims that wait until something is queued."""

from __future__ import annotations

import asyncio
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import runledger
from helpers import at, start, start_node

LONG = 60.0
"""As many seconds as a test may take: a claim that is not woken is found by its end."""

OWNER = runledger.Execution("t", at(60))


def queue(ledger: runledger.Ledger, id: str = "r1") -> runledger.Run:
    return ledger.runs.queue("shop", id, workflow_id="wf", input={"n": 1})


def meanwhile(claim: Callable[[], Any], act: Callable[[], object]) -> Future[Any]:
    """Has a thread wait, and acts once it may be thought to do so, and not in its first slice any more."""
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(claim)
        time.sleep(0.25)
        act()
    return waiting


@pytest.mark.parametrize("wait", [0, 0.0, 0.01, timedelta(milliseconds=1), timedelta()])
def test_a_wait_in_which_nothing_comes_answers_none(ledger: runledger.Ledger, wait: float | timedelta) -> None:
    assert ledger.runs.claim("shop", execution=OWNER, wait=wait) is None
    assert ledger.agents.claim("shop", execution=OWNER, wait=wait) is None


def test_a_wait_is_as_long_as_it_was_asked(memory: runledger.Ledger) -> None:
    begun = time.monotonic()
    assert memory.runs.claim("shop", execution=OWNER, wait=timedelta(seconds=0.45)) is None
    assert time.monotonic() - begun >= 0.45


@pytest.mark.parametrize("wait", [0, LONG, math.inf, 10**400, timedelta.max])
def test_what_is_there_already_is_taken_at_once(ledger: runledger.Ledger, wait: float | timedelta) -> None:
    queue(ledger)
    claimed = ledger.runs.claim("shop", execution=OWNER, workflow_ids=["wf"], answer="record", wait=wait)
    assert claimed is not None and claimed == ledger.runs.get("shop", "r1") and claimed.execution == OWNER


def test_what_another_thread_queues_ends_the_wait(ledger: runledger.Ledger) -> None:
    run = meanwhile(lambda: ledger.runs.claim("shop", execution=OWNER, wait=LONG), lambda: queue(ledger)).result()
    assert run == ledger.runs.get("shop", "r1")
    start_node(ledger, execution_token="t")

    def create() -> object:
        return ledger.agents.create("shop", "n1", agent_id="a", prompt="do", execution_token="t")

    agent = meanwhile(lambda: ledger.agents.claim("shop", execution=OWNER, wait=timedelta(seconds=LONG)), create).result()
    assert agent == ledger.agents.get("shop", "n1") and agent.status == "running"


def test_what_another_handle_queues_ends_the_wait(tmp_path: Path) -> None:
    url = runledger.url_of("sqlite", tmp_path / "runs.db")
    with runledger.open(url) as waiting, runledger.open(url) as queueing:
        assert meanwhile(lambda: waiting.runs.claim("shop", execution=OWNER, wait=LONG), lambda: queue(queueing)).result().id == "r1"


def test_closing_ends_the_wait(ledger: runledger.Ledger) -> None:
    ended = meanwhile(lambda: ledger.runs.claim("shop", execution=OWNER, wait=LONG), ledger.close)
    with pytest.raises(runledger.Closed):
        ended.result()
    with pytest.raises(runledger.Closed):
        ledger.agents.claim("shop", execution=OWNER, wait=LONG)


@pytest.mark.parametrize("wait", [-1, -0.001, -math.inf, math.nan, timedelta(microseconds=-1), -(10**400), "1", True, 1j])
def test_what_is_no_time_to_wait_is_refused(memory: runledger.Ledger, wait: Any) -> None:
    queue(memory)
    for claim in (memory.runs.claim, memory.agents.claim):
        with pytest.raises(ValueError) as refused:
            claim("shop", execution=OWNER, wait=wait)
        assert isinstance(refused.value, runledger.InvalidInput) and refused.value.details == {"field": "wait"}
    queued = memory.runs.get("shop", "r1")
    assert queued and queued.status == "queued"


def test_a_claim_that_is_refused_does_not_wait(memory: runledger.Ledger) -> None:
    with pytest.raises(runledger.InvalidInput) as refused:
        memory.runs.claim("", execution=OWNER, wait=LONG)
    assert refused.value.details == {"field": "projectId"}


CTRL_C = """
import runledger
from datetime import datetime, timezone
with runledger.open("memory:") as ledger:
    try:
        print("waiting", flush=True)
        ledger.runs.claim("shop", execution=runledger.Execution("t", datetime.now(timezone.utc)), wait=600)
    except KeyboardInterrupt:
        ledger.runs.queue("shop", "r1", workflow_id="wf", input=1)
        print(ledger.runs.list("shop").rows[0].status, ledger.store.verify().ok)
"""

CTRL_C_ASYNC = """
import asyncio, runledger
from datetime import datetime, timezone
async def work():
    async with runledger.open_async("memory:") as ledger:
        print("waiting", flush=True)
        try:
            await ledger.runs.claim("shop", execution=runledger.Execution("t", datetime.now(timezone.utc)), wait=600)
        finally:
            print("queued", (await ledger.store.verify()).ok)
try:
    asyncio.run(work())
except KeyboardInterrupt:
    pass
"""


CANCELS = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio cancels the task on Ctrl-C from Python 3.11 on")


@pytest.mark.parametrize("program", [pytest.param(CTRL_C, id="plain"), pytest.param(CTRL_C_ASYNC, id="asyncio", marks=CANCELS)])
def test_ctrl_c_ends_the_wait_and_the_ledger_goes_on(program: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stdout and worker.stdout.readline() == "waiting\n"
    # Mostly it is in a later slice by then; it must end alike wherever it is.
    time.sleep(0.3)
    worker.send_signal(signal.SIGINT)
    wrote, complained = worker.communicate(timeout=LONG)
    assert (worker.returncode, wrote, complained) == (0, "queued True\n", "")


# ---- asyncio


def test_tasks_wait_too() -> None:
    async def work() -> None:
        async with runledger.open_async("memory:", max_threads=2) as ledger:
            assert await ledger.runs.claim("shop", execution=OWNER, wait=0.01) is None
            assert await ledger.agents.claim("shop", execution=OWNER, wait=timedelta()) is None
            # More wait than there are threads, and other calls do not wait for them.
            claims = [ledger.runs.claim("shop", execution=runledger.Execution(f"t{n}", at(60)), wait=LONG) for n in range(8)]
            await asyncio.sleep(0.25)
            for n in range(8):
                await ledger.runs.queue("shop", f"r{n}", workflow_id="wf", input=n)
            claimed = await asyncio.gather(*claims)
            assert sorted(run.id for run in claimed if run) == [f"r{n}" for n in range(8)]
            with pytest.raises(ValueError):
                ledger.runs.claim("shop", execution=OWNER, wait=-1)
            with pytest.raises(runledger.InvalidInput):
                await ledger.runs.claim("", execution=OWNER, wait=LONG)

    asyncio.run(work())


def test_a_task_that_is_cancelled_claims_nothing_more() -> None:
    async def work() -> None:
        async with runledger.open_async("memory:") as ledger:
            for wait in (LONG, math.inf):
                task = asyncio.ensure_future(ledger.runs.claim("shop", execution=OWNER, wait=wait))
                await asyncio.sleep(0.25)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(ledger.runs.claim("shop", execution=OWNER, wait=LONG), 0.01)
            # The slices that were left end within 0.2 seconds; on a busy machine their threads may be late.
            while any(thread.name.startswith("runledger-wait") and is_waiting(thread) for thread in threading.enumerate()):
                await asyncio.sleep(0.01)
            await ledger.runs.queue("shop", "r1", workflow_id="wf", input=1)
            await asyncio.sleep(0.25)
            queued = await ledger.runs.get("shop", "r1")
            assert queued and queued.status == "queued"

    asyncio.run(work())


def is_waiting(thread: threading.Thread) -> bool:
    """Whether a thread of the ledger is within a claim."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "claim_wait":
            return True
        frame = frame.f_back
    return False


def test_closing_ends_the_waits_of_tasks() -> None:
    async def work() -> None:
        ledger = await runledger.open_async("memory:", max_threads=2)
        claims = [ledger.runs.claim("shop", execution=OWNER, wait=LONG) for _ in range(5)]
        await asyncio.sleep(0.25)
        await ledger.close()
        for outcome in await asyncio.gather(*claims, return_exceptions=True):
            assert isinstance(outcome, runledger.Closed)
        with pytest.raises(runledger.Closed):
            await ledger.runs.claim("shop", execution=OWNER, wait=LONG)

    asyncio.run(work())
