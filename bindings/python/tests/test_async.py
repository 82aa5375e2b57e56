"""The handle for asyncio."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import runledger
from helpers import T0, at


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def url_at(backend: str, tmp_path: Path) -> str:
    return "memory:" if backend == "memory" else runledger.url_of(backend, tmp_path / "store")  # type: ignore[arg-type]


def test_operations_are_awaited(backend: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with runledger.open_async(url_at(backend, tmp_path)) as ledger:
            owner = runledger.Execution("t", at(60))
            await ledger.runs.start("shop", "r1", workflow_id="wf", input={"x": 1}, started_at=T0, execution=owner)
            found = await ledger.runs.get("shop", "r1")
            assert found and found.input and found.input.value == {"x": 1} and found.execution == owner
            lease = await ledger.runs.confirm_lease("shop", "r1", execution_token="t", lease_expires_at=at(90))
            assert lease == at(90)
            with pytest.raises(runledger.StaleToken):
                await ledger.runs.finish("shop", "r1", status="succeeded", execution_token="other")
            async with ledger.batch() as batch:
                pending = [batch.runs.queue("shop", f"q{n}", workflow_id="wf", input=n, queued_at=at(n)) for n in range(10)]
            assert [one.value.status for one in pending] == ["queued"] * 10
            page = await ledger.runs.list("shop", limit=3, order="asc", statuses=["queued"])
            assert page.total == 10 and [row.id async for row in page] == [f"q{n}" for n in range(10)]
            second = await page.next()
            assert second and second.rows[0].id == "q3"
            stream = io.BytesIO()
            assert (await ledger.export_to(stream)).runs == 11
            assert (await ledger.import_from(io.BytesIO(stream.getvalue()))).skipped == 11
            assert (await ledger.restore(await ledger.snapshot())).runs == 11
            assert await ledger.call_json('{"op":"runs.get","projectId":"shop","id":"none"}') == b"null"
            assert (await ledger.store.verify()).ok
            assert "AsyncLedger" in repr(ledger)

    run(work())


def test_many_tasks_write_at_once(backend: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with runledger.open_async(url_at(backend, tmp_path), max_threads=8) as ledger:
            await asyncio.gather(*(ledger.runs.queue("shop", f"r{n}", workflow_id="wf", input=n) for n in range(200)))

            async def worker(name: int) -> int:
                count = 0
                while await ledger.runs.claim("shop", execution=runledger.Execution(f"{name}-{count}", at(60)), answer="state"):
                    count += 1
                return count

            assert sum(await asyncio.gather(*(worker(name) for name in range(16)))) == 200

    run(work())


def test_the_loop_goes_on_during_a_call() -> None:
    async def work() -> None:
        async with runledger.open_async("memory:") as ledger:
            order: list[str] = []

            async def note() -> None:
                order.append("other task")

            call = asyncio.ensure_future(ledger.runs.queue("shop", "r1", workflow_id="wf", input="x" * 1_000_000))
            await asyncio.gather(note(), call)
            assert order == ["other task"] and (await call).status == "queued"

    run(work())


def test_a_request_is_written_when_it_is_made() -> None:
    async def work() -> None:
        async with runledger.open_async("memory:") as ledger:
            given = {"a": [1]}
            call = ledger.runs.queue("shop", "r1", workflow_id="wf", input=given)
            given["a"].append(2)
            queued = await call
            assert queued.input and queued.input.value == {"a": [1]}
            with pytest.raises(ValueError):
                ledger.runs.queue("shop", "r2", workflow_id="wf", input=float("nan"))

    run(work())


def test_a_task_that_stops_waiting_does_not_undo_its_command() -> None:
    async def work() -> None:
        async with runledger.open_async("memory:") as ledger:

            async def queue() -> None:
                await ledger.runs.queue("shop", "r1", workflow_id="wf", input="x" * 5_000_000)

            task = asyncio.create_task(queue())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while await ledger.runs.get("shop", "r1", answer="state") is None:
                await asyncio.sleep(0)

    run(work())


def test_a_task_that_is_cancelled_before_its_call_has_a_thread_does_not_undo_it_either() -> None:
    async def work() -> None:
        async with runledger.open_async("memory:", max_threads=1) as ledger:
            large = "x" * 4_000_000
            before = [asyncio.ensure_future(ledger.runs.queue("shop", f"r{n}", workflow_id="wf", input=large)) for n in range(5)]
            task = asyncio.ensure_future(ledger.runs.queue("shop", "mine", workflow_id="wf", input=1))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.gather(*before)
            assert await ledger.runs.get("shop", "mine") is not None

    run(work())


def test_a_handle_without_threads_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_threads"):
        runledger.open_async(runledger.url_of("sqlite", tmp_path / "store"), max_threads=0)
    assert not list(tmp_path.iterdir())


def test_closing_and_what_comes_after(tmp_path: Path) -> None:
    async def work() -> None:
        ledger = await runledger.open_async(f"sqlite:{tmp_path}/runs.db")
        calls = [ledger.runs.queue("shop", f"r{n}", workflow_id="wf", input=n) for n in range(50)]
        await ledger.close()
        await ledger.close()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, (runledger.Run, runledger.Closed))
        with pytest.raises(runledger.Closed):
            await ledger.runs.get("shop", "r1")
        with pytest.raises(runledger.Io):
            await runledger.open_async("sqlite:/no/such/directory/runs.db")

    run(work())
