"""LangGraph's SqliteSaver, called as LangGraph calls it for a graph of three nodes in a row.

LangGraph keeps checkpoints of a thread, and no runs that are queued or claimed:

| the lifecycle             | calls |                                            |
|---------------------------|-------|--------------------------------------------|
| the run is queued         | 1     | `put` of the input, step -1                |
| the run is started        | 1     | `put` of step 0                            |
| a node has finished       | 3     | `put_writes` of its task                   |
| its step is over, or the run | 3  | `put` of the state after it                |

That a node was started is not noted, and there are no leases. The callers are threads that share a saver, which
lets one in at a time, as its documentation says.

It speaks as `peers-harness` does: a line of what there is, and then a line for each turn that it is told to take.
"""

import json
import sqlite3
import sys
import threading
import time
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

CALLERS = [1, 16, 64]
STEPS = 3
TRANSITIONS = 8
PAYLOAD_BYTES = 310
WORDS = "the customer asked for delivery before noon, else to the neighbour; "

numbers = count(1)


def payload(n: int, part: int) -> dict[str, Any]:
    value = {"order": n, "part": part, "customer": f"c-{n * 0x5EED & 0xFFFFFF:06x}", "note": ""}
    room = PAYLOAD_BYTES - len(json.dumps(value, separators=(",", ":")))
    return value | {"note": (WORDS * (room // len(WORDS) + 1))[:room]}


class Calls:
    """The calls of one caller."""

    def __init__(self) -> None:
        self.nanos: list[int] = []
        self.lifecycles = 0

    def make(self, call: Any, *arguments: Any) -> Any:
        began = time.perf_counter_ns()
        answer = call(*arguments)
        self.nanos.append(time.perf_counter_ns() - began)
        return answer


def lifecycle(saver: SqliteSaver, calls: Calls) -> None:
    n = next(numbers)
    config: Any = {"configurable": {"thread_id": f"{n:020x}", "checkpoint_ns": ""}}
    config = put(saver, calls, config, n, -1, "input")
    config = put(saver, calls, config, n, 0, "loop")
    for step in range(STEPS):
        writes = [("order", payload(n, 5 + step)), (f"branch:to:step-{step + 1}", None)]
        calls.make(saver.put_writes, config, writes, f"task-{n:016x}-{step}")
        config = put(saver, calls, config, n, step + 1, "loop")
    calls.lifecycles += 1


def put(saver: SqliteSaver, calls: Calls, config: Any, n: int, step: int, source: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"order": payload(n, step + 1)}
    checkpoint["channel_versions"] = {"order": f"{step + 2:032}.0"}
    return calls.make(saver.put, config, checkpoint, {"source": source, "step": step, "parents": {}}, checkpoint["channel_versions"])


def turn(saver: SqliteSaver, callers: int, seconds: float) -> dict[str, Any]:
    """Threads that each go through whole lifecycles until the time is over. What they began then they end, and it counts."""
    all_calls = [Calls() for _ in range(callers)]
    failures: list[BaseException] = []
    began = time.perf_counter()

    def caller(calls: Calls) -> None:
        try:
            while time.perf_counter() - began < seconds:
                lifecycle(saver, calls)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=caller, args=(calls,)) for calls in all_calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if failures:
        raise failures[0]
    nanos = sorted(nano for calls in all_calls for nano in calls.nanos)

    def at(percent: int) -> float:
        return nanos[min(len(nanos) * percent // 100, len(nanos) - 1)] / 1000

    lifecycles = sum(calls.lifecycles for calls in all_calls)
    return {"lifecycles": lifecycles, "seconds": elapsed, "p50_us": at(50), "p99_us": at(99), "retries": 0}


def durability(conn: sqlite3.Connection) -> tuple[str, str]:
    """Read back from the saver's own connection."""
    (journal,) = conn.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = conn.execute("PRAGMA synchronous").fetchone()
    known = {
        ("wal", 1): ("WAL, synchronous=NORMAL: a power loss may lose the last commits", "relaxed"),
        ("wal", 2): ("WAL, synchronous=FULL: a commit survives power loss", "full"),
    }
    return known[journal, synchronous]


def main() -> None:
    directory = Path(sys.argv[1])
    contenders, savers = [], []
    for setting, pragma in [("", None), ("connection with synchronous=NORMAL", "PRAGMA synchronous=NORMAL")]:
        conn = sqlite3.connect(directory / f"langgraph-{len(savers)}.db", check_same_thread=False)
        if pragma:
            conn.execute(pragma)
        saver = SqliteSaver(conn)
        saver.setup()
        text, beside = durability(conn)
        for callers in CALLERS:
            contenders.append(
                {
                    "store": f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}",
                    "setting": setting,
                    "durability": text,
                    "beside": beside,
                    "callers": callers,
                    "group": 1,
                    "transitions": TRANSITIONS,
                }
            )
            savers.append(saver)
    print(json.dumps(contenders), flush=True)
    for line in sys.stdin:
        take = json.loads(line)
        place = take["contender"]
        print(json.dumps(turn(savers[place], contenders[place]["callers"], take["milliseconds"] / 1000)), flush=True)


if __name__ == "__main__":
    main()
