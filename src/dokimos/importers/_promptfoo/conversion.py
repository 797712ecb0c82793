"""A configuration of promptfoo as suites: one for each pair of prompt and provider."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.importers._promptfoo.assertions import CORRECTNESS, metrics_of
from dokimos.importers._promptfoo.config_reader import Prompt, Reader
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.converted_case import Case
from dokimos.importers._promptfoo.grid import Placed, describe_grid, number_names
from dokimos.importers._promptfoo.nunjucks.values import (
    FileMap,
    TemplateRefused,
    from_data,
    to_json,
    to_text,
)
from dokimos.importers._promptfoo.programs import Programs
from dokimos.importers._promptfoo.providers import build_model_block, convert_provider
from dokimos.importers._promptfoo.reply_transforms import transform_variables
from dokimos.importers._promptfoo.templates import (
    escape,
    join_texts,
    render,
    render_or_escape,
    render_text,
    resolve_nested,
)

NEUTRAL: Final = "Reply to the message."
FALLBACK_JUDGE: Final = {"provider": "openai", "name": "gpt-5-mini"}
_UNREAD: Final = (
    "extensions", "nunjucksFilters", "redteam", "derivedMetrics", "outputPath", "sharing", "tracing",
    "commandLineOptions", "env",
)  # fmt: skip
_TEST_LOSSES: Final = {
    "threshold": "a threshold of a whole test: all metrics of a case have to pass",
    "assertScoringFunction": "assertScoringFunction: it is a program",
}
_CUT: Final = re.compile(r"(?<!\$)\$\{[^}]*\Z")
_OPTIONS: Final = frozenset(
    {
        "prefix",
        "suffix",
        "provider",
        "disableDefaultAsserts",
        "disableVarExpansion",
        "rubricPrompt",
        "transform",
        "transformVars",
        "postprocess",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What a configuration has become."""

    suites: Mapping[str, dict[str, Any]]
    """The suites by the names of their files."""
    module: str
    """The Python module with its programs, empty where it has none."""
    module_name: str
    notes: Notes


