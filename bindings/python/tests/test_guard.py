"""The locks of an open SQLite store are not dropped by opening its file in the same process."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import runledger
from helpers import start


def locks(*paths: Path) -> set[str]:
    """The locks that the system knows of this process on files."""
    inodes = {str(os.stat(path).st_ino) for path in paths if path.exists()}
    found = set()
    with open("/proc/locks") as lines:
        for line in lines:
            _, kind, _, mode, pid, file, first, last = line.replace("->", "").split()
            if pid == str(os.getpid()) and file.split(":")[2] in inodes:
                found.add(f"{kind} {mode} {file} {first} {last}")
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def url(path: Path) -> str:
    return runledger.url_of("sqlite", path)


def ways_in(path: Path, tmp_path: Path) -> list[Callable[[], object]]:
    """All that would close the file in this process."""
    symlink, hardlink = tmp_path / "symlink", tmp_path / "hardlink"
    symlink.symlink_to(path)
    os.link(path, hardlink)
    shared_memory = f"{path}-shm"
    return [
        lambda: open(path).close(),
        lambda: io.open(str(path), "rb").close(),
        lambda: os.close(os.open(os.fsencode(path), os.O_RDONLY)),
        lambda: path.read_bytes(),
        lambda: shutil.copy(path, tmp_path / "copy.db"),
        lambda: open(symlink, "r+b").close(),
        lambda: open(hardlink, "ab").close(),
        lambda: open(os.path.relpath(path)).close(),
        lambda: open(shared_memory, "rb").close(),
        lambda: sqlite3.connect(path).close(),
        lambda: sqlite3.connect(str(path)).close(),
        lambda: sqlite3.connect(symlink).close(),
        lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True).close(),
        lambda: sqlite3.connect(f"file://{path}", uri=True).close(),
        lambda: sqlite3.connect(f"file:{str(path).replace('runs', '%72uns')}", uri=True).close(),
    ]


def test_the_file_of_an_open_ledger_can_not_be_opened(path: Path, url: str, tmp_path: Path) -> None:
    with runledger.open(url) as ledger:
        start(ledger)
        before = locks(path, Path(f"{path}-shm"))
        assert any(lock.startswith("POSIX") for lock in before), "an open store holds locks"
        for number, way in enumerate(ways_in(path, tmp_path)):
            with pytest.raises(runledger.InvalidInput) as refused:
                way()
            assert refused.value.details["field"] == "path" and "backup" in str(refused.value), number
        assert locks(path, Path(f"{path}-shm")) == before
        # Other files are nobody's business.
        (tmp_path / "other").write_text("x")
        sqlite3.connect(tmp_path / "other.db").close()
        sqlite3.connect(":memory:").close()
    # And with the ledger closed the file is free.
    open(path).close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    connection.close()


def test_without_the_guard_the_locks_would_go(path: Path, url: str) -> None:
    """What the guard is for: this fails if the system did not drop the locks after all."""
    with runledger.open(url, allow_shared_file=True) as ledger:
        start(ledger)
        assert locks(path, Path(f"{path}-shm"))
        for file in (path, f"{path}-shm"):
            open(file, "rb").close()
        assert not locks(path, Path(f"{path}-shm"))


def test_the_guard_stays_until_the_last_ledger_of_a_file_is_closed(path: Path, url: str) -> None:
    first, second = runledger.open(url), runledger.open(url)
    first.close()
    with pytest.raises(runledger.InvalidInput):
        open(path)
    second.close()
    open(path).close()


def test_a_file_that_the_process_holds_by_other_means_is_refused(path: Path, url: str) -> None:
    with runledger.open(url) as ledger:
        start(ledger)
    with open(path, "rb"):
        with pytest.raises(runledger.InvalidInput) as refused:
            runledger.open(url)
        assert refused.value.details["field"] == "url"
        with runledger.open(url, allow_shared_file=True) as ledger:
            assert ledger.runs.get("shop", "r1")
    connection = sqlite3.connect(path)
    connection.execute("SELECT * FROM sqlite_master").fetchall()
    with pytest.raises(runledger.InvalidInput):
        runledger.open(url)
    connection.close()
    runledger.open(url).close()


def test_another_process_may_look_at_the_file(path: Path, url: str) -> None:
    with runledger.open(url) as ledger:
        start(ledger)
        before = locks(path, Path(f"{path}-shm"))
        script = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM sqlite_master').fetchone()[0] > 0)"
        looked = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
        assert (looked.stdout, looked.stderr) == ("True\n", "")
        assert locks(path, Path(f"{path}-shm")) == before


def test_a_backup_is_what_to_open_instead(path: Path, url: str, tmp_path: Path) -> None:
    with runledger.open(url) as ledger:
        start(ledger)
        before = locks(path, Path(f"{path}-shm"))
        assert ledger.backup(tmp_path / "copy.db").form == "store"
        connection = sqlite3.connect(tmp_path / "copy.db")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
        assert locks(path, Path(f"{path}-shm")) == before


def test_files_of_other_backends_are_not_guarded(tmp_path: Path) -> None:
    """Their locks are of the open file and not of the process."""
    with runledger.open(runledger.url_of("redb", tmp_path / "runs.redb")) as ledger:
        start(ledger)
        before = locks(tmp_path / "runs.redb")
        assert any(lock.startswith("FLOCK") for lock in before)
        open(tmp_path / "runs.redb", "rb").close()
        assert locks(tmp_path / "runs.redb") == before
