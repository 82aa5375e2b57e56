"""A request of the JSON form, while it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from json.encoder import encode_basestring

from . import _abi
from ._absent import Absent
from ._errors import InvalidInput
from ._owners import Execution, Principal
from ._payload import Payload, PayloadLike, encode_value
from ._time import write_time


def encode_text(field: str, value: str) -> bytes:
    """A text as JSON.

    :raises InvalidInput: for what is no text or holds a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInput.of(field, f"a str was expected, not {type(value).__name__}")
    try:
        return encode_basestring(value).encode()
    except UnicodeEncodeError:
        raise InvalidInput.of(field, "a lone surrogate is no text") from None


class Request:
    """A request of the JSON form, while it is written. Values are written at once, so that the caller's own can change."""

    __slots__ = ("op", "_members")

    def __init__(self, op: str) -> None:
        self.op = op
        self._members = [b'{"op":"%b"' % op.encode()]

    def to_json(self, cursor: str | None = None) -> bytes:
        """The request, with a cursor for a later page in place of where the first one began."""
        if cursor is None:
            return b",".join(self._members) + b"}"
        place = (b'"cursor":', b'"offset":', b'"withTotal":')
        members = [member for member in self._members if not member.startswith(place)]
        return b",".join([*members, b'"withTotal":false', b'"cursor":' + encode_text("cursor", cursor)]) + b"}"

    def _add(self, field: str, value: bytes) -> None:
        self._members.append(b'"%b":%b' % (field.encode(), value))

    def text(self, field: str, value: str) -> None:
        self._add(field, encode_text(field, value))

    def integer(self, field: str, value: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInput.of(field, f"an int was expected, not {type(value).__name__}")
        # An enumeration's member is written as its number; no field takes one of more than 20 digits.
        number = int(value)
        if not -(2**64) < number < 2**64:
            raise InvalidInput.of(field, "out of range")
        self._add(field, b"%d" % number)

    def boolean(self, field: str, value: bool) -> None:
        if not isinstance(value, bool):
            raise InvalidInput.of(field, f"a bool was expected, not {type(value).__name__}")
        self._add(field, b"true" if value else b"false")

    def time(self, field: str, value: datetime) -> None:
        self._add(field, b'"%b"' % write_time(field, value).encode())

    def payload(self, field: str, value: PayloadLike) -> None:
        if isinstance(value, Payload):
            # Its bytes may be of anywhere: a Payload can be made by hand.
            self._add(field, _checked(field, value.raw))
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self._add(field, _checked(field, bytes(value)))
        elif isinstance(value, Absent):
            raise InvalidInput.of(field, "is required")
        else:
            self._add(field, encode_value(field, value))

    def texts(self, field: str, values: Iterable[str]) -> None:
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise InvalidInput.of(field, f"several texts were expected, not {type(values).__name__}")
        self._add(field, b"[%b]" % b",".join([encode_text(field, value) for value in values]))

    def execution(self, field: str, value: Execution) -> None:
        if not isinstance(value, Execution):
            raise InvalidInput.of(field, f"an Execution was expected, not {type(value).__name__}")
        token = encode_text(f"{field}.token", value.token)
        lease = write_time(f"{field}.queueLeaseExpiresAt", value.lease_expires_at).encode()
        self._add(field, b'{"token":%b,"queueLeaseExpiresAt":"%b"}' % (token, lease))

    def principal(self, field: str, value: Principal) -> None:
        if not isinstance(value, Principal):
            raise InvalidInput.of(field, f"a Principal was expected, not {type(value).__name__}")
        kind, id = encode_text(f"{field}.type", value.type), encode_text(f"{field}.id", value.id)
        self._add(field, b'{"type":%b,"id":%b}' % (kind, id))


def _checked(field: str, raw: bytes) -> bytes:
    """JSON text that is given as it is goes into the request only if it is one value, whole."""
    _abi.check_json(field, raw)
    return raw
