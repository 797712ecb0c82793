"""Who judges a case: our evaluators with their defaults, and other libraries' metrics of the same purpose."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from cases import HERE, Case
from store import MOST_TOKENS, SEED

from dokimos import EvalTestCase, judge
from dokimos.evaluators import AnswerRelevancy, Correctness, Faithfulness, LLMJudge

OURS: Final = "dokimos"
PEERS: Final = ("deepeval", "ragas")
ARMS: Final = (OURS, *PEERS)
EXPLAINED: Final = False
"""Whether metrics explain their score where that is a call of its own; it does not change the score."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an arm says of a case: a score in 0..1, or why there is none."""

    score: float | None
    error: str | None = None


class Arm(Protocol):
    """One library."""

    def judge(self, case: Case) -> Outcome:
        """Judge one case."""


class OurArm:
    """The evaluators of dokimos; `url` is where the model is."""

    def __init__(self, url: str) -> None:
        self._lm = judge(f"{url}#judge", seed=SEED, max_tokens=MOST_TOKENS, timeout=900)

    def judge(self, case: Case) -> Outcome:
        result = self._evaluator(case).evaluate(_test_case(case))
        return Outcome(result.score, result.error)

    def _evaluator(self, case: Case) -> Any:
        match case.evaluator:
            case "llm_judge":
                return LLMJudge(criteria=case.fields["criteria"], judge=self._lm)
            case "faithfulness":
                return Faithfulness(judge=self._lm, include_reason=EXPLAINED)
            case "answer_relevancy":
                return AnswerRelevancy(judge=self._lm)
            case _:
                return Correctness(judge=self._lm)


class PeerArm:
    """Another library in an interpreter of its own, asked by lines of JSON."""

    def __init__(self, name: str, python: Path, url: str) -> None:
        script = HERE / "peers" / f"{name}_arm.py"
        self._process = subprocess.Popen(
            [python, "-W", "ignore", script, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def judge(self, case: Case) -> Outcome:
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None
        assert answers is not None
        questions.write(json.dumps({"metric": case.evaluator, "case": case.fields}) + "\n")
        questions.flush()
        answer = json.loads(answers.readline())
        return Outcome(answer.get("score"), answer.get("error"))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def _test_case(case: Case) -> EvalTestCase:
    shown = case.fields
    outputs = {"output": shown["output"], **({"context": shown["context"]} if "context" in shown else {})}
    expected = {"output": shown["expected"]} if "expected" in shown else {}
    return EvalTestCase({"input": shown["input"]}, outputs, expected_outputs=expected)
