"""What the tests of one pytest session recorded, as one result."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.number_format import percent
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos._core.summary import Tally
from dokimos._core.text import pluralize
from dokimos._core.wire import from_json, to_json
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos._version import __version__
from dokimos.errors import ConfigurationError, DokimosError
from dokimos.experiment._reporters import Handles, Reporters, collect_server_run_ids
from dokimos.experiment._required_levels import compare, parse_levels
from dokimos.experiment._run_folders import new_run_id
from dokimos.experiment._run_provenance import python_version, read_code_provenance, scrub_command
from dokimos.exporters._base import export, exporter_for
from dokimos.reporting._protocol import Reporter
from dokimos.reporting._reported_run import RunEnd, RunOutcome, RunStart
from dokimos.testing._cases import CaseSource
from dokimos.testing._recorder import ItemRecorder

if TYPE_CHECKING:
    import pytest

LONGEST_ERROR: Final = 500

WireCase = dict[str, Any]
"""What a worker of xdist sends to the process that reports: plain values, since it can send no others."""


def build_case_report(
    item: pytest.Item,
    report: pytest.TestReport,
    recorder: ItemRecorder,
    source: CaseSource,
    raised: BaseException | None = None,
) -> WireCase | None:
    """Return what a test recorded and raised, None if it was skipped or recorded nothing."""
    if report.skipped or (recorder.is_empty and item.get_closest_marker("dokimos") is None):
        return None
    marker = item.get_closest_marker("dokimos_case")
    position = marker.args[0] if marker else 0
    error = _error_of(report) if report.failed and not recorder.has_failed else None
    result = recorder.item(
        index=recorder.index,
        id=_name_of(item, recorder.run_index, source),
        error=error,
        error_detail=None if error is None or raised is None else ErrorDetail.of(raised),
    )
    return {
        "test": _function_of(item),
        "position": position,
        "run": recorder.run_index,
        "item": to_json(result),
        "example_id": result.example.id if recorder.example is None else recorder.example.id,
        "evaluators": to_json(tuple(recorder.evaluators.values())),
        "module": _module_of(item) if source.reporter is not None else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedCase:
    test: str
    position: int
    run: int
    item: ItemResult


@dataclass(slots=True)
class _OpenRun:
    """A reporter's run of one test function."""

    reporters: Reporters
    handles: Handles = field(default_factory=list)
    evaluators: dict[str, EvaluatorInfo] = field(default_factory=dict)
    items: dict[tuple[int, str], ItemResult] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    def add(self, case: _RecordedCase, infos: Iterable[EvaluatorInfo]) -> None:
        """Remember what the end of the run tells; of several attempts the last counts."""
        self.items[case.run, case.item.key] = case.item
        for info in infos:
            self.evaluators.setdefault(info.name, info)

    def place_of(self, case: _RecordedCase) -> int:
        """Return the position of a case in the data set, or a free one where another case has that.

        Cases of one position differ by a parameter of their own.
        """
        key = case.item.key
        if key not in self.places:
            self.places[key] = max(self.taken) + 1 if case.position in self.taken else case.position
            self.taken.add(self.places[key])
        return self.places[key]

    def describe_end(self, *, interrupted: bool) -> RunEnd:
        return RunEnd(
            outcome=RunOutcome.INTERRUPTED if interrupted else RunOutcome.FINISHED,
            summary=Tally.of(self.items.values()).summary(),
            evaluators=tuple(self.evaluators.values()),
        )


