"""A test of promptfoo and its assertions while they are converted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.programs import Programs

Block = dict[str, Any]
_MISSING: Final = object()


@dataclass(slots=True)
class Case:
    """A test while it is converted."""

    variables: Mapping[str, Any]
    notes: Notes
    programs: Programs
    folder: Path
    judge: Block | None = None
    """The model that judges, where the configuration names one."""
    needs_judge: bool = False
    """Whether the judge of something is not named."""
    truth: Any = _MISSING
    context: list[str] | None = None
    tools: list[Any] = field(default_factory=list)
    """Names of tools that are to be called, or what a suite says of each."""
    tools_are: dict[str, bool] = field(default_factory=dict)
    """`exact` and `ordered`, where they hold."""
    transforms: tuple[str, ...] = ()
    """Programs that change a reply before any assertion looks at it."""
    reads_json: bool = False
    """Whether programs are given what a reply in JSON says, and not its text."""

    @property
    def has_truth(self) -> bool:
        return self.truth is not _MISSING

    def expect(self, value: object, kind: str) -> Block | None:
        """Return what a metric says of the value that it expects; None, with a note, where there is none.

        The first one of a case is its ground truth, which metrics expect without saying so.
        """
        if value is None:
            self.notes.lose(f"{kind}: it has no value")
            return None
        if not self.has_truth:
            self.truth = value
        return {} if self.truth == value else {"ground_truth": value}


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion that is being converted into a metric."""

    kind: str
    plain: str
    value: Any
    raw: Mapping[str, Any]
    case: Case
    negated: bool
    transforms: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)

    @property
    def texts(self) -> list[str]:
        values = self.value if isinstance(self.value, list) else str(self.value).split(",")
        return [str(one).strip() if isinstance(self.value, str) else str(one) for one in values]

    def threshold(self, usual: float) -> float:
        threshold = self.raw.get("threshold")
        return float(usual if threshold is None else threshold)

    def lose(self, why: str) -> Block | None:
        """Note why there is no metric."""
        self.case.notes.lose(f"{self.kind}: {why}")
        return None
