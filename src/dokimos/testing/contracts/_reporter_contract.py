"""What every reporter must do."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import evaluate
from dokimos.reporting._protocol import ReportedStatus, Reporter, RunHandle
from dokimos.testing.contracts._contract_failure import UNICODE, attempt, check, fail, name_of

_STEPS = ("start_run", "report_item", "complete_run", "flush", "close")


class ReporterContract:
    """Tests of a reporter: the subclass makes reporters that write to a fake of their destination."""

    def make_reporter(self) -> Reporter:
        """Return a reporter that works, made anew each time."""
        fail(f"Write make_reporter(self) in {type(self).__name__}; it returns a reporter that works.")

    def make_failing_reporter(self) -> Reporter | None:
        """Return one whose destination refuses everything; None where nothing can fail."""
        return None

    def read_items(self, reporter: Reporter) -> Sequence[object] | None:
        """Return what has arrived at the destination, one value for each item; None where nobody can tell."""
        return None

    def test_it_has_every_step(self) -> None:
        reporter = self.make_reporter()
        missing = [step for step in _STEPS if not callable(getattr(reporter, step, None))]
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
            f"{name_of(reporter)}.start_run() must return another handle for each repeat, not {first} twice.",
        )

    def test_repeats_may_overlap(self) -> None:
        reporter = self.make_reporter()
        first, second = self._start(reporter), self._start(reporter)

        def report() -> None:
            for index in range(3):
                reporter.report_item(second, _item(index))
                reporter.report_item(first, _item(index))
            reporter.complete_run(first, ReportedStatus.SUCCESS)
            reporter.complete_run(second, ReportedStatus.SUCCESS)
            reporter.flush()

        attempt(report, f"{name_of(reporter)} must take two repeats that go on at the same time.")
        self._check_count(reporter, 6)

    @pytest.mark.parametrize("status", ReportedStatus)
    def test_a_repeat_may_end_in_every_way_and_without_items(self, status: ReportedStatus) -> None:
        reporter = self.make_reporter()
        handle = self._start(reporter)

        def end() -> None:
            reporter.complete_run(handle, status)
            reporter.flush()

        attempt(
            end,
            f"{name_of(reporter)} must take the end {status.value} of a repeat without items.",
        )

    def test_it_takes_items_of_every_kind(self) -> None:
        reporter = self.make_reporter()
        handle = self._start(reporter)
        items = (
            _item(0, UNICODE),
            ItemResult(1, Example({}, {}), error="TimeoutError: no answer within 30 s"),
            ItemResult(2, Example.of("q"), actual_outputs={"output": object()}),
            ItemResult(
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
            attempt(
                lambda name=name: reporter.start_run(name, {"text": UNICODE}),  # type: ignore[misc] # bound at once
                f"{name_of(reporter)}.start_run() must take the name {name!r}.",
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

    def _start(self, reporter: Reporter) -> RunHandle:
        handle = attempt(
            lambda: reporter.start_run("contract", {"model": "m"}), f"{name_of(reporter)} cannot start a run."
        )
        check(
            isinstance(handle, RunHandle),
            f"{name_of(reporter)}.start_run() must return a RunHandle, not {handle!r:.80}.",
        )
        return handle

    def _check_quiet(self, reporter: Reporter, result: ExperimentResult) -> None:
        named = [warning for warning in result.notices if name_of(reporter) in warning]
        check(not named, f"{name_of(reporter)} must not raise in an ordinary run: {' '.join(named)}")

    def _check_count(self, reporter: Reporter, expected: int) -> None:
        arrived = self.read_items(reporter)
        check(
            arrived is None or len(arrived) == expected,
            f"{name_of(reporter)} was given {expected} items, {len(arrived or ())} arrived after flush().",
        )


def _run(reporter: Reporter, runs: int = 1, parallelism: int = 1) -> ExperimentResult:
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
        journal=False,
    )


def _item(index: int, text: str = "") -> ItemResult:
    result = EvalResult("Match", 1.0, threshold=0.5, success=True, reason=f"It matches. {text}")
    example = Example.of(f"question {index} {text}", "answer", id=f"item-{index}")
    return ItemResult(index, example, actual_outputs={"output": text or "answer"}, eval_results=(result,))
