"""Opening, closing, forgetting, and what threads and forks may do."""

from __future__ import annotations

import gc
import io
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import runledger
from helpers import at, start


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a Python of its own, with every warning shown."""
    command = [sys.executable, "-X", "dev", "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


# ---- closing


def test_what_was_answered_outlives_the_store_and_closing_twice_is_harmless(open_at: Callable[..., runledger.Ledger]) -> None:
    ledger = open_at()
    start(ledger, input={"kept": True})
    page = ledger.runs.list("shop", limit=1)
    ledger.close()
    ledger.close()
    assert page.rows[0].input and page.rows[0].input.value == {"kept": True}
    assert list(page) == list(page.rows)
    for call in (
        lambda: ledger.runs.get("shop", "r1"),
        lambda: ledger.runs.confirm_lease("shop", "r1", execution_token="t", lease_expires_at=at(0)),
        lambda: ledger.batch().commit(),
        lambda: ledger.call_json("{}"),
        lambda: ledger.snapshot(),
    ):
        with pytest.raises(runledger.Closed) as refused:
            call()
        assert not refused.value.retryable
    assert "closed" in repr(ledger)


def test_a_page_of_a_closed_store_ends_with_its_rows(open_at: Callable[..., runledger.Ledger]) -> None:
    with open_at() as ledger:
        start(ledger, "r1")
        start(ledger, "r2")
        page = ledger.runs.list("shop", limit=1)
    rows = iter(page)
    assert next(rows).id == "r2"
    with pytest.raises(runledger.Closed):
        next(rows)


def test_a_ledger_that_is_never_closed_warns(open_at: Callable[..., runledger.Ledger]) -> None:
    with pytest.warns(ResourceWarning, match="never closed"):
        open_at()
        gc.collect()
    ledger = open_at()
    ledger.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del ledger
        gc.collect()


def test_a_forgotten_store_can_be_opened_again_at_once(tmp_path: Path) -> None:
    warnings.simplefilter("ignore", ResourceWarning)
    url = runledger.url_of("redb", tmp_path / "runs.redb")
    ledger = runledger.open(url)
    start(ledger)
    with pytest.raises(runledger.Locked) as refused:
        runledger.open(url)
    assert refused.value.retryable
    del refused, ledger
    gc.collect()
    with runledger.open(url) as again:
        assert again.runs.get("shop", "r1")


def test_a_ledger_goes_with_its_last_reference(tmp_path: Path) -> None:
    """Nothing of it waits for the collector, whatever it was used for."""
    warnings.simplefilter("ignore", ResourceWarning)
    url = runledger.url_of("redb", tmp_path / "runs.redb")

    def use() -> None:
        ledger = runledger.open(url)
        start(ledger, str(time.monotonic_ns()))
        with ledger.batch() as batch:
            batch.runs.cancel("shop", ledger.runs.list("shop", limit=1).rows[0].id)
        assert list(ledger.runs.list("shop", limit=1))
        with pytest.raises(runledger.NotFound):
            ledger.runs.wait("shop", "none")
        ledger.copy_to(ledger)
        ledger.restore(ledger.snapshot())
        ledger.export_to(io.BytesIO(), on_progress=lambda progress: None)

    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            use()
        runledger.open(url).close()
    finally:
        gc.enable()


def test_stores_that_are_opened_and_forgotten_keep_no_file_open(tmp_path: Path) -> None:
    """10,000 times in the long run."""
    warnings.simplefilter("ignore", ResourceWarning)
    url = runledger.url_of("sqlite", tmp_path / "runs.db")
    with runledger.open(url) as ledger:
        start(ledger)

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    runledger.open(url)
    gc.collect()
    before = descriptors()
    for _ in range(10_000 if os.environ.get("RUNLEDGER_LONG") else 200):
        assert runledger.open(url).runs.get("shop", "r1")
    gc.collect()
    assert descriptors() <= before


def test_a_failed_opening_leaves_nothing(tmp_path: Path) -> None:
    for url in ("sqlite:/no/such/directory/x.db", f"redb:{tmp_path}", "memory:?mode=existing"):
        with pytest.raises(runledger.Io):
            runledger.open(url)
    with pytest.raises(runledger.NotALedger):
        (tmp_path / "text").write_text("x" * 10_000)
        runledger.open(f"sqlite:{tmp_path}/text")


def test_odd_characters_of_a_path_name_that_file(tmp_path: Path) -> None:
    path = tmp_path / "50% ?x=1 #é.db"
    runledger.open(runledger.url_of("sqlite", path)).close()
    assert path.is_file()


@pytest.mark.parametrize("end", ["", "import os; os._exit(0)", "raise SystemExit(0)", "import sys; sys.modules.clear()"])
def test_the_last_reference_may_go_with_the_interpreter(tmp_path: Path, backend: str, end: str) -> None:
    """Without a message, and the file can be opened again at once."""
    url = "memory:" if backend == "memory" else runledger.url_of(backend, tmp_path / "store")  # type: ignore[arg-type]
    script = f"""
