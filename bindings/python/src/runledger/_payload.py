"""Payloads: any one JSON value, kept byte for byte."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ._absent import Absent
from ._errors import InvalidInput


class Payload:
    """A payload of a record. It is immutable: every use of :attr:`value` decodes it anew."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @property
    def raw(self) -> bytes:
        """The JSON text as it is stored, in UTF-8."""
        return self._raw

    @property
    def value(self) -> Any:
        """The value, decoded at each use: keep it in a variable if it is used twice."""
        return json.loads(self._raw)

    def __eq__(self, other: object) -> bool:
        return self._raw == other._raw if isinstance(other, Payload) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        shown = self._raw if len(self._raw) <= 64 else self._raw[:61] + b"..."
        return f"Payload({shown!r})"

    def __reduce__(self) -> tuple[type[Payload], tuple[bytes]]:
        return Payload, (self._raw,)


PayloadLike = Union[None, bool, int, float, str, bytes, bytearray, memoryview, Payload, Mapping[str, Any], Sequence[Any], Absent]
"""What a payload parameter takes: a value that JSON can hold; ``bytes``, which are taken as JSON text as they are; a
:class:`Payload`; or :data:`~runledger.ABSENT` where the payload may be left out."""


def read_payload(place: tuple[int, int], text: bytes) -> Payload:
    """The payload that stands at a place of an answer: where it begins, and how long it is."""
    begin, length = place
    return Payload(text[begin : begin + length])


def encode_value(field: str, value: object) -> bytes:
    """A Python value as JSON text.

    :raises InvalidInput: for NaN and the infinities, lone surrogates, values that hold themselves or are nested too deep,
        and integers of more digits than Python writes.
    :raises TypeError: for what JSON can't hold.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode()
    except TypeError as e:
        raise TypeError(f"{field}: {e}") from None
    except RecursionError:
        raise InvalidInput.of(field, "nested too deep") from None
    except UnicodeEncodeError:
        raise InvalidInput.of(field, "a lone surrogate is no text") from None
    except ValueError as e:
        raise InvalidInput.of(field, str(e)) from None


def _plain(value: object) -> object:
    """What the encoder of the standard library does not know, although its type is taken."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no value that JSON can hold")
