"""How the commands of a batch are gathered, and where their answers come to stand."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ._answers import Read
from ._request import Request

T = TypeVar("T")

_MISSING: Any = object()


class Pending(Generic[T]):
    """The answer of a command of a batch: there once the batch has been committed."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: T = _MISSING

    @property
    def value(self) -> T:
        """The answer.

        :raises RuntimeError: while the batch has not been committed, or when it was refused.
        """
        if self._value is _MISSING:
            raise RuntimeError("the batch of this command has not been committed")
        return self._value

    def _fill(self, value: T) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Pending(...)" if self._value is _MISSING else f"Pending({self._value!r})"


class BatchCarrier:
    """Gathers requests until they are committed together."""

    __slots__ = ("_commands", "_is_committed")

    def __init__(self) -> None:
        self._commands: list[tuple[bytes, Read[Any], Pending[Any]]] = []
        self._is_committed = False

    def send(self, request: Request, read: Read[T]) -> Pending[T]:
        self._refuse_committed()
        pending: Pending[T] = Pending()
        self._commands.append((request.to_json(), read, pending))
        return pending

    def to_json(self) -> bytes:
        """The batch as a request, which ends the gathering."""
        self._refuse_committed()
        self._is_committed = True
        return b'{"op":"batch","commands":[%b]}' % b",".join([command for command, _, _ in self._commands])

    def read(self, o: Any, text: bytes) -> tuple[Any, ...]:
        """Gives every command its answer."""
        answers = []
        for (_, read, pending), result in zip(self._commands, o["results"], strict=True):
            answers.append(read(result, text))
            pending._fill(answers[-1])
        return tuple(answers)

    def _refuse_committed(self) -> None:
        if self._is_committed:
            raise RuntimeError("the batch has been committed")

    def __len__(self) -> int:
        return len(self._commands)
