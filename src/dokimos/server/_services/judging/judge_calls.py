"""A call to a model on its way into the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dokimos.judges import JudgeReply
from dokimos.server._db.ids import new_id
from dokimos.server._services.judging.judge_budgets import NOTHING, Amount, Exceeded


class CallStatus(StrEnum):
    """What became of a call."""

    RESERVED = "RESERVED"
    """It is being made."""
    ANSWERED = "ANSWERED"
    UNUSABLE = "UNUSABLE"
    """It was answered, and the reply is of no use."""
    FAILED = "FAILED"
    """It was made, and the endpoint did not answer, or answered that it failed."""
    LOST = "LOST"
    """Nobody knows how it ended: its server was killed or frozen, or it was cut off."""
    REPLACED = "REPLACED"
    """It was answered, and another reply to the same call counts."""
    EXPIRED = "EXPIRED"
    """It was answered, and its reply has been removed since."""


@dataclass(slots=True)
class ModelAccount:
    """What is known of the calls of one model of the job."""

    answered: int = 0
    largest: Amount | None = None
    """The most that one of them took, of each unit; None before the first answer."""
    in_flight: int = 0

    def count(self, spent: Amount) -> None:
        """Add a call that was answered."""
        self.answered += 1
        self.largest = Amount(1, *map(max, spent[1:], (self.largest or spent)[1:]))


@dataclass(slots=True, kw_only=True)
class NewCall:
    """A call that is to be made."""

    key: str | None
    identity: str
    amount: Amount
    call_id: str = field(default_factory=new_id)
    is_priced: bool = True
    """Whether the dollars of the amount are known."""
    is_assumed: bool = False
    """Whether nothing is known of what it may cost: then less is reserved where less is left."""
    created_at: int = 0
    """When it was reserved."""
    exceeded: Exceeded | None = None
    """The limit that it did not fit into."""


@dataclass(slots=True, kw_only=True)
class EndedCall:
    """A call that is over."""

    call: NewCall
    status: CallStatus | None
    """None for a call that was not made, whose row is removed."""
    spent: Amount = NOTHING
    is_priced: bool = True
    outcome: JudgeReply | None = None
    """The reply; one without text where there is only what it cost."""
    reply: str | None = None
    """The same, as the table keeps it."""
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class Group:
    """What one transaction stores."""

    ended: list[EndedCall] = field(default_factory=list)
    new: list[NewCall] = field(default_factory=list)
    puts: list[tuple[str, str, str]] = field(default_factory=list)
    """Key, identity and reply of what was answered together with something else, at no cost of its own."""
    rejected: list[str] = field(default_factory=list)
    """Keys of calls whose reply turned out to be of no use."""

    def __len__(self) -> int:
        return len(self.ended) + len(self.new) + len(self.puts) + len(self.rejected)
