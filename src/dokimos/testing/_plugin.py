"""The pytest plugin: data sets as parameters, recorded cases, one report for the whole session.

Test suites that do not use it pay for a few attribute lookups: nothing else of dokimos is imported before a
test is marked, a fixture requested or an option given.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from dokimos.testing._cases import CaseSource
    from dokimos.testing._recorder import ItemRecorder
    from dokimos.testing._session_record import SessionRecord

UPDATE_VARIABLE: Final = "DOKIMOS_UPDATE_BASELINE"
MODES: Final = ("record", "replay", "auto")

SESSIONS: Final[list[tuple[Path, Path]]] = []
"""The root of each session that is running and the folder that it was started in; several where a test runs
pytest itself, the innermost last. `dokimos.gate._gate_environment` looks here."""

_session = pytest.StashKey["SessionRecord"]()
_recorder = pytest.StashKey["ItemRecorder"]()
_failed_report = pytest.StashKey[Any]()
_previous = pytest.StashKey["str | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dokimos", "evaluations (dokimos)")
    group.addoption(
        "--dokimos-report", action="append", default=[], metavar="FILE",
        help="write what all tests recorded as one result: .html, .json, .md, .csv or .xml (repeatable)",
    )  # fmt: skip
    group.addoption(
        "--dokimos-fail-under", action="append", default=[], metavar="LEVEL",
        help="fail the session below a pass rate (0.9, 90%%) or a mean score (Name=0.8) (repeatable)",
    )  # fmt: skip
    group.addoption(
        "--dokimos-cassette", choices=MODES,
        help="record or replay the replies of judges, in cassettes/ beside each test module",
    )  # fmt: skip
    group.addoption(
        "--dokimos-update-baseline", action="store_true",
        help="let assert_no_regression accept what it is given as the new baseline",
    )  # fmt: skip
    parser.addini("dokimos_ids", "template for the ids of cases, such as '{index}: {input}'", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "dokimos(dataset, *, json, jsonl, runs, argument, ids, metadata, reporter): "
        "run the test for each example of a data set",
    )
    config.addinivalue_line(
        "markers", "dokimos_live(env): skip the test where one of these environment variables is not set"
    )
    SESSIONS.append(_session_folders(config))
    config.addinivalue_line("markers", "dokimos_case(position, index, run_index): set by dokimos")
    if config.getoption("dokimos_update_baseline"):
        config.stash[_previous] = os.environ.get(UPDATE_VARIABLE)
        os.environ[UPDATE_VARIABLE] = "true"
    if config.getoption("dokimos_report") or config.getoption("dokimos_fail_under"):
        _session_of(config)
    # Workers of xdist send their reports to the main process, which alone collects them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Collector(config), "dokimos-collector")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _session_folders(config) in SESSIONS:
        SESSIONS.remove(_session_folders(config))
    if _previous in config.stash:
        before = config.stash[_previous]
        os.environ.pop(UPDATE_VARIABLE, None)
        if before is not None:
            os.environ[UPDATE_VARIABLE] = before


def _session_folders(config: pytest.Config) -> tuple[Path, Path]:
    return config.rootpath, config.invocation_params.dir


class _Collector:
    """Receives every test report in the process that the user started, those of xdist workers included."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: Any) -> None:
        case = getattr(report, "dokimos", None)
        flaky = report.outcome == "rerun"  # what plugins for flaky tests call it
        subtest = type(report).__name__.lower() == "subtestreport"  # that of its test has what it found
        if case is not None and not flaky and not subtest:
            _session_of(self._config).add(case)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("dokimos")
    if marker is None:
        return
    from dokimos.errors import DokimosError
    from dokimos.testing._cases import CaseSource, cases

    try:
        source = CaseSource.of(marker)
        if not source.has_data:
            return
        _require_argument(metafunc, source.argument)
        template = source.ids or metafunc.config.getini("dokimos_ids") or None
        data = source.load(metafunc.definition.path, metafunc.config.rootpath)
        generated = list(cases(data, runs=source.runs, ids=template))
    except DokimosError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize(
        source.argument,
        [
            pytest.param(
                case.example,
                id=case.id,
                marks=pytest.mark.dokimos_case(case.position, case.index, case.run_index),
            )
            for case in generated
        ],
    )