class SessionRecord:
    """Collects cases, forwards them to reporters, and writes the reports at the end."""

    def __init__(self, name: str, *, reports: Sequence[str], fail_under: Sequence[str]) -> None:
        for path in reports:
            # For its error: a wrong ending is reported before the tests run, and not after an hour.
            exporter_for(path)
        self._name = name
        self._reports = reports
        self._levels = parse_levels(fail_under, "--dokimos-fail-under")
        self._started = _now()
        self._id = new_run_id(datetime.datetime.now())
        self._cases: dict[tuple[str, int, str], _RecordedCase] = {}
        self._evaluators: dict[str, EvaluatorInfo] = {}
        self._sources: dict[str, CaseSource] = {}
        self._runs: dict[str, _OpenRun] = {}
        self._lines: list[str] = []
        self._problems: list[str] = []

    @property
    def has_problems(self) -> bool:
        """Whether the session fails because of a missed level or a report that was not written."""
        return bool(self._problems)

    def register_reporter(self, item: pytest.Item, source: CaseSource) -> None:
        """Remember the reporter of a test function that runs in this process."""
        self._sources[_function_of(item)] = source

    def add(self, case: WireCase) -> None:
        """Add one case, as soon as its test has ended."""
        found = _RecordedCase(
            test=case["test"],
            position=case["position"],
            run=case["run"],
            item=from_json(ItemResult, case["item"]),
        )
        self._cases[found.test, found.run, found.item.key] = found  # of several attempts the last
        infos = from_json(tuple[EvaluatorInfo, ...], case["evaluators"])
        for info in infos:
            self._evaluators.setdefault(info.name, info)
        run = self._run_of(found.test, case["module"])
        if run is not None:  # its readers pair items by the ids of the data set, not by the names of tests
            example = replace(found.item.example, id=case["example_id"])
            item = replace(found.item, index=run.place_of(found), example=example)
            run.reporters.item(item, found.run)
            run.add(found, infos)

    def finish(self, *, interrupted: bool) -> None:
        """Complete the reporters' runs, compare with the required levels and write the reports."""
        ids: list[str] = []
        for run in self._runs.values():
            run.reporters.end(run.handles, run.describe_end(interrupted=interrupted))
            ids += collect_server_run_ids(run.handles)
            self._lines += [f"! {warning}" for warning in run.reporters.warnings()]
        if ids:
            self._set_server_run_ids(ids)
        result = self.result(RunStatus.INTERRUPTED if interrupted else RunStatus.COMPLETED)
        if self._levels:
            misses, problems = compare(self._levels, result)
            self._problems += misses + [f"--dokimos-fail-under: {problem}" for problem in problems]
        for path in self._reports:
            try:
                self._lines.append(f"report  {export(result, path)}")
            except DokimosError as error:
                self._problems.append(str(error))

    def _set_server_run_ids(self, ids: Sequence[str]) -> None:
        from dokimos.gate._github import write_server_run_ids

        try:
            write_server_run_ids(ids, os.environ)
        except OSError as error:
            self._lines.append(f"! The output server_run_ids could not be set: {error}")

    def result(self, status: RunStatus = RunStatus.COMPLETED) -> ExperimentResult:
        """Return everything recorded so far, in an order that does not depend on which test ended first."""
        return ExperimentResult(
            name=self._name,
            runs=tuple(self._repeats()),
            provenance=replace(self._provenance, ended_at=_now()),
            evaluators=tuple(sorted(self._evaluators.values(), key=lambda info: info.name)),
            status=status,
        )

    @cached_property
    def _provenance(self) -> Provenance:
        return Provenance(
            dokimos_version=__version__,
            python_version=python_version(),
            started_at=self._started,
            command=scrub_command(),
            **read_code_provenance(),
        )

    def write_summary(self, terminal: pytest.TerminalReporter) -> None:
        """Print the summary if anything was recorded."""
        if not (self._cases or self._lines or self._problems):
            return
        terminal.section("dokimos", sep="=")
        terminal.line(escape_control_characters(_summary(self.result())))
        for line in self._lines:
            terminal.line(escape_control_characters(line))
        for problem in self._problems:
            terminal.line(escape_control_characters(f"FAILED  {problem}"), red=True)

    def _repeats(self) -> Iterator[RunResult]:
        cases = sorted(self._cases.values(), key=lambda case: (case.test, case.position, case.item.key))
        keys = dict.fromkeys(case.item.key for case in cases)
        positions = {key: index for index, key in enumerate(keys)}
        for run_index in sorted({case.run for case in cases}):
            items = (
                ItemResult(
                    positions[case.item.key],
                    case.item.example,
                    actual_outputs=case.item.actual_outputs,
                    eval_results=case.item.eval_results,
                    metrics=case.item.metrics,
                    error=case.item.error,
                    error_detail=case.item.error_detail,
                )
                for case in cases
                if case.run == run_index
            )
            yield RunResult(index=run_index, item_results=tuple(items))

    def _run_of(self, test: str, module: Mapping[str, Any] | None) -> _OpenRun | None:
        if test not in self._runs:
            source = self._sources.get(test) or (None if module is None else _source_in(module, self._lines))
            if source is None or source.reporter is None:
                return None
            run = _OpenRun(Reporters([_load_reporter(source.reporter)]))
            start = RunStart(
                run_id=f"{self._id} {test}",
                name=test,
                metadata=source.metadata,
                provenance=self._provenance,
            )
            run.handles = run.reporters.begin(start)
            self._runs[test] = run
        return self._runs[test]


