"""Prints what calls on a store in memory cost from Python, beside the same calls from C, in one run.

Calls are made in chunks of about a millisecond or two, and the quickest chunk counts, so that what else the machine does is
left out; what is between the two is Python's own part. It measures the package that is installed, so build that with
``maturin build --release``; a C compiler is needed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import runledger
from runledger._abi import ABI_VERSION

LEASE = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
CALLS = ["confirm_lease", "runs.get", "runs.list(50)"]


def per_call_us(chunks: int, chunk: int, call: Callable[[int], object]) -> float:
    """The mean of the quickest chunk."""
    least = float("inf")
    for _ in range(chunks):
        begin = time.perf_counter_ns()
        for number in range(chunk):
            call(number)
        least = min(least, time.perf_counter_ns() - begin)
    return least / chunk / 1000


def from_python(chunks: int) -> list[float]:
    with runledger.open("memory:") as ledger:
        owner = runledger.Execution("worker-7/claim-1", LEASE)
        for number in range(60):
            ledger.runs.start("shop", f"r{number}", workflow_id="ship", input={"order": number, "lines": [1, 2, 3]}, execution=owner)
        runs = ledger.runs
        ends = [LEASE + timedelta(microseconds=number) for number in range(200)]
        return [
            per_call_us(
                chunks,
                200,
                lambda n: runs.confirm_lease("shop", "r7", execution_token="worker-7/claim-1", lease_expires_at=ends[n]),
            ),
            per_call_us(chunks, 100, lambda _: runs.get("shop", "r7")),
            per_call_us(chunks, 5, lambda _: runs.list("shop", limit=50)),
        ]


def compiled(folder: Path) -> list[str]:
    """The same program in C, linked with the library of the package."""
    import runledger._native as native

    library = Path(native.__file__ or "").with_name("lib_native.so")
    (folder / f"librunledger.so.{ABI_VERSION}").symlink_to(library)
    here = Path(__file__).resolve().parent
    header = here.parents[2] / "crates" / "ffi" / "include"
    command = ["cc", "-O2", "-std=gnu11", "-o", str(folder / "measure"), str(here / "measure.c"), f"-I{header}", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{folder}"], check=True)
    return [str(folder / "measure")]


def main() -> None:
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run([*compiled(Path(folder)), str(chunks)], check=True, capture_output=True, text=True).stdout
    python, c = from_python(chunks), [float(line) for line in told.split()]
    print(f"us per call, on memory, quickest of {chunks} chunks ({runledger.build_info()['profile']} build)")
    print(f"{'':<14} {'C':>8} {'Python':>8} {'between':>8}")
    for name, in_c, in_python in zip(CALLS, c, python):
        print(f"{name:<14} {in_c:>8.2f} {in_python:>8.2f} {in_python - in_c:>8.2f}")


if __name__ == "__main__":
    main()
