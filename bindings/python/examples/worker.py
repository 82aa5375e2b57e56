"""A worker that claims runs, renews its lease while it works, and stops when it has lost a run to another worker."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import runledger

LEASE = timedelta(seconds=30)


def now() -> datetime:
    return datetime.now(timezone.utc)


def work(ledger: runledger.Ledger, run: runledger.Run, token: str) -> None:
    """Three steps; after each the lease is renewed."""
    for index, step in enumerate(["pick", "pack", "ship"]):
        node = ledger.nodes.start(
            run.project_id,
            f"{run.id}/{step}",
            workflow_run_id=run.id,
            workflow_id=run.workflow_id,
            node_index=index,
            node_type="task",
            node_id=step,
            node_key=step,
            input={"step": step},
            execution_token=token,
        )
        ledger.nodes.finish(run.project_id, node.id, status="succeeded", output={"done": step}, execution_token=token)
        ledger.runs.confirm_lease(run.project_id, run.id, execution_token=token, lease_expires_at=now() + LEASE)
    ledger.runs.finish(run.project_id, run.id, status="succeeded", output={"steps": 3}, execution_token=token)


def main() -> None:
    with runledger.open("memory:") as ledger:
        with ledger.batch() as batch:
            for number in range(3):
                batch.runs.queue("shop", f"order-{number}", workflow_id="ship-order", input={"order": number})

        claims = 0
        while True:
            token = f"worker-7/claim-{claims}"
            run = ledger.runs.claim("shop", execution=runledger.Execution(token, now() + LEASE))
            if run is None:
                break
            claims += 1
            try:
                work(ledger, run, token)
            except runledger.StaleToken:
                print(f"{run.id} was taken over: nothing more is done for it")

        for run in ledger.runs.list("shop", order="asc", limit=2):
            print(run.id, run.status, run.output.value if run.output else None)
        assert ledger.runs.stats("shop").by_status["succeeded"] == 3


if __name__ == "__main__":
    main()