def _summary(result: ExperimentResult) -> str:
    parts = [pluralize(len(result.item_results), "case")]
    if result.pass_rate is not None:
        parts.append(f"{percent(result.pass_rate)} passed")
    errored = sum(item.errored for item in result.item_results)
    if errored:
        parts.append(f"{errored} errored")
    means = ((name, result.average_score(name)) for name in result.evaluator_names)
    parts += [f"{name} {mean:.3f}" for name, mean in means if mean is not None]
    return " | ".join(parts)


def _function_of(item: pytest.Item) -> str:
    """Return the id of a test function without its parameters."""
    return _node_prefix(item) + str(getattr(item, "originalname", None) or item.name)


def _name_of(item: pytest.Item, run_index: int, source: CaseSource) -> str:
    """Return a name that a case has in each repeat."""
    node = _node_prefix(item) + str(item.name)
    # Without the suffix of the repeat, so that the repeats of a case are one item of the result.
    return node if source.runs == 1 else "".join(node.rpartition(f"-run{run_index + 1}")[::2])


def _node_prefix(item: pytest.Item) -> str:
    """Return the part of an id before the test's name; xdist may write a group after the name."""
    assert item.parent is not None, "a test has a module"
    return f"{item.parent.nodeid}::"


def _error_of(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr) if crash is None else str(crash.message)
    return text[:LONGEST_ERROR].strip() or "the test failed"


def _module_of(item: Any) -> dict[str, Any]:
    """Return how to find the marker of a test in a process that has not collected it."""
    owners = [owner.name for owner in item.listchain() if type(owner).__name__ == "Class"]
    return {
        "name": item.module.__name__,
        "path": str(item.path),
        "function": ".".join([*owners, item.originalname]),
        "sys_path": list(sys.path),
    }


def _source_in(module: Mapping[str, Any], lines: list[str]) -> CaseSource | None:
    try:
        places: list[Any] = [_import_module(module)]
        for name in module["function"].split("."):
            places.append(getattr(places[-1], name))
        marks = (mark for place in reversed(places) for mark in _marks(place) if mark.name == "dokimos")
        return CaseSource.of(next(marks))
    except Exception as error:  # importing a test module runs the user's code
        lines.append(f"! The reporter of {module['function']} could not be reached: {error}")
        return None


def _marks(place: object) -> Iterator[Any]:
    """Yield the marks of a function, a class or a module, the last one given first as in pytest."""
    marks = getattr(place, "pytestmark", [])
    for mark in reversed(marks if isinstance(marks, list | tuple) else [marks]):
        yield getattr(mark, "mark", mark)


def _import_module(module: Mapping[str, Any]) -> Any:
    # The worker that collected the test had put these there, as conftest.py and pytest's import modes do.
    sys.path.extend(path for path in module["sys_path"] if path not in sys.path)
    try:
        imported = importlib.import_module(module["name"])
        # Without packages, test modules of two folders may have the same name.
        if Path(imported.__file__ or "") == Path(module["path"]):
            return imported
    except ImportError:
        pass
    spec = importlib.util.spec_from_file_location(module["name"], module["path"])
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{module['path']} cannot be imported.")
    imported = sys.modules[module["name"]] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    return imported


def _load_reporter(reporter: Reporter | str) -> Reporter:
    if not isinstance(reporter, str):
        return reporter
    module, _, attribute = reporter.partition(":")
    loaded: Any = importlib.import_module(module)
    for name in attribute.split("."):
        loaded = getattr(loaded, name)
    return cast("Reporter", loaded() if isinstance(loaded, type) else loaded)


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