@dataclass(slots=True)
class _Conversion:
    """One pair of prompt and provider on its way."""

    reader: Reader
    programs: Programs
    notes: Notes
    prompt: Prompt
    target: dict[str, Any]
    runs_programs: bool
    instructions: str = NEUTRAL
    needs_judge: bool = field(default=False)

    def suite(
        self, name: str, tests: Iterable[tuple[int, dict[str, Any]]], grid: Mapping[str, Any]
    ) -> Placed:
        """Return the suite as YAML will have it; `grid` is what it says of its place among other suites."""
        converted = {place: case for place, test in tests if (case := self._convert_test(test)) is not None}
        cases = list(converted.values())
        suite: dict[str, Any] = {
            "name": name,
            **grid,
            **{
                key: self.target[key]
                for key in ("agent", "model", "response_format", "tools")
                if key in self.target
            },
        }
        if "model" in suite:
            suite["instructions"] = {"inline": self.instructions}
            if self.instructions == NEUTRAL:
                self.notes.change(
                    "the prompt is the input; a declared agent needs instructions, so it has neutral ones"
                )
        shared = _extract_shared_metrics(cases)
        needs_judge = self.needs_judge and "model" not in suite
        if needs_judge:
            where = "evaluations.model" if shared else "the model of the metrics"
            self.notes.change(f"no judge was named: it is {FALLBACK_JUDGE['name']}, change {where}")
        if shared:
            judge = {"model": FALLBACK_JUDGE} if needs_judge else {}
            suite["evaluations"] = {**judge, "metrics": shared}
        elif needs_judge:  # metrics of the suite would hold for cases that have none
            _name_judge(cases, FALLBACK_JUDGE)
        if execution := self._execution():
            suite["execution"] = execution
        return Placed({**suite, "test_cases": cases}, converted)

    def _execution(self) -> dict[str, Any]:
        options = self.reader.config.get("evaluateOptions") or {}
        setting = options.get("maxConcurrency")
        return {"parallel_test_cases": setting} if isinstance(setting, int) and setting > 0 else {}

    def _convert_test(self, test: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            return self._case(test)
        except TemplateRefused as refused:  # half of a template filled in would look right
            self.notes.lose(f"a test: {refused}")
            return None

    def _case(self, test: Mapping[str, Any]) -> dict[str, Any] | None:
        options = test.get("options") or {}
        variables = resolve_nested(self._variables(test["vars"], options))
        self._note_losses(test, options)
        state = Case(variables, self.notes, self.programs, self.reader.folder, judge=self._judge(options))
        state.transforms = (*self.target.get("transforms", ()), *_transforms_of(options))
        state.reads_json = "response_format" in self.target
        state.context = _context(variables)
        metrics = metrics_of(test.get("assert") or [], state)
        self.needs_judge = self.needs_judge or state.needs_judge
        question = self._input(variables, options)
        if not question.strip():
            self.notes.lose("a test whose prompt is empty")
            return None
        setting = {
            "expected_tools": {"tools": state.tools, **state.tools_are} if state.tools_are else state.tools,
            "contexts": state.context,
            "files": [_file(path) for path in test.get("files") or ()],
        }
        case: dict[str, Any] = {"name": self._name(test, variables), "input": question}
        case |= {"ground_truth": state.truth} if state.has_truth else {}
        case |= {key: value for key, value in setting.items() if value}
        case["evaluations"] = metrics
        if any(metric["type"] == "code" for metric in metrics):
            # Programs read the variables of their test. The notes are new ones: losses were noted before.
            case["turn_config"] = {"vars": render_or_escape(dict(variables))}
        return {**case, **self._about(test)}

    def _variables(self, variables: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the variables of a test with those that its program makes of them."""
        program = options.get("transformVars")
        if not program:
            return variables
        if not self.runs_programs:
            raise TemplateRefused(
                "its transformVars is a program, which decides what the prompt says: --run-programs runs it"
            )
        try:
            made = transform_variables(str(program), variables, self.reader.folder)
        except (EvaluationError, ConfigurationError) as error:
            raise TemplateRefused(f"its transformVars: {error}") from None
        return {**variables, **made}

    def _name(self, test: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        name = escape(" ".join(value for value in variables.values() if isinstance(value, str)))
        if test.get("description"):
            try:
                name = render_text(str(test["description"]), variables, self.notes)
            except TemplateRefused as refused:
                self.notes.lose(f"the description of a test: {refused}")
        short = " ".join(name.split())[:60]
        # A placeholder that is cut in two would be a mistake of the suite.
        return _CUT.sub("", short).strip() or "case"

    def _note_losses(self, test: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        for key, text in _TEST_LOSSES.items():
            if test.get(key) is not None:
                self.notes.lose(text)
        for key in sorted(set(options) - _OPTIONS):
            self.notes.lose(f"the option {key} of tests")

    def _about(self, test: Mapping[str, Any]) -> dict[str, Any]:
        metadata = dict(test.get("metadata") or {})
        about: dict[str, Any] = {}
        tags = metadata.pop("tags", None)
        if tags is not None:
            about["tags"] = [str(tag) for tag in (tags if isinstance(tags, list) else [tags]) if tag]
        if metadata:
            try:
                about["metadata"] = render(metadata, test["vars"], self.notes)
            except TemplateRefused as refused:
                self.notes.lose(f"the metadata of a test: {refused}")
        repeat = (self.reader.config.get("evaluateOptions") or {}).get("repeat")
        return {**about, "repeats": repeat} if isinstance(repeat, int) and repeat > 1 else about

    def _judge(self, options: Mapping[str, Any]) -> dict[str, Any] | None:
        setting = options.get("provider")
        if isinstance(setting, Mapping) and "text" in setting:
            setting = setting["text"]
        return None if setting is None else build_model_block(setting, self.notes)

    def _input(self, variables: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        values = {**(self.reader.config.get("defaultVars") or {}), **variables}
        around = (str(options.get("prefix") or ""), str(options.get("suffix") or ""))
        if not self.prompt.messages:
            text = around[0] + self.prompt.text + around[1]
            return render_text(text, values, self.notes, nested=True)
        turns = [
            (str(one["role"]), render_text(_content(one), values, self.notes)) for one in self.prompt.messages
        ]
        system = "\n\n".join(text for role, text in turns if role in ("system", "developer"))
        rest = [(role, text) for role, text in turns if role not in ("system", "developer")]
        question = _join_messages(rest, self.notes)
        # Instructions are those of the agent; a system message with variables differs from case to case.
        if system and not self._instruct(system):
            question = f"{system}\n\n{question}"
        before, after = (render_text(text, values, self.notes) for text in around)
        return join_texts([before, question, after])

    def _instruct(self, system: str) -> bool:
        """Take a system message for the instructions, which are the same for all cases."""
        if "model" not in self.target or self.instructions not in (NEUTRAL, system):
            self.notes.change("a system message that differs from test to test stands before the input")
            return False
        self.instructions = system
        return True


def convert(path: Path, *, stem: str = "agent", runs_programs: bool = False) -> Converted:
    """Convert a configuration of promptfoo.

    Args:
        path: The configuration, in YAML or JSON.
        stem: What the files are called; several have the prompt and the provider behind it.
        runs_programs: Whether programs of the configuration that make variables are run now.

    Raises:
        ConfigurationError: for a file that cannot be read or is not a promptfoo configuration.
    """
    notes = Notes()
    reader = Reader(path, notes)
    for key in _UNREAD:
        if reader.config.get(key):
            notes.lose(f"the block {key}")
    programs = Programs(re.sub(r"\W", "_", f"{stem}_programs"))
    prompts, tests = reader.prompts(), reader.tests()
    targets = [convert_provider(one, notes, programs, reader.folder) for one in reader.providers()]
    pairs = [(prompt, target) for prompt in prompts for target in targets]
    name = str(reader.config.get("description") or path.stem)
    grid = describe_grid(
        name, [prompt.label or prompt.text for prompt in prompts], [one["label"] for one in targets]
    )
    placed: dict[str, Placed] = {}
    for (prompt, target), place in zip(pairs, grid, strict=True):
        work = _Conversion(reader, programs, notes, prompt, target, runs_programs)
        label = "-".join(_labels(prompt, target, len(prompts), len(targets)))
        applicable = [(number, test) for number, test in enumerate(tests) if _applies(test, prompt, target)]
        placed[_file_name(stem, label, placed)] = work.suite(f"{name} {label}".strip(), applicable, place)
    number_names(placed.values())
    suites = {file: one.suite for file, one in placed.items()}
    return Converted(suites=suites, module=programs.text(), module_name=f"{programs.module}.py", notes=notes)


def _applies(test: Mapping[str, Any], prompt: Prompt, target: Mapping[str, Any]) -> bool:
    by_prompt, by_provider = test.get("prompts"), test.get("providers")
    return (not by_prompt or any(fnmatchcase(prompt.label, str(one)) for one in by_prompt)) and (
        not by_provider or any(fnmatchcase(target["label"], str(one)) for one in by_provider)
    )


def _labels(prompt: Prompt, target: Mapping[str, Any], prompts: int, targets: int) -> Iterator[str]:
    if prompts > 1:
        yield _slug(prompt.label or prompt.text[:24] or "prompt")
    if targets > 1:
        yield _slug(target["label"])


def _slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-.").lower()[:40] or "one"


def _file_name(stem: str, label: str, taken: Mapping[str, Any]) -> str:
    name = f"{stem}-{label}" if label else stem
    # Labels may become equal when they are made fit for file names.
    number = sum(other == f"{name}.yaml" or other.startswith(f"{name}-") for other in taken)
    return f"{name}-{number + 1}.yaml" if f"{name}.yaml" in taken else f"{name}.yaml"


def _extract_shared_metrics(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the metrics out of the cases where they all have the same ones."""
    if not cases or any(case["evaluations"] != cases[0]["evaluations"] for case in cases):
        return []
    shared: list[dict[str, Any]] = cases[0]["evaluations"]
    for case in cases if shared else ():
        del case["evaluations"]
    return shared


def _name_judge(cases: list[dict[str, Any]], judge: Mapping[str, Any]) -> None:
    """Give the judged metrics of cases their judge."""
    for case in cases:
        for metric in case["evaluations"]:
            if metric["type"] in ("geval", "rag") or metric.get("name") == CORRECTNESS:
                metric.setdefault("model", dict(judge))


def _context(variables: Mapping[str, Any]) -> list[str] | None:
    setting = variables.get("context")
    if setting is None:
        return None
    texts = setting if isinstance(setting, list) else [setting]
    return [escape(_as_text(text)) for text in texts]


def _as_text(value: object) -> str:
    data = from_data(value)
    plain = isinstance(data, dict) and not isinstance(data, FileMap)
    return to_json(data) if plain else to_text(data)


def _transforms_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    transform = options.get("transform") or options.get("postprocess")
    return (transform,) if isinstance(transform, str) and transform.strip() else ()


def _file(path: str) -> dict[str, str]:
    return {"path": path, "type": "pdf" if path.lower().endswith(".pdf") else "image"}


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content)


def _join_messages(turns: list[tuple[str, str]], notes: Notes) -> str:
    if len(turns) == 1:
        return turns[0][1]
    if turns:
        notes.change("a prompt with several messages: they are one input, each with its role")
    return "\n\n".join(f"{role}: {text}" for role, text in turns)
