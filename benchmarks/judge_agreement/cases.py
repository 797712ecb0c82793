"""The labelled cases, one file for each evaluator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
EVALUATORS: Final = ("llm_judge", "faithfulness", "answer_relevancy", "correctness")


@dataclass(frozen=True, slots=True)
class Case:
    """An output with the verdict that people would give."""

    evaluator: str
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.evaluator}/{self.fields['id']}"

    @property
    def group(self) -> int:
        """The number of the input, which has a good and a bad output."""
        return int(self.fields["id"][:-1])

    @property
    def good(self) -> bool:
        return bool(self.fields["label"])


def cases_of(evaluator: str) -> Sequence[Case]:
    """Return the cases of an evaluator in the order of the file."""
    lines = (HERE / "cases" / f"{evaluator}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Case(evaluator, json.loads(line)) for line in lines]