import sys, threading, warnings
import runledger
warnings.simplefilter("ignore", ResourceWarning)
ledger = runledger.open(sys.argv[1])
ledger.runs.queue("shop", "r1", workflow_id="wf", input={{}})
class Cycle: pass
cycle = Cycle(); cycle.self = cycle; cycle.ledger = ledger
page = ledger.runs.list("shop")
threading.Thread(target=lambda: ledger.runs.get("shop", "r1")).start()
{end}
"""
    ended = python(script, url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    if backend != "memory":
        with runledger.open(url) as again:
            assert again.runs.list("shop").total == 1


# ---- threads


def test_made_used_and_dropped_on_different_threads(open_at: Callable[..., runledger.Ledger]) -> None:
    """1,000 times in the long run."""
    warnings.simplefilter("ignore", ResourceWarning)
    holder: list[runledger.Ledger] = []

    def on_thread(work: Callable[[], object]) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(work).result()

    for number in range(1000 if os.environ.get("RUNLEDGER_LONG") else 20):
        on_thread(lambda: holder.append(open_at()))
        on_thread(lambda: start(holder[0], f"r{number}"))
        on_thread(holder.clear)
    gc.collect()
    with open_at() as ledger:
        assert ledger.store.verify().ok


def test_16_threads_on_one_store(ledger: runledger.Ledger) -> None:
    def work(worker: int) -> int:
        claimed = 0
        for number in range(20):
            ledger.runs.queue("shop", f"{worker}-{number}", workflow_id="wf", input={"worker": worker})
        while run := ledger.runs.claim("shop", execution=runledger.Execution(f"t{worker}-{claimed}", at(60))):
            token = f"t{worker}-{claimed}"
            ledger.runs.confirm_lease("shop", run.id, execution_token=token, lease_expires_at=at(90))
            assert run.input and run.input.value["worker"] == int(run.id.split("-")[0])
            ledger.runs.finish("shop", run.id, status="succeeded", execution_token=token)
            claimed += 1
        return claimed

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(work, range(16))) == 16 * 20
    assert ledger.runs.stats("shop").by_status["succeeded"] == 320
    assert ledger.store.verify().ok


HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def test_the_interpreter_goes_on_during_a_slow_call(tmp_path: Path) -> None:
    """Another process holds the write lock; one thread waits in a call until this one, which counts, has it let go."""
    path = tmp_path / "runs.db"
    with runledger.open(runledger.url_of("sqlite", path), busy_timeout_ms=60_000) as ledger:
        start(ledger)
        holder = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdin and holder.stdout and holder.stdout.readline() == b"held\n"
        finished = threading.Thread(target=lambda: ledger.runs.finish("shop", "r1", status="succeeded"))
        finished.start()
        # If the call kept the interpreter's lock, nobody could tell the other process to let go of the file.
        for _ in range(200_000):
            assert finished.is_alive()
        with holder:
            holder.communicate(b"\n")
        finished.join()
        run = ledger.runs.get("shop", "r1")
        assert run and run.status == "succeeded"


def test_a_lock_that_is_held_too_long_is_busy_and_can_be_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with runledger.open(runledger.url_of("sqlite", path), busy_timeout_ms=50) as ledger:
        start(ledger)
        holder = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        with pytest.raises(runledger.Busy) as refused:
            ledger.runs.finish("shop", "r1", status="succeeded")
        assert refused.value.retryable
        with holder:
            holder.communicate(b"\n")
        assert ledger.runs.finish("shop", "r1", status="succeeded").status == "succeeded"


def test_close_waits_for_the_calls_under_way(open_at: Callable[..., runledger.Ledger]) -> None:
    ledger = open_at()
    done: list[str] = []

    def work() -> None:
        for number in range(10_000):
            try:
                start(ledger, f"{threading.get_ident()}-{number}")
            except runledger.Closed:
                return
            done.append("")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    while len(done) < 20:
        time.sleep(0.001)
    ledger.close()
    for worker in workers:
        worker.join()
    if "memory" not in repr(ledger):
        with open_at() as again:
            assert again.runs.list("shop", limit=0).total == len(done)


# ---- forks

FORK = """
import os, sys, runledger
url, backend = sys.argv[1:]
ledger = runledger.open(url)
ledger.runs.queue("shop", "r0", workflow_id="wf", input={"kept": 1})
page = ledger.runs.list("shop")

