"""Times: aware datetimes in UTC, exact to the microsecond. No float is ever in between."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from ._errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_MIN_US = (datetime.min.replace(tzinfo=timezone.utc) - EPOCH) // _MICROSECOND
_MAX_US = (datetime.max.replace(tzinfo=timezone.utc) - EPOCH) // _MICROSECOND


def read_time(text: str) -> datetime:
    """A time as the library writes it, which is always in UTC with six digits of a fraction."""
    return datetime.fromisoformat(text[:-1] + "+00:00")


def time_of_us(us: int) -> datetime:
    """The instant so many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=us)


def us_of_time(field: str, time: datetime) -> int:
    """The instant as microseconds after 1970.

    :raises InvalidInput: for what is no datetime, a naive one, or one that is not within the years 1 to 9999 in UTC.
    """
    if not isinstance(time, datetime):
        raise InvalidInput.of(field, f"a datetime was expected, not {type(time).__name__}")
    if time.utcoffset() is None:
        raise InvalidInput.of(field, "a naive datetime says no instant: give it a tzinfo, such as timezone.utc")
    us = (time - EPOCH) // _MICROSECOND
    if not _MIN_US <= us <= _MAX_US:
        raise InvalidInput.of(field, "not within the years 0001 to 9999 in UTC")
    return us


def write_time(field: str, time: datetime) -> str:
    """The instant in the one form of text that the library writes.

    :raises InvalidInput: as :func:`us_of_time`.
    """
    return time_of_us(us_of_time(field, time)).isoformat(timespec="microseconds")[:-6] + "Z"
