"""Ledgers for tests, which must give back all that the library gave them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runledger

def pytest_sessionfinish(session: pytest.Session) -> None:
    """All that the library gave must have been given back. Reports of failures hold on to what they show."""
    gc.collect()
    alive = runledger.live_objects()
    if alive and not session.testsfailed:
        print(f"\nthe tests left {alive} objects of the library alive")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(params=["memory", "sqlite", "redb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_at(backend: str, tmp_path: Path) -> Callable[..., runledger.Ledger]:
    """Opens the test's store, with options."""

    def open_store(**options: Any) -> runledger.Ledger:
        return runledger.open("memory:" if backend == "memory" else runledger.url_of(backend, tmp_path / "store"), **options)  # type: ignore[arg-type]

    return open_store


@pytest.fixture
def ledger(open_at: Callable[..., runledger.Ledger]) -> Iterator[runledger.Ledger]:
    with open_at() as ledger:
        yield ledger


@pytest.fixture
def memory() -> Iterator[runledger.Ledger]:
    with runledger.open("memory:") as ledger:
        yield ledger
