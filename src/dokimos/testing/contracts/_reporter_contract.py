"""What every reporter must do."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import evaluate
from dokimos.experiment._reporters import AnyReporter, begin_run, end_run, missing_steps
from dokimos.reporting._protocol import BaseReporter, RunHandle
from dokimos.reporting._reported_run import ReportedItem, RunEnd, RunOutcome, RunStart
from dokimos.testing.contracts._contract_failure import UNICODE, attempt, check, fail, name_of


class ReporterContract:
    """Tests of a reporter: the subclass makes reporters that write to a fake of their destination.

    A reporter that has `begin` and `end` is called by them, any other by `start_run` and `complete_run`.
    """

    def make_reporter(self) -> AnyReporter:
        """Return a reporter that works, made anew each time."""
        fail(f"Write make_reporter(self) in {type(self).__name__}; it returns a reporter that works.")

    def make_failing_reporter(self) -> AnyReporter | None:
        """Return one whose destination refuses everything; None where nothing can fail."""
        return None

    def read_items(self, reporter: AnyReporter) -> Sequence[object] | None:
        """Return what has arrived at the destination, one value for each item; None where nobody can tell."""
        return None

    def test_it_has_every_step(self) -> None:
        reporter = self.make_reporter()
        missing = missing_steps(reporter)
        check(
            not missing,
            f"{name_of(reporter)} lacks {', '.join(missing)}; inherit from dokimos.BaseReporter, which does "
            "nothing at each step.",
        )

    def test_it_takes_a_whole_run(self) -> None:
        reporter = self.make_reporter()
        result = _run(reporter, runs=2)
        self._check_quiet(reporter, result)
        self._check_count(reporter, 6)

    def test_every_repeat_has_its_own_handle(self) -> None:
        reporter = self.make_reporter()
        first, second = self._start(reporter), self._start(reporter)
        check(
            first != second,
            f"{name_of(reporter)}.{_first_step(reporter)}() must return another handle for each repeat, not "
            f"{first} twice.",
        )

    def test_repeats_may_overlap(self) -> None:
        reporter = self.make_reporter()
        first, second = self._start(reporter), self._start(reporter)

        def report() -> None:
            for index in range(3):
                reporter.report_item(second, _item(index))
                reporter.report_item(first, _item(index))
            end_run(reporter, first, RunEnd(outcome=RunOutcome.FINISHED))
            end_run(reporter, second, RunEnd(outcome=RunOutcome.FINISHED))
            reporter.flush()

        attempt(report, f"{name_of(reporter)} must take two repeats that go on at the same time.")
        self._check_count(reporter, 6)

    @pytest.mark.parametrize("outcome", RunOutcome)
    def test_a_repeat_may_end_in_every_way_and_without_items(self, outcome: RunOutcome) -> None:
        reporter = self.make_reporter()
        handle = self._start(reporter)

        def end() -> None:
            end_run(reporter, handle, RunEnd(outcome=outcome, error=f"Stopped. {UNICODE}"))
            reporter.flush()

        attempt(
            end,
            f"{name_of(reporter)} must take the end {outcome.value!r} of a repeat without items.",
        )

    def test_it_takes_items_of_every_kind(self) -> None:
        reporter = self.make_reporter()
        handle = self._start(reporter)
        items = (
            _item(0, UNICODE),
            ReportedItem(1, Example({}, {}), error="TimeoutError: no answer within 30 s"),
            ReportedItem(2, Example.of("q"), actual_outputs={"output": object()}),
            ReportedItem(
                3, Example.of("q"), actual_outputs={}, eval_results=(EvalResult("Match", error="E: x"),)
            ),
        )
        for item in items:
            attempt(
                lambda item=item: reporter.report_item(handle, item),  # type: ignore[misc] # bound at once
                f"{name_of(reporter)}.report_item() must take every item, also {item!r:.80}.",
            )
        attempt(reporter.flush, f"{name_of(reporter)}.flush() must not raise.")
        self._check_count(reporter, 4)

    def test_a_name_may_be_empty_or_odd(self) -> None:
        reporter = self.make_reporter()
        for name in ("", UNICODE, "a/b\\c:d?e"):
            message = f"{name_of(reporter)}.{_first_step(reporter)}() must take the name {name!r}."
            self._start(reporter, message, name=name)

    def test_little_may_be_known_when_a_repeat_begins(self) -> None:
        reporter = self.make_reporter()
        infos = (EvaluatorInfo(name="Stars", score_range=(1.0, 5.0), direction="lower_is_better"),)
        starts = (
            RunStart(run_id="stream", planned_items=None),
            RunStart(run_id="empty", planned_items=0, repeat_index=1, repeat_count=2, evaluators=infos),
        )
        for start in starts:
            attempt(
                lambda start=start: begin_run(reporter, start),  # type: ignore[misc] # bound at once
                f"{name_of(reporter)}.{_first_step(reporter)}() must take a repeat of a stream, without "
                "items, or with an evaluator of any kind.",
            )

    def test_a_resumed_run_may_report_its_items_again(self, tmp_path: Path) -> None:
        first = _run(self.make_reporter(), runs=2, run_dir=tmp_path)
        reporter = self.make_reporter()
        self._check_quiet(reporter, _run(reporter, runs=2, run_dir=tmp_path, resume=first.run_id))
        handle = self._start(reporter, run_id="again", is_resumed=True)
        for index in (0, 0):
            attempt(
                lambda index=index: reporter.report_item(handle, _item(index, was_reported=True)),  # type: ignore[misc] # bound at once
                f"{name_of(reporter)}.report_item() must take an item that was reported before.",
            )

    def test_it_may_be_closed_more_than_once(self) -> None:
        reporter = self.make_reporter()
        _run(reporter)
        for _ in range(2):
            attempt(reporter.close, f"{name_of(reporter)}.close() must be harmless when it is called again.")

    def test_it_may_be_closed_without_a_run(self) -> None:
        reporter = self.make_reporter()
        attempt(reporter.close, f"{name_of(reporter)}.close() must be harmless before any run.")

    def test_experiments_may_share_it(self) -> None:
        reporter = self.make_reporter()
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(lambda _: _run(reporter, parallelism=2), range(3)))
        for result in results:
            self._check_quiet(reporter, result)
        self._check_count(reporter, 9)

    def test_its_failure_does_not_fail_a_run(self) -> None:
        reporter = self.make_failing_reporter()
        # A destination that cannot fail, such as a list in memory, needs no such test.
        if reporter is None:
            pytest.skip("it does not say how it fails")
        result = _run(reporter)
        check(
            result.pass_count == 3,
            f"A run with a broken {name_of(reporter)} must end like any other: raise only Exception, never "
            "SystemExit, and change no item.",
        )
        check(
            any(name_of(reporter) in warning for warning in result.notices),
            f"{name_of(reporter)} must raise where it cannot do its work, at the latest in flush(): the run "
            "then names it in its warnings.",
        )

    def _start(self, reporter: AnyReporter, message: str = "", **values: Any) -> RunHandle:
        values = {"name": "contract", "run_id": "20260131-1", "metadata": {"model": UNICODE}, **values}
        return attempt(
            lambda: begin_run(reporter, RunStart(**values)),
            message or f"{name_of(reporter)} cannot start a run.",
        )

    def _check_quiet(self, reporter: AnyReporter, result: ExperimentResult) -> None:
        named = [warning for warning in result.notices if name_of(reporter) in warning]
        check(not named, f"{name_of(reporter)} must not raise in an ordinary run: {' '.join(named)}")

    def _check_count(self, reporter: AnyReporter, expected: int) -> None:
        arrived = self.read_items(reporter)
        check(
            arrived is None or len(arrived) == expected,
            f"{name_of(reporter)} was given {expected} items, {len(arrived or ())} arrived after flush().",
        )


def _first_step(reporter: AnyReporter) -> str:
    return "begin" if hasattr(reporter, "begin") and not isinstance(reporter, BaseReporter) else "start_run"


def _run(
    reporter: AnyReporter,
    *,
    runs: int = 1,
    parallelism: int = 1,
    run_dir: Path | None = None,
    resume: str | None = None,
) -> ExperimentResult:
    examples = [Example.of(letter, letter.upper()) for letter in "abc"]
    return evaluate(
        examples,
        str.upper,
        [ExactMatch()],
        name="contract",
        runs=runs,
        parallelism=parallelism,
        reporters=[reporter],
        quiet=True,
        journal=run_dir is not None,
        run_dir=run_dir,
        resume=resume,
    )


def _item(index: int, text: str = "", *, was_reported: bool = False) -> ReportedItem:
    result = EvalResult("Match", 1.0, threshold=0.5, success=True, reason=f"It matches. {text}")
    example = Example.of(f"question {index} {text}", "answer", id=f"item-{index}")
    return ReportedItem(
        index,
        example,
        actual_outputs={"output": text or "answer"},
        eval_results=(result,),
        was_reported=was_reported,
    )