def refused(call):
    try:
        call()
    except runledger.Closed:
        return
    os._exit(10)

def exits(): pass
def gets(): refused(lambda: ledger.runs.get("shop", "r0"))
def queues(): refused(lambda: ledger.runs.queue("shop", "x", workflow_id="wf", input={}))
def confirms():
    from datetime import datetime, timezone
    refused(lambda: ledger.runs.confirm_lease("shop", "r0", execution_token="t", lease_expires_at=datetime.now(timezone.utc)))
def closes(): ledger.close()
def forgets():
    global ledger
    ledger = None
def reads():
    if page.rows[0].input.value != {"kept": 1}: os._exit(11)
def opens():
    if backend == "sqlite":
        with runledger.open(url) as own:
            own.runs.queue("shop", f"child-{os.getpid()}", workflow_id="wf", input={})
    else:
        try: runledger.open(url)
        except runledger.Locked: pass
        else: os._exit(12)
    with runledger.open("memory:") as own:
        own.runs.queue("shop", "m", workflow_id="wf", input={})

kinds = [exits, gets, queues, confirms, closes, forgets, reads, opens]
for number in range(int(os.environ.get("ROUNDS", "24"))):
    child = os.fork()
    if child == 0:
        kinds[number % len(kinds)]()
        sys.exit(0)
    ledger.runs.queue("shop", f"p{number}", workflow_id="wf", input={})
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"{kinds[number % len(kinds)].__name__}: {status}")
report = ledger.store.verify()
print(report.ok, ledger.runs.list("shop", limit=0).total)
ledger.close()
"""


@pytest.mark.parametrize("backend", ["sqlite", "redb"])
def test_handles_carried_over_a_fork_answer_closed_and_touch_nothing(tmp_path: Path, backend: str) -> None:
    """200 children in the long run; they exit, use, close, forget, or open their own, while the parent writes on."""
    rounds = 200 if os.environ.get("RUNLEDGER_LONG") else 24
    url = runledger.url_of(backend, tmp_path / "store")  # type: ignore[arg-type]
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", FORK, url, backend]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "ROUNDS": str(rounds)})
    total = 1 + rounds + (rounds // 8 if backend == "sqlite" else 0)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"True {total}\n", "")
    with runledger.open(url) as ledger:
        assert ledger.runs.list("shop", limit=0).total == total and ledger.store.verify().ok
    if backend == "sqlite":
        with sqlite3.connect(tmp_path / "store") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def test_ctrl_c_is_raised_after_the_call_that_it_met(memory: runledger.Ledger) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        start(memory)
    start(memory, "r2")
    assert memory.store.verify().ok


def test_a_page_that_is_kept_does_not_hold_the_log(tmp_path: Path) -> None:
    """5,000 runs of 8 KiB are written by another handle while a page is kept."""
    path = tmp_path / "runs.db"
    url = runledger.url_of("sqlite", path)
    with runledger.open(url, durability="relaxed") as reader, runledger.open(url, durability="relaxed") as writer:
        for number in range(100):
            start(writer, f"kept{number}")
        page = reader.runs.list("shop", limit=100)
        for begin in range(0, 5000, 50):
            with writer.batch() as batch:
                for number in range(begin, begin + 50):
                    batch.runs.queue("shop", f"r{number}", workflow_id="wf", input="x" * 8192, answer="state")
        assert os.stat(f"{path}-wal").st_size <= 17 * 1024 * 1024
        assert len(page.rows) == 100 and reader.runs.list("shop", limit=0).total == 5100
