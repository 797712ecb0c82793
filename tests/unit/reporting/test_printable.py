"""Every value that a user meets says in one line what it is, and shows itself as the commands do."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from dokimos._core.eval_result import EvalResult
from dokimos._core.example import Example
from dokimos._core.printable import Printable
from dokimos._core.results import ExperimentResult, ItemResult, RunResult
from dokimos._core.test_case import EvalTestCase
from dokimos.comparison._comparison_builder import compare_runs
from dokimos.comparison._planning import assumptions_of, plan
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._calibration_result import Calibration
from dokimos.evaluators._labelled_verdicts import LabelledVerdict
from dokimos.gate._gate import RegressionGate
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._noise_report import noise
from dokimos.gate._verdict import GateVerdict
from dokimos.reporting._tables import cell_width

EVIL = "<img src=x onerror=alert(1)> \x1b[2J 日本語"
NAME = f"Match {EVIL}"


def result(*scores: list[int], name: str = "support") -> ExperimentResult:
    """Return a result with a run for each list of scores."""
    runs = []
    for index, run in enumerate(scores):
        items = [
            ItemResult(
                place,
                Example.of(f"question {place}", "yes", id=f"{EVIL} {place}"),
                actual_outputs={"output": EVIL},
                eval_results=(EvalResult(NAME, score, threshold=1.0, success=score == 1, reason=EVIL),),
            )
            for place, score in enumerate(run)
        ]
        runs.append(RunResult(index=index, item_results=tuple(items)))
    return ExperimentResult(name=name, runs=tuple(runs))


BEFORE, NOW = [1] * 30, [0] * 10 + [1] * 20


def calibration() -> Calibration:
    rows = [
        LabelledVerdict(
            key=f"{EVIL} {n}",
            score=None,
            label=n % 2 == 0,
            verdict=n % 3 == 0,
            grade=float(n % 2 == 0),
            reason=EVIL,
        )
        for n in range(24)
    ]
    return Calibration.of(rows, evaluator=NAME)


def verdict() -> GateVerdict:
    from dokimos.comparison._snapshot import Snapshot

    gate = RegressionGate(config=GateConfig(), accept_command="dokimos gate latest --update-baseline")
    return gate.check_against(result(NOW), Snapshot.of(result(BEFORE)))


VALUES: dict[str, Callable[[], Printable]] = {
    "result": lambda: result(NOW),
    "item": lambda: result(NOW).item_results[0],
    "comparison": lambda: compare_runs(result(BEFORE), result(NOW)),
    "verdict": verdict,
    "plan": lambda: plan(assumptions_of(result(NOW, NOW)), items=30, drop=0.3, repeats=[1]),
    "calibration": calibration,
    "noise": lambda: noise(result(NOW, NOW[::-1])),
    "dataset": lambda: Dataset([Example.of(EVIL, EVIL, id=EVIL)] + [Example.of("q", "a")] * 40, name=EVIL),
    "example": lambda: Example.of(EVIL * 99, {"n": EVIL}, id=EVIL, topic=EVIL),
    "case": lambda: EvalTestCase.of(EVIL * 99, {"n": EVIL}, EVIL),
    "score": lambda: EvalResult(NAME, 0.5, threshold=1.0, success=False, reason=EVIL * 99),
}
VALUES = {kind: cache(make) for kind, make in VALUES.items()}

SAYS = {
    "result": ("66.7 % passed (20/30)",),
    "item": ("failed", "threshold 1"),
    "comparison": ("Worse: pass rate", "pass rate", "100.0 %", "66.7 %", "10 regressed"),
    "verdict": ("Eval gate FAILED: pass rate 100.0 % -> 66.7 %", "-33.3 pts"),
    "plan": ("To see a drop of 30 points", "pass rate", "answers"),
    "calibration": ("against people", "Cohen's kappa", "people pass"),
    "noise": ("30 items x 2 runs", "20 of 30", "Proposed"),
    "dataset": ("41 examples", "... and 36 more"),
    "example": ("topic",),
    "case": ("expected",),
    "score": ("0.50 (threshold 1)",),
}


@pytest.mark.parametrize("kind", VALUES)
def test_the_repr_is_one_line_and_never_long(kind: str) -> None:
    value = VALUES[kind]()
    assert repr(value).startswith(f"<{type(value).__name__} ")
    assert len(repr(value)) < 300
    assert repr(value).isprintable()


@pytest.mark.parametrize("kind", VALUES)
def test_printed_it_is_a_verdict_and_a_table(kind: str) -> None:
    text = str(VALUES[kind]())
    for said in SAYS[kind]:
        assert said in text
    assert "\x1b" not in text
    assert len(text.splitlines()) < 22


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_it_prints_in_lines_that_fit(kind: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", out := io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    VALUES[kind]().print(verbose=True)
    out.seek(0)
    lines = out.read().splitlines()
    assert "\x1b" not in "".join(lines)
    kept = ("To accept the change", "  ✗", "  –", "support")
    assert [line for line in lines if cell_width(line) > columns and not line.startswith(kept)] == []


@pytest.mark.parametrize("kind", VALUES)
def test_it_prints_where_standard_output_knows_ascii_only(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out := io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    value = VALUES[kind]()
    print(value)
    value.print()
    out.seek(0)
    printed = out.read()
    assert printed.strip()
    assert printed.isascii()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", VALUES)
def test_a_notebook_shows_foreign_text_as_text(kind: str) -> None:
    parser = Tags()
    parser.feed(VALUES[kind]()._repr_html_())
    assert parser.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "\x1b" not in parser.text
    if kind != "plan" and kind != "verdict":
        assert "<img" in parser.text


def test_a_value_that_cannot_be_shown_still_has_a_repr() -> None:
    class Odd(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    broken = Example.of("q")
    object.__setattr__(broken, "inputs", Odd())
    assert repr(broken) == "<Example that cannot be shown (RuntimeError)>"
