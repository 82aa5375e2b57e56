"""Several tasks that share one ledger: those that write at the same moment share one flush."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import datetime, timedelta, timezone

import runledger


async def worker(ledger: runledger.AsyncLedger, name: str) -> int:
    done = 0
    while True:
        lease = datetime.now(timezone.utc) + timedelta(seconds=30)
        token = f"{name}/{done}"
        run = await ledger.runs.claim("shop", execution=runledger.Execution(token, lease))
        if run is None:
            return done
        await ledger.runs.finish("shop", run.id, status="succeeded", execution_token=token)
        done += 1


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with runledger.open_async(runledger.url_of("sqlite", f"{folder}/runs.db")) as ledger:
            calls = [ledger.runs.queue("shop", f"r{number}", workflow_id="ship", input={"order": number}) for number in range(20)]
            await asyncio.gather(*calls)
            done = await asyncio.gather(*(worker(ledger, f"worker-{number}") for number in range(4)))
            print(f"{sum(done)} runs, shared by {len(done)} workers")
            async for run in await ledger.runs.list("shop", limit=8, answer="state"):
                assert run.status == "succeeded"


if __name__ == "__main__":
    asyncio.run(main())