# First, since fixtures of the test may call assert_eval, and skipping comes before their setup.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for key in (_recorder, _failed_report):
        if key in item.stash:
            del item.stash[key]  # of an earlier attempt
    if _is_recorded(item):
        from dokimos.testing._recorder import set_current_recorder

        set_current_recorder(_recorder_of(item))
    for marker in item.iter_markers("dokimos_live"):
        reason = _explain_missing(marker)
        if reason is not None and item.config.getoption("dokimos_cassette") != "replay":
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if not _is_recorded(item):
        return (yield)
    from dokimos.testing._module_cassettes import cassette_of_module, use_cassette, use_no_cassette
    from dokimos.testing._recorder import set_current_recorder

    mode = item.config.getoption("dokimos_cassette")
    source = _source_of(item)
    if source.reporter is not None and not hasattr(item.config, "workerinput"):
        _session_of(item.config).register_reporter(item, source)
    if mode:
        use_cassette(cassette_of_module(item.path), mode)
    try:
        return (yield)
    finally:
        set_current_recorder(None)
        if mode:
            use_no_cassette()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    # By name: importing the class would load dokimos in sessions that do not use it.
    if report.failed and call.excinfo is not None and call.excinfo.typename == "EvalAssertionError":
        _shorten(report, call.excinfo.value)
    recorder = item.stash.get(_recorder, None)
    # After a setup that failed there is no call to report.
    if recorder is not None and (report.when == "call" or (report.when == "setup" and report.failed)):
        from dokimos.testing._session_record import build_case_report

        if report.failed:
            item.stash.setdefault(_failed_report, report)
        first = item.stash.get(_failed_report, report)  # of several subtests the one that failed first
        if getattr(first, "dokimos", None) is None:
            raised = None if call.excinfo is None else call.excinfo.value
            first.dokimos = build_case_report(item, first, recorder, _source_of(item), raised)
        report.dokimos = first.dokimos
    return report


def _shorten(report: pytest.TestReport, error: BaseException) -> None:
    """Make pytest's summary start with what fails instead of the name of our exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    summary = getattr(error, "summary", None)
    if crash is not None and summary:
        crash.message = summary


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if config.getoption("dokimos_cassette"):
        from dokimos.testing._module_cassettes import save_cassettes

        save_cassettes()
    record = config.stash.get(_session, None)
    if record is not None and not hasattr(config, "workerinput"):
        record.finish(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
        # Only over a good exit code: failed tests, interrupts and wrong usage say more.
        if record.has_problems and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    record = config.stash.get(_session, None)
    if record is not None:
        record.write_summary(terminalreporter)


@pytest.fixture
def dokimos_recorder(request: pytest.FixtureRequest) -> ItemRecorder:
    """Record the outputs, evaluation results and metrics of this test for reporters and the report."""
    return _recorder_of(request.node)


def _session_of(config: pytest.Config) -> SessionRecord:
    if _session not in config.stash:
        from dokimos._runtime.terminal_text import escape_control_characters
        from dokimos.errors import DokimosError
        from dokimos.testing._session_record import SessionRecord

        try:
            config.stash[_session] = SessionRecord(
                config.rootpath.name,
                reports=config.getoption("dokimos_report"),
                fail_under=config.getoption("dokimos_fail_under"),
            )
        except DokimosError as error:
            raise pytest.UsageError(escape_control_characters(str(error))) from None
    return config.stash[_session]


def _is_recorded(item: pytest.Item) -> bool:
    """Say whether the results of a test are reported anywhere."""
    marked = item.get_closest_marker("dokimos") is not None
    return marked or _session in item.config.stash or bool(item.config.getoption("dokimos_cassette"))


def _recorder_of(item: pytest.Item) -> ItemRecorder:
    if _recorder not in item.stash:
        item.stash[_recorder] = _new_recorder(item)
    return item.stash[_recorder]


def _new_recorder(item: Any) -> ItemRecorder:
    from dokimos.testing._recorder import ItemRecorder

    marker = item.get_closest_marker("dokimos_case")
    if marker is None:
        return ItemRecorder()
    _, index, run_index = marker.args
    return ItemRecorder(item.callspec.params[_source_of(item).argument], index=index, run_index=run_index)


def _source_of(item: pytest.Item) -> CaseSource:
    from dokimos.testing._cases import CaseSource

    marker = item.get_closest_marker("dokimos")
    return CaseSource() if marker is None else CaseSource.of(marker)


def _require_argument(metafunc: pytest.Metafunc, argument: str) -> None:
    if argument not in metafunc.fixturenames:
        from dokimos.errors import ConfigurationError

        raise ConfigurationError(
            f"the test is marked dokimos, but takes no argument {argument!r} for the example; "
            "add it, or name another with argument=..."
        )


def _explain_missing(marker: pytest.Mark) -> str | None:
    """Return why a live test has to be skipped, None if it can run."""
    given = marker.kwargs.get("env", marker.args)
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        pytest.fail(
            "@pytest.mark.dokimos_live needs env=, the variable without which to skip.", pytrace=False
        )
    missing = [name for name in names if not os.environ.get(name)]
    if not missing:
        return None
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
