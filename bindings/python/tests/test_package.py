"""The package itself: what it was made from, what it checks when it is imported, what its documents say."""

from __future__ import annotations

import logging
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import runledger
from helpers import at, start

FOLDER = Path(__file__).resolve().parents[1]


def run(*arguments: object, **options: object) -> str:
    ended = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return str(ended.stdout)


def test_the_operations_are_those_of_the_rust_sources() -> None:
    run(FOLDER / "tools" / "generate.py", "--check")


def test_versions_are_those_of_the_library() -> None:
    assert runledger.__version__ == runledger.version() == runledger.build_info()["version"]
    assert runledger.build_info()["backends"][:3] == ["memory", "sqlite", "redb"]


OTHER_ABI = """
import sys, types
import runledger._native as native
class Library:
    def __getattr__(self, name): return getattr(native.lib, name)
    def runledger_abi_version(self): return 2
fake = types.ModuleType("runledger._native")
fake.ffi, fake.lib = native.ffi, Library()
for name in [name for name in sys.modules if name.startswith("runledger")]: del sys.modules[name]
sys.modules["runledger._native"] = fake
try:
    import runledger
except ImportError as e:
    print(e)
"""


def test_a_library_of_another_abi_is_refused_at_import() -> None:
    assert "version 1 of the library's ABI, not 2" in run("-c", OTHER_ABI)


def code_blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", [FOLDER / "README.md", FOLDER.parents[1] / "README.md"], ids=["package", "workspace"])
def test_the_lines_of_the_readme_work(document: Path, tmp_path: Path) -> None:
    blocks = code_blocks(document, "python")
    assert blocks
    for block in blocks:
        assert len(block.splitlines()) <= 12
        assert run("-X", "dev", "-W", "error", "-c", block, cwd=tmp_path) == "run-1 succeeded {'parcel': 3}\n"
        (tmp_path / "runs.db").unlink()
        run("-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "-c", block)


@pytest.mark.parametrize("example", sorted((FOLDER / "examples").glob("*.py")), ids=lambda path: path.name)
def test_the_examples_work(example: Path, tmp_path: Path) -> None:
    assert run("-X", "dev", "-W", "error", example, cwd=tmp_path)


def test_the_library_tells_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    with runledger.open("memory:") as ledger:
        start(ledger)
        logger = logging.getLogger("runledger.test")
        runledger.log_to(logger, logging.DEBUG)
        try:
            with caplog.at_level(logging.DEBUG, logger="runledger.test"):
                with pytest.raises(runledger.AlreadyExists):
                    start(ledger)
        finally:
            runledger.log_to(None)
        told = [record for record in caplog.records if "already_exists" in record.getMessage()]
        assert told and told[0].levelno == logging.DEBUG and told[0].name == "runledger.test"
        caplog.clear()
        with pytest.raises(runledger.AlreadyExists):
            start(ledger)
        assert not caplog.records


@pytest.mark.skipif(not os.environ.get("RUNLEDGER_LONG"), reason="a long run: RUNLEDGER_LONG=1")
def test_a_million_calls_take_no_memory_and_no_files(ledger: runledger.Ledger) -> None:
    for number in range(50):
        start(ledger, f"r{number}", input={"x": "y" * 100}, execution=runledger.Execution("t", at(0)))

    def calls(count: int) -> None:
        for number in range(count // 4):
            ledger.runs.get("shop", "r1")
            ledger.runs.list("shop", limit=5)
            ledger.runs.list("shop", limit=0)
            with pytest.raises(runledger.NotFound):
                ledger.runs.wait("shop", "none")

    calls(20_000)
    memory, files = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/proc/self/fd"))
    calls(1_000_000)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert grown_kib < 4096 and len(os.listdir("/proc/self/fd")) == files
