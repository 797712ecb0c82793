"""Load a suite file: parse it, validate it, resolve what it names, and report all of its faults together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.suites._document import Document
from dokimos.suites._environment import build_lookup, read_execution_settings, read_settings
from dokimos.suites._files import merge_settings, read_suite
from dokimos.suites._problems import Problem, Steps, raise_problems
from dokimos.suites._validation import check_document
from dokimos.suites._yaml_versions import format_warning

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator
    from dokimos.judges._budget import Budget
    from dokimos.suites._case_plan import CasePlan, TurnPlan
    from dokimos.suites._metric_schema import Metric
    from dokimos.suites._metrics import BuiltMetric, Judges
    from dokimos.suites._schema import Agent, BudgetBlock, SuiteFile, TestCase, Turn
    from dokimos.suites._suite import Suite

_OUTSIDE: Final = ("claude", "openai", "deployment", "observability")
LLM_TIMEOUT: Final = 60.0


def load_suite(path: str | Path, *, llm_timeout: float | None = None) -> Suite:
    """Load a suite from its YAML file. Nothing is run, but its graders and its agent are imported.

    Args:
        path: The YAML file.
        llm_timeout: Seconds that the agent may take for one reply, whatever the file says.

    Raises:
        ConfigurationError: naming file, line, column and path of everything that is wrong with it.
    """
    return compile_suite(read_document(path), llm_timeout=llm_timeout)


def read_document(path: str | Path) -> Document:
    """Read a suite with the files that it refers to and its configuration, without validating it.

    Raises:
        ConfigurationError: where there is no such file, or it is not a map.
    """
    path = Path(path)
    if not path.is_file():
        files_read.record_missing(path)
        raise ConfigurationError(f"There is no suite {path}.")
    folder = path.resolve().parent
    lookup = build_lookup(folder)
    document = read_suite(path, lookup)
    if not isinstance(document.value, dict):
        raise_problems(document.problems)
    merge_settings(document, read_settings(folder, lookup), read_execution_settings(os.environ))
    return document


def compile_suite(document: Document, *, llm_timeout: float | None = None) -> Suite:
    """Validate a suite that has been read, and resolve what it names.

    Raises:
        ConfigurationError: with everything that is wrong with it.
    """
    file, problems = check_document(document)
    if file is None:
        raise_problems(problems)
        raise AssertionError("a file without problems is valid")
    try:
        return _Compiler(document, file, document.file.resolve().parent, problems).suite(llm_timeout)
    except MissingExtraError:
        # Faults of the file first: the package to install is reported once nothing else is wrong.
        raise_problems(problems)
        raise


class _Compiler:
    """Resolves what a valid file names, and collects what cannot be found."""

    def __init__(
        self, document: Document, file: SuiteFile, folder: Path, problems: Iterable[Problem] = ()
    ) -> None:
        from dokimos.suites._metrics import Judges

        self._document = document
        self._file = file
        self._folder = folder
        self._problems: list[Problem] = list(problems)
        self._warnings: dict[str, None] = {}
        # By id(), which is safe while self._file holds the metrics: the suite's are built once for all cases,
        # and equal ones of two cases are built twice, so that each problem has its own location.
        self._built: dict[int, BuiltMetric | None] = {}
        evaluations = file.evaluations.model if file.evaluations else None
        self._agent_keys: tuple[tuple[str, str], ...] = ()
        self._judges: Judges = Judges(
            evaluations=evaluations, agent=file.model, embeddings=file.embedding_provider
        )

    def suite(self, llm_timeout: float | None) -> Suite:
        from dokimos.suites._suite import Suite

        self._warn_of_blocks()
        for warning in self._document.warnings:
            self._warn(warning)
        if warning := format_warning(self._document.ambiguous_scalars):
            self._warn(warning)
        # Also where every case has metrics of its own: faults of unused ones are found too.
        for index, metric in enumerate(self._agent_metrics()):
            self._metric(metric, ("evaluations", "metrics", index))
        cases = tuple(self._cases())
        execution = self._file.execution
        timeout = llm_timeout or execution.llm_timeout or LLM_TIMEOUT
        application = self._application(timeout)
        raise_problems(self._problems)
        return Suite(
            path=self._document.file,
            name=self._file.name,
            description=self._file.description or "",
            experiment_name=self._file.experiment or "",
            metadata=self._file.metadata,
            cases=cases,
            application=application,
            timeout=timeout,
            agent=_describe_agent(self._file.agent)
            if self._file.agent
            else getattr(application, "label", ""),
            identity=getattr(application, "identity", ""),
            answers_elsewhere=_answers_elsewhere(self._file.agent, application),
            about=getattr(application, "about", {}),
            budget=_budget(execution.budget),
            parallelism=execution.parallel_test_cases or 1,
            retries=execution.retries or 0,
            quiet=bool(execution.quiet),
            verbose=bool(execution.verbose),
            keys=self._keys(),
            warnings=tuple(self._warnings),
        )

    def _keys(self) -> tuple[tuple[str, str], ...]:
        from dokimos.judges._provider import HttpJudge

        used = [built.evaluator for built in self._built.values() if built and built.metric.enabled]
        judges = [getattr(each, "judge", None) for each in used]
        judges += [getattr(getattr(each, "embedder", None), "endpoint", None) for each in used]
        needed = {
            (variable, judge.label): None
            for judge in judges
            if isinstance(judge, HttpJudge) and judge.api_key is None and (variable := judge.key_variable())
        }
        return tuple(dict.fromkeys((*self._agent_keys, *needed)))

    def _warn_of_blocks(self) -> None:
        for key in _OUTSIDE:
            block = getattr(self._file, key)
            if block is not None:
                location = self._document.location((key,))
                exception = ", except max_turns" if self._limits_turns(block) else ""
                self._warn(f"{location}: the block {key} is outside evaluation and has no effect{exception}.")

    def _limits_turns(self, block: object) -> bool:
        return self._file.agent is None and isinstance(block, dict) and "max_turns" in block

    def _warn(self, message: str) -> None:
        self._warnings[message] = None

    def _agent_metrics(self) -> Sequence[Metric]:
        return self._file.evaluations.metrics if self._file.evaluations else []

    def _application(self, timeout: float) -> Any:
        from dokimos.suites._targets import build_application

        if self._file.agent is None:
            return self._build_agent(timeout)
        self._warn_of_declaration()
        try:
            return build_application(self._file.agent, self._folder, timeout)
        except ConfigurationError as error:
            self._problems.append(self._document.problem_in(("agent",), error, key="callable"))
            return None

    def _build_agent(self, timeout: float) -> Any:
        from dokimos.suites._agent.agent_builder import AgentBuilder

        builder = AgentBuilder(self._document, self._file, self._warn)
        agent = builder.build(timeout)
        self._problems += builder.problems
        self._agent_keys = () if agent is None else tuple(builder.keys())
        return agent

    def _warn_of_declaration(self) -> None:
        for key in ("instructions", "tools", "response_format"):
            if getattr(self._file, key):
                location = self._document.location((key,))
                self._warn(f"{location}: {key} has no effect beside agent:, which names what is tested.")

    def _cases(self) -> Iterator[CasePlan]:
        taken: set[str] = set()
        numbers: dict[str, int] = {}
        for index, case in enumerate(self._file.test_cases):
            id = name = case.name or f"case {index + 1}"
            # A user may have called another case `x (2)`, so count on until the id is free.
            while id in taken:
                numbers[name] = numbers.get(name, 1) + 1
                id = f"{name} ({numbers[name]})"
            taken.add(id)
            yield self._case(case, ("test_cases", index), name, id)

    def _case(self, case: TestCase, steps: Steps, name: str, id: str) -> CasePlan:
        from dokimos.suites._case_plan import CasePlan

        turn_steps = [(*steps, "turns", i) if case.turns else steps for i in range(len(case.steps))]
        turns = tuple(
            self._turn(turn, number, name, case, at)
            for number, (turn, at) in enumerate(zip(case.steps, turn_steps, strict=True))
        )
        return CasePlan(
            id=id,
            name=name,
            turns=turns,
            evaluators=self._evaluators(case, turns, steps, turn_steps),
            is_conversation=case.turns is not None,
            tags=tuple(case.tags),
            skip=_skip_reason(case.skip),
            repeats=case.repeats,
            metadata=case.metadata,
        )

    def _turn(self, turn: Turn, number: int, name: str, case: TestCase, steps: Steps) -> TurnPlan:
        from dokimos.suites._case_plan import TurnPlan

        files, named = [], []
        for index, file in enumerate(turn.files):
            values = file.model_dump(exclude_none=True)
            named.append(dict(values))
            if file.path is not None:
                # Relative to the file that says so, which may be an included one or a file of cases.
                path = self._document.location((*steps, "files", index)).file.resolve().parent / file.path
                values["path"] = str(path)
                if not path.is_file():
                    files_read.record_missing(path)
                    message = f"there is no file {path}"
                    where = (*steps, "files", index, "path")
                    self._problems.append(self._document.problem(where, message))
            files.append(values)
        return TurnPlan(
            index=number,
            input=turn.input,
            ground_truth=turn.ground_truth,
            contexts=turn.all_contexts,
            files=tuple(files),
            named_files=tuple(named),
            turn_config=turn.turn_config,
            case_name=name,
            metadata=case.metadata,
        )

    def _evaluators(
        self, case: TestCase, turns: Sequence[TurnPlan], steps: Steps, turn_steps: Sequence[Steps]
    ) -> tuple[Evaluator, ...]:
        from dokimos.suites._case_evaluators import TurnMetrics, build_case_evaluators

        groups = []
        for turn, plan, at in zip(case.steps, turns, turn_steps, strict=True):
            chosen, where = self._select_metrics(case, turn, steps, at)
            built = [self._metric(metric, (*where, index)) for index, metric in enumerate(chosen)]
            tools = self._tools(turn, at)
            groups.append(TurnMetrics(plan, [metric for metric in built if metric is not None], tools))
        return build_case_evaluators(groups, conversation=case.turns is not None)

    def _select_metrics(
        self, case: TestCase, turn: Turn, steps: Steps, turn_steps: Steps
    ) -> tuple[Sequence[Metric], Steps]:
        if case.turns is not None and turn.evaluations is not None:
            return turn.evaluations, (*turn_steps, "evaluations")
        if case.evaluations is not None:
            return case.evaluations, (*steps, "evaluations")
        return self._agent_metrics(), ("evaluations", "metrics")

    def _metric(self, metric: Metric, steps: Steps) -> BuiltMetric | None:
        from dokimos.suites._metrics import build_metric

        if id(metric) not in self._built:
            try:
                built = build_metric(metric, self._judges, self._folder, self._source(steps))
            except ConfigurationError as error:
                self._problems.append(self._document.problem_in(steps, error))
                self._built[id(metric)] = None
            else:
                self._built[id(metric)] = built
                for warning in built.warnings:
                    self._warn(f"{self._document.location(steps)}: {warning}")
        return self._built[id(metric)]

    def _source(self, steps: Steps) -> Callable[[str], str | None]:
        """Return what gives a metric's numbers as they are written."""
        sources = self._document.sources
        return lambda key: sources.get((*steps, key)) or sources.get((*steps, "params", key))

    def _tools(self, turn: Turn, steps: Steps) -> Any:
        if turn.expected_tools is None and not turn.forbidden_tools:
            return None
        from dokimos.suites._tool_check import find_tool_faults, warnings_of
        from dokimos.suites._tools import ToolsCalled

        for at, message in find_tool_faults(turn, self._tool_names):
            # The steps name the key `tools`, which a bare list of expected tools does not have in the file.
            self._problems.append(self._document.problem(self._document.drop_unknown((*steps, *at)), message))
        for at, message in warnings_of(turn, self._tool_names):
            self._warn(f"{self._document.location((*steps, *at))}: {message}")
        return ToolsCalled.of(turn.expected_tools, turn.forbidden_tools)

    @cached_property
    def _tool_names(self) -> Sequence[str] | None:
        from dokimos.suites._tool_check import list_tool_names

        return list_tool_names(self._file)


def _skip_reason(skip: bool | str) -> str | None:
    if isinstance(skip, str):
        return skip
    return "It is marked as skip." if skip else None


def _budget(block: BudgetBlock | None) -> Budget | None:
    from dokimos.judges._budget import Budget

    return None if block is None else Budget(**block.model_dump())


def _answers_elsewhere(agent: Agent | None, application: Any) -> bool:
    return bool(application.plan.servers) if agent is None else agent.function is None


def _describe_agent(agent: Agent | None) -> str:
    """Return what tells one agent from another, without its headers."""
    if agent is None:
        return ""
    if agent.params:
        params = ", ".join(f"{name}={value!r}" for name, value in agent.params.items())
        return f"{agent.function}({params})"
    return str(agent.function or agent.url or agent.command)
