"""The axes of a suite: what stands there now, and a suite in which something else does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos.errors import ConfigurationError
from dokimos.optimizer.trial import Candidate
from dokimos.optimizer.yaml_edits import edit_yaml, scalar_text
from dokimos.suites.document import Document, read_yaml
from dokimos.suites.interpolation import PLACEHOLDER, Lookup, interpolate
from dokimos.suites.problems import Problem, Steps, refuse
from dokimos.suites.value_paths import steps_to, value_at, with_values

if TYPE_CHECKING:
    from dokimos.suites.optimizer_schema import NumericAxis, OptimizerBlock, TextualAxis

BOM: Final = "\ufeff"
INSTRUCTIONS: Final = ("instructions",)
_BLOCK: Final = ("evaluations", "optimizer", "axes")
_NOT_TESTED: Final = frozenset(
    {"name", "description", "author", "evaluations", "test_cases", "test_cases_file", "include"}
)
_DECLARED: Final = frozenset({"model", "instructions", "tools", "response_format"})
_OTHER_TEXT: Final = "Another text.\nOf two lines."


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPlace:
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
        return variables_of(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisPlaces:
    """Where all axes of a suite stand, and how a candidate is put there."""

    document: Document
    source: str
    """The suite's own file, without its byte order mark."""
    mark: str = ""
    """That mark, where the file has one."""
    lookup: Lookup
    numbers: Mapping[str, Steps] = field(default_factory=dict)
    texts: Mapping[str, TextPlace] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, block: OptimizerBlock, lookup: Lookup) -> AxisPlaces:
        """Look the axes up. Raises `ConfigurationError` with all that lead nowhere or cannot be changed."""
        with document.file.open(encoding="utf-8", newline="") as file:
            content = file.read()
        source = content.removeprefix(BOM)
        mark = content[: len(content) - len(source)]
        found = cls(document=document, source=source, mark=mark, lookup=lookup)
        problems: list[Problem] = []
        numbers = dict(found._each(block.axes.numeric, "numeric", found._number, problems))
        texts = dict(found._each(block.axes.textual, "textual", found._text, problems))
        refuse(problems)
        return replace(found, numbers=numbers, texts=texts)

    @property
    def current(self) -> Candidate:
        """What the suite has now."""
        return Candidate(
            numbers={path: value_at(self.document.value, steps) for path, steps in self.numbers.items()},
            texts={path: place.text for path, place in self.texts.items()},
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
            place = self.texts[path]
            if text == place.text:
                continue
            if place.file is not None:
                changes[INSTRUCTIONS] = {"inline": text}
            else:
                changes[place.steps] = self._substitute(text)
        return Document(with_values(self.document.value, changes), self.document.file, self.document.places)

    def render(self, candidate: Candidate) -> tuple[str, dict[str, str]]:
        """Return the suite's file with the values of a candidate, and the files of texts beside it."""
        now = self.current
        changes: dict[Steps, Any] = {
            self.numbers[path]: _as_written(value)
            for path, value in candidate.numbers.items()
            if value != now.numbers[path] or type(value) is not type(now.numbers[path])
        }
        files = {}
        for path, text in candidate.texts.items():
            place = self.texts[path]
            if text == place.text:
                continue
            if place.file is None:
                changes[place.steps] = text
                continue
            name = place.named if _is_below(place.named) else place.file.name
            files[name] = place.head + text.rstrip("\n") + "\n"
            if name != place.named:
                changes[place.steps] = name
        return self.mark + edit_yaml(self.source, changes), files

    def _each(
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
        now = value_at(self.document.value, steps)
        self._check_edit(steps, next(value for value in (*axis.range, None) if value != now))
        for value in axis.range:
            self._check_value(steps, value)
        return steps

    def _text(self, axis: TextualAxis) -> TextPlace:
        steps = self._steps(axis.path)
        if steps == INSTRUCTIONS:
            steps = ("instructions", "file" if value_at(self.document.value, (*steps, "file")) else "inline")
        now = value_at(self.document.value, steps)
        if not isinstance(now, str):
            raise ConfigurationError(f"there is no text at {axis.path!r}.")
        self._check_place(steps)
        if steps == ("instructions", "file"):
            return self._text_file(axis, steps, now)
        text = scalar_text(self.source, steps)
        self._check_edit(steps, _OTHER_TEXT)
        return TextPlace(path=axis.path, steps=steps, text=text or now, max_chars=axis.max_chars)

    def _text_file(self, axis: TextualAxis, steps: Steps, named: str) -> TextPlace:
        from dokimos.suites.instructions import prompt_of

        path = self.document.place(steps).file.resolve().parent / named
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from None
        text = prompt_of(content.removeprefix(BOM)).text
        head = content[: content.rindex(text)]
        return TextPlace(
            path=axis.path, steps=steps, text=text, max_chars=axis.max_chars, file=path, named=named,
            head=_without_version(head),
        )  # fmt: skip

    def _steps(self, path: str) -> Steps:
        steps = steps_to(self.document.value, path)
        if steps[0] in _NOT_TESTED:
            raise ConfigurationError(f"an axis is a part of what is tested, and {steps[0]} is not.")
        if steps[0] in _DECLARED and self.document.value.get("agent") is not None:
            raise ConfigurationError(f"{steps[0]} has no effect beside agent:, which names what is tested.")
        return steps

    def _check_place(self, steps: Steps) -> None:
        """An axis has to stand in the suite's own file, which is the one that is written."""
        place = self.document.places.get(steps) or self.document.place(steps[:-1])
        if place.file != self.document.file:
            raise ConfigurationError(f"it stands in {place.file}; write it into {self.document.file} itself.")

    def _check_value(self, steps: Steps, value: Any) -> None:
        """See that the suite is valid with a value; the cases take no part in that."""
        from dokimos.suites.loader import compile_suite

        tree = with_values(self.document.value, {steps: value, ("test_cases",): []})
        try:
            compile_suite(Document(tree, self.document.file, self.document.places))
        except ConfigurationError as error:
            raise ConfigurationError(f"{value!r} is not allowed there: {error}") from None

    def _check_edit(self, steps: Steps, value: Any) -> None:
        """See that a value can be changed and nothing else changes with it."""
        before = self._read(self.source)
        after = self._read(edit_yaml(self.source, {steps: _as_written(value)}))
        if after != with_values(before, {steps: value}):
            raise ConfigurationError(
                "it cannot be changed alone: it has an anchor, and stands elsewhere too."
            )

    def _read(self, text: str) -> Any:
        return read_yaml(self.document.file, self.lookup, text=text).value

    def _substitute(self, text: str) -> str:
        return interpolate(text, self.lookup, lambda message: None)


def variables_of(text: str) -> frozenset[str]:
    """Return the variables that a text refers to, as they are written."""
    return frozenset(found[0] for found in PLACEHOLDER.finditer(text) if found[1])


def _as_written(value: Any) -> Any:
    """Return a value in which nothing is taken for a variable."""
    return value.replace("${", "$${") if isinstance(value, str) else value


def _is_below(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _without_version(head: str) -> str:
    """Return front matter without the version, which was that of the old text."""
    return re.sub(r"(?m)^version[ \t]*:.*\r?\n", "", head)
