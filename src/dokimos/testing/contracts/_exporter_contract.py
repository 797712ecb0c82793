"""What every exporter must do."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.exporters._base import Exporter, write_report
from dokimos.testing.contracts._contract_failure import attempt, check, missing_attribute, name_of

LETTERS = "Ærøskøbing日本語"
"""Letters that no format has to escape."""
ERROR = "ConnectionError: endpoint-nine is down"


class ExporterContract:
    """Tests of one exporter: `class TestTsv(ExporterContract): exporter = TsvExporter()`."""

    exporter: ClassVar[Exporter | None] = None
    shows_items: ClassVar[bool] = True
    """Whether a report holds the inputs and errors of items; a badge or a summary does not."""

    def read_back(self, report: str) -> ExperimentResult | None:
        """Return the result that a report holds; None where it cannot be read back."""
        return None

    @property
    def tested(self) -> Exporter:
        """The exporter under test."""
        if self.exporter is None:
            missing_attribute(self, "exporter", "exporter = MyExporter()")
        return self.exporter

    def test_it_has_a_name_and_extensions(self) -> None:
        tested = self.tested
        check(
            isinstance(tested, Exporter),
            f"{name_of(tested)} needs `name`, `extensions` and render(result).",
        )
        check(
            type(tested.name) is str and tested.name,
            f"{name_of(tested)}.name must be a text such as 'tsv'.",
        )
        check(
            type(tested.extensions) is tuple
            and tested.extensions
            and all(each.startswith(".") and each == each.lower() for each in tested.extensions),
            f"{name_of(tested)}.extensions must be a tuple of endings in lower case with their dot, such as "
            f"('.tsv',), not {tested.extensions!r}.",
        )

    @pytest.mark.parametrize("status", RunStatus)
    def test_every_status_is_rendered(self, status: RunStatus) -> None:
        self._render(make_result(status=status))

    def test_a_run_without_items_is_rendered(self) -> None:
        self._render(make_result(items=0))
        self._render(ExperimentResult(name="no repeats", runs=()))

    def test_several_repeats_are_rendered(self) -> None:
        self._render(make_result(runs=3))

    def test_unicode_is_kept(self) -> None:
        report = self._render(make_result())
        if self.shows_items:
            check(LETTERS in report, f"{name_of(self.tested)} must keep letters as they are: {LETTERS!r}.")

    def test_odd_texts_are_rendered_and_can_be_written(self, tmp_path: Path) -> None:
        # What breaks formats: control characters, half a character, ends of markup and CDATA, separators.
        odd = "\x00\x1b[31m \ud800 </script><b> ]]> | ` = \r\n \u2028"
        report = self._render(make_result(text=odd))
        attempt(
            lambda: write_report(tmp_path / "odd.report", report),
            f"{name_of(self.tested)} must return text that can be written.",
        )

    def test_errors_are_shown(self) -> None:
        report = self._render(make_result())
        if self.shows_items:
            check(
                "endpoint-nine" in report,
                f"{name_of(self.tested)} must show why an item errored; an error is not a score of 0.",
            )

    def test_what_is_not_known_is_rendered(self) -> None:
        bare = ItemResult(0, Example({}, {}), actual_outputs={}, eval_results=(EvalResult("Unscored"),))
        self._render(ExperimentResult(name="", runs=(RunResult(item_results=(bare,)),)))

    def test_it_renders_the_same_each_time_and_changes_nothing(self) -> None:
        result = make_result(runs=2)
        before = copy.deepcopy(result)
        first, second = self._render(result), self._render(result)
        check(first == second, f"{name_of(self.tested)} must render the same result as the same text.")
        check(result == before, f"{name_of(self.tested)} must not change the result.")

    def test_it_renders_in_several_threads(self) -> None:
        results = [make_result(items=count) for count in range(6)]
        expected = [self._render(result) for result in results]
        with ThreadPoolExecutor(3) as pool:
            rendered = list(pool.map(self.tested.render, results))
        check(rendered == expected, f"{name_of(self.tested)} must keep nothing between calls of render().")

    def test_it_leaves_files_to_dokimos(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A report is written at once and whole, which only the caller of `render` can do."""
        monkeypatch.chdir(tmp_path)
        report = self._render(make_result())
        written = sorted(path.name for path in tmp_path.iterdir())
        check(not written, f"{name_of(self.tested)}.render() wrote {written}; return the text instead.")
        path = write_report(tmp_path / "report", report)
        check(
            path.read_bytes() == report.encode("utf-8", "backslashreplace"),
            f"{name_of(self.tested)} must return the whole report, with its line ends.",
        )

    def test_what_can_be_read_back_is_the_same(self) -> None:
        for result in (make_result(), make_result(items=0), make_result(runs=3, status=RunStatus.STOPPED)):
            report = self._render(result)
            again = attempt(
                lambda report=report: self.read_back(report),  # type: ignore[misc] # bound at once
                f"A report of {name_of(self.tested)} cannot be read back.",
            )
            if again is None:
                pytest.skip("it cannot be read back")
            check(again == result, f"A report of {name_of(self.tested)} is read back as another result.")

    def _render(self, result: ExperimentResult) -> str:
        report = attempt(
            lambda: self.tested.render(result), f"{name_of(self.tested)} must render every result."
        )
        check(
            isinstance(report, str), f"{name_of(self.tested)}.render() must return str, not {type(report)}."
        )
        return report


def make_result(
    *, items: int = 4, runs: int = 1, status: RunStatus = RunStatus.COMPLETED, text: str = ""
) -> ExperimentResult:
    """Return a result with items that passed, failed, errored and were skipped."""
    repeats = tuple(
        RunResult(index=run, item_results=tuple(_item(index, text) for index in range(items)))
        for run in range(runs)
    )
    return ExperimentResult(
        name=f"contract {text}",
        description=f"Made by the contract of exporters. {text}",
        metadata={"version": "7"},
        runs=repeats,
        status=status,
        provenance=Provenance(run_id="contract", started_at="2026-01-01T00:00:00+00:00"),
        evaluators=(EvaluatorInfo(name="Match", threshold=0.5),),
    )


def _item(index: int, text: str) -> ItemResult:
    example = Example(
        {"input": f"{LETTERS} {index} {text}"},
        {"output": f"answer {index}"},
        metadata={"topic": "letters"},
        id=f"item-{index}",
    )
    if index % 4 == 2:
        return ItemResult(index, example, error=f"{ERROR} {text}".strip())
    score = EvalResult("Match", 1.0, threshold=0.5, success=True, reason=f"It matches. {text}")
    results: Mapping[int, EvalResult] = {
        1: EvalResult("Match", 0.0, threshold=0.5, success=False, reason=f"It differs. {text}"),
        3: EvalResult("Match", skipped="No expected output."),
    }
    outputs: dict[str, Any] = {"output": f"{LETTERS} {text}"}
    metrics = CallMetrics(10, 5, cost_usd=0.01, latency_ms=20.0)
    found = (results.get(index % 4, score),)
    return ItemResult(index, example, actual_outputs=outputs, eval_results=found, metrics=metrics)
