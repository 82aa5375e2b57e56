"""Prints what calls on a store in memory cost from Python, beside the same calls from C, in one run.

The two take turns, several times, and the least of each counts: what is between them is Python's own part. It measures the
package that is installed, so build that with ``maturin build --release``; a C compiler is needed.
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

TURNS = 5
LEASE = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
CALLS = ["confirm_lease", "runs.get", "runs.list(50)"]


def per_call_us(count: int, call: Callable[[int], object]) -> float:
    begin = time.perf_counter_ns()
    for number in range(count):
        call(number)
    return (time.perf_counter_ns() - begin) / count / 1000


def from_python(count: int) -> list[float]:
    with runledger.open("memory:") as ledger:
        owner = runledger.Execution("worker-7/claim-1", LEASE)
        for number in range(60):
            ledger.runs.start("shop", f"r{number}", workflow_id="ship", input={"order": number, "lines": [1, 2, 3]}, execution=owner)
        runs = ledger.runs
        ends = [LEASE + timedelta(microseconds=number) for number in range(count)]
        return [
            per_call_us(
                count,
                lambda n: runs.confirm_lease("shop", "r7", execution_token="worker-7/claim-1", lease_expires_at=ends[n]),
            ),
            per_call_us(count, lambda _: runs.get("shop", "r7")),
            per_call_us(count // 20, lambda _: runs.list("shop", limit=50)),
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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        python, c = [], []
        for _ in range(TURNS):
            python.append(from_python(count))
            told = subprocess.run([*program, str(count)], check=True, capture_output=True, text=True).stdout
            c.append([float(line) for line in told.split()])
    print(f"us per call, on memory, least of {TURNS} turns of {count} ({runledger.build_info()['profile']} build)")
    print(f"{'':<14} {'C':>8} {'Python':>8} {'between':>8}")
    for index, name in enumerate(CALLS):
        in_c, in_python = min(turn[index] for turn in c), min(turn[index] for turn in python)
        print(f"{name:<14} {in_c:>8.2f} {in_python:>8.2f} {in_python - in_c:>8.2f}")


if __name__ == "__main__":
    main()
