"""The axes of a suite: what stands there now, and a suite in which something else does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos.errors import ConfigurationError
from dokimos.optimizer._trial import Candidate
from dokimos.optimizer._yaml_edits import edit_yaml, format_scalar
from dokimos.suites._document import Document, read_yaml
from dokimos.suites._interpolation import PLACEHOLDER, Lookup, interpolate
from dokimos.suites._problems import Problem, Steps, raise_problems
from dokimos.suites._value_paths import get_value, replace_values, resolve_path

if TYPE_CHECKING:
    from dokimos.suites._optimizer_schema import NumericAxis, OptimizerBlock, TextualAxis

BOM: Final = "\ufeff"
INSTRUCTIONS: Final = ("instructions",)
_BLOCK: Final = ("evaluations", "optimizer", "axes")
# Judges, metrics and cases are not axes: changing them lowers the loss without improving the agent.
_NOT_TESTED: Final = frozenset(
    {"name", "description", "author", "evaluations", "test_cases", "test_cases_file", "include"}
)
_DECLARED: Final = frozenset({"model", "instructions", "tools", "response_format"})
_OTHER_TEXT: Final = "Another text.\nOf two lines."


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLocation:
    """Where a text stands."""

    path: str
    steps: Steps
    text: str
    """As it is written, with its variables."""
    max_chars: int = 8000
    file: Path | None = None
    """The file that holds it; None where it stands in the suite."""
    named: str = ""
    """That file, as the suite names it."""
    head: str = ""
    """What stands in the file before it: front matter."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the text refers to."""
        if self.file is not None:
            return frozenset()
        return find_placeholders(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLocations:
    """Where all axes of a suite stand, and how a candidate is put there."""

    document: Document
    source: str
    """The suite's own file, without its byte order mark."""
    mark: str = ""
    """That mark, where the file has one."""
    lookup: Lookup
    numbers: Mapping[str, Steps] = field(default_factory=dict)
    texts: Mapping[str, TextLocation] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, block: OptimizerBlock, lookup: Lookup) -> AxisLocations:
        """Look the axes up. Raises `ConfigurationError` with all that lead nowhere or cannot be changed."""
        # newline="" keeps the line breaks of the file, which is written again with few changes.
        with document.file.open(encoding="utf-8", newline="") as file:
            content = file.read()
        source = content.removeprefix(BOM)
        mark = content[: len(content) - len(source)]
        found = cls(document=document, source=source, mark=mark, lookup=lookup)
        problems: list[Problem] = []
        numbers = dict(found._locate_all(block.axes.numeric, "numeric", found._number, problems))
        texts = dict(found._locate_all(block.axes.textual, "textual", found._text, problems))
        raise_problems(problems)
        return replace(found, numbers=numbers, texts=texts)

    @property
    def current(self) -> Candidate:
        """What the suite has now."""
        return Candidate(
            numbers={path: get_value(self.document.value, steps) for path, steps in self.numbers.items()},
            texts={path: location.text for path, location in self.texts.items()},
        )

    def apply(self, candidate: Candidate) -> Document:
        """Return the suite with the values of a candidate."""
        now = self.current
        changes: dict[Steps, Any] = {
            self.numbers[path]: value
            for path, value in candidate.numbers.items()
            if value != now.numbers[path]
        }
        for path, text in candidate.texts.items():
            location = self.texts[path]
            if text == location.text:
                continue
            if location.file is not None:
                # A trial needs no file: the text stands in the suite for as long as it runs.
                changes[INSTRUCTIONS] = {"inline": text}
            else:
                changes[location.steps] = self._substitute(text)
        return Document(
            replace_values(self.document.value, changes), self.document.file, self.document.locations
        )

    def render(self, candidate: Candidate) -> tuple[str, dict[str, str]]:
        """Return the suite's file with the values of a candidate, and the files of texts beside it."""
        now = self.current
        changes: dict[Steps, Any] = {
            self.numbers[path]: _as_written(value)
            for path, value in candidate.numbers.items()
            # 1 and 1.0 are equal, and not the same in a file.
            if value != now.numbers[path] or type(value) is not type(now.numbers[path])
        }
        files = {}
        for path, text in candidate.texts.items():
            location = self.texts[path]
            if text == location.text:
                continue
            if location.file is None:
                changes[location.steps] = text
                continue
            name = location.named if _is_below(location.named) else location.file.name
            files[name] = location.head + text.rstrip("\n") + "\n"
            if name != location.named:
                changes[location.steps] = _as_written(name)
        return self.mark + self._edit(changes), files

    def _edit(self, changes: Mapping[Steps, Any]) -> str:
        """Return the file with changes, which is read as their values and as nothing else."""
        after = edit_yaml(self.source, changes)
        values = {
            steps: self._substitute(value) if isinstance(value, str) else value
            for steps, value in changes.items()
        }
        if self._read(after) != replace_values(self._read(self.source), values):
            raise ConfigurationError(
                "it cannot be changed on its own: the file would be read as something else, such as where "
                "the value has an anchor and is used in other places too."
            )
        return after

    def _locate_all(
        self, axes: Any, kind: str, locate: Callable[[Any], Any], problems: list[Problem]
    ) -> Iterator[tuple[str, Any]]:
        for index, axis in enumerate(axes):
            try:
                yield axis.path, locate(axis)
            except ConfigurationError as error:
                problems.append(self.document.problem((*_BLOCK, kind, index, "path"), str(error)))

    def _number(self, axis: NumericAxis) -> Steps:
        steps = self._steps(axis.path)
        self._check_place(steps)
        for value in axis.range:
            self._edit({steps: _as_written(value)})
            self._check_value(steps, value)
        return steps

    def _text(self, axis: TextualAxis) -> TextLocation:
        steps = self._steps(axis.path)
        if steps == INSTRUCTIONS:
            steps = ("instructions", "file" if get_value(self.document.value, (*steps, "file")) else "inline")
        now = get_value(self.document.value, steps)
        if not isinstance(now, str):
            raise ConfigurationError(
                f"there is no text at {axis.path!r}; a textual axis names one, such as instructions."
            )
        self._check_place(steps)
        if steps == ("instructions", "file"):
            return self._text_file(axis, steps, now)
        text = format_scalar(self.source, steps)
        self._edit({steps: _OTHER_TEXT})
        return TextLocation(path=axis.path, steps=steps, text=text or now, max_chars=axis.max_chars)

    def _text_file(self, axis: TextualAxis, steps: Steps, named: str) -> TextLocation:
        from dokimos.suites._instructions import parse_prompt

        path = self.document.location(steps).file.resolve().parent / named
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from None
        text = parse_prompt(content.removeprefix(BOM)).text
        if not _is_below(named):
            self._edit({steps: path.name})  # the name that it gets in the best suite
        # The last occurrence: front matter may quote the text.
        head = content[: content.rindex(text)]
        return TextLocation(
            path=axis.path, steps=steps, text=text, max_chars=axis.max_chars, file=path, named=named,
            head=_without_version(head),
        )  # fmt: skip

    def _steps(self, path: str) -> Steps:
        steps = resolve_path(self.document.value, path)
        if steps[0] in _NOT_TESTED:
            raise ConfigurationError(f"{steps[0]} is not a part of what is tested, so it cannot be an axis.")
        if steps[0] in _DECLARED and self.document.value.get("agent") is not None:
            raise ConfigurationError(f"{steps[0]} has no effect beside agent:, which names what is tested.")
        return steps

    def _check_place(self, steps: Steps) -> None:
        """An axis has to stand in the suite's own file, which is the one that is written."""
        location = self.document.locations.get(steps) or self.document.location(steps[:-1])
        if location.file != self.document.file:
            raise ConfigurationError(
                f"it is in {location.file}; move it to {self.document.file}, which is what is edited."
            )

    def _check_value(self, steps: Steps, value: object) -> None:
        """See that the suite is valid with a value; the cases take no part in that."""
        from dokimos.suites._loader import compile_suite

        tree = replace_values(self.document.value, {steps: value, ("test_cases",): []})
        try:
            compile_suite(Document(tree, self.document.file, self.document.locations))
        except ConfigurationError as error:
            raise ConfigurationError(f"{value!r} is not allowed there: {error}") from None

    def _read(self, text: str) -> Any:
        return read_yaml(self.document.file, self.lookup, text=text).value

    def _substitute(self, text: str) -> str:
        return interpolate(text, self.lookup, lambda message: None)


def find_placeholders(text: str) -> frozenset[str]:
    """Return the variables that a text refers to, as they are written."""
    return frozenset(found[0] for found in PLACEHOLDER.finditer(text) if found[1])


def _as_written(value: object) -> Any:
    """Return a value in which nothing is taken for a variable."""
    return value.replace("${", "$${") if isinstance(value, str) else value


def _is_below(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _without_version(head: str) -> str:
    """Return front matter without the version, which was that of the old text."""
    return re.sub(r"(?m)^version[ \t]*:.*\r?\n", "", head)
