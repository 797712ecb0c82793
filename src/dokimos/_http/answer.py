"""The response to a request, or the failure to get one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Cause(Enum):
    """What kept a request from being answered."""

    NAME = auto()
    """No name server knows the host."""
    CONNECTION = auto()
    """Nobody listens there, or the connection was cut."""
    TLS = auto()
    """There is no secure connection: a certificate that is not trusted, or no TLS at all."""
    TIME = auto()
    """It took too long."""
    CONTENT = auto()
    """What was answered is not HTTP, or not compressed as it says."""


class NoAnswer(Exception):
    """A request had no complete answer; the text says why."""

    def __init__(
        self,
        reason: str,
        *,
        timed_out: bool = False,
        unsent: bool = False,
        cause: Cause = Cause.CONNECTION,
    ) -> None:
        self.timed_out = timed_out
        self.unsent = unsent
        """There was no connection to send it on."""
        self.cause = cause
        super().__init__(reason)


class Oversized(Exception):
    """An answer was not read to its end: it is larger than is allowed."""


class Unsendable(Exception):
    """A request cannot be sent as it is, such as one with a line break in a header."""


class Forbidden(Exception):
    """A request was not sent: the address policy does not let it go there."""
