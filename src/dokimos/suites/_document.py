"""A YAML or JSON file as plain values, with the location of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dokimos._core.yaml_scalars import (
    CORE_TAGS,
    NULL,
    STR,
    make_loader,
    read_scalar_1_1,
    read_tagged,
)
from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError
from dokimos.suites._interpolation import Lookup, interpolate
from dokimos.suites._problems import Location, Problem, Steps, format_case_name, format_path
from dokimos.suites._yaml_versions import AmbiguousScalar

MOST_VALUES: Final = 1_000_000
TEXT_KEYS: Final = frozenset({"ground_truth", "input", "name"})
"""Keys whose scalars are texts even without quotes, so that 60.94 stays `60.94`."""
_FREE_KEYS: Final = frozenset(
    {"args", "env", "ground_truth", "headers", "metadata", "parameters", "params", "response_format",
     "schema", "turn_config"}
)  # fmt: skip
"""Below them, keys are the user's own."""
_OLD_FIRST: Final = frozenset("yYnNoO+-.0123456789")
"""What a scalar begins with that YAML 1.1 may have read otherwise."""
_UNTYPED: Final = _FREE_KEYS - {"env", "headers"} | {"range"}
"""Below them no schema says what a value has to be."""
_TEXT_MAPS: Final = frozenset({"env", "headers"})
"""Maps whose values are texts even without quotes."""

_SYNTAX: Final = {
    # The first phrase that occurs counts. libyaml and PyYAML's own parser word some faults differently.
    "'\\t' that cannot start any token": "indent with spaces, not with tabs",
    "cannot start any token": "quote texts that begin with @, ` or %",
    "another document": "a file holds one suite, so --- is allowed only at its beginning",
    "tab character": "indent with spaces, not with tabs",
    "mapping values are not allowed": "a colon is not allowed here; put a text that contains one in quotes",
    "could not find expected ':'": "a colon is missing here or in the line above",
    "did not find expected key": "this line does not have the same indentation as the lines it belongs to",
    "did not find expected '-'": "this line does not have the same indentation as the lines it belongs to",
    "expected <block end>": "this line does not have the same indentation as the lines it belongs to",
    "expected ',' or ']'": "a comma or the ] of the list is missing before this",
    "expected ',' or '}'": "a comma or the } of the map is missing before this",
    "found undefined alias": "this alias has no anchor of its name before it",
    "found duplicate anchor": "this anchor is given twice",
    "found unknown escape character": "this escape is unknown; in double quotes a backslash is \\\\",
    "unexpected end of stream": "the file ends within a value",
}
"""What to change, by what the parser says."""


@dataclass(slots=True)
class Document:
    """The values of one or several files, with their locations and problems."""

    value: Any
    file: Path
    locations: dict[Steps, Location] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    sources: dict[Steps, str] = field(default_factory=dict)
    """Numbers as they are written without quotes, for where a text is wanted."""
    ambiguous_scalars: list[AmbiguousScalar] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def location(self, steps: Steps) -> Location:
        """Return the location of a value, or of the nearest value around it."""
        steps_in_file = self.drop_unknown(steps)
        return self.locations.get(steps_in_file) or Location(self.file, 1, 1)

    def drop_unknown(self, steps: Steps) -> Steps:
        """Return the steps without those that are not in the file, such as the names of alternatives."""
        known_steps: Steps = ()
        for step in steps:
            if (*known_steps, step) in self.locations:
                known_steps = (*known_steps, step)
        return known_steps

    def problem(self, steps: Steps, message: str, *, missing: str = "") -> Problem:
        """Return a problem at a value."""
        steps_in_file = self.drop_unknown(steps)
        path_text = format_path((*steps_in_file, missing) if missing else steps_in_file)
        return Problem(
            message + format_case_name(self.value, steps_in_file), self.location(steps_in_file), path_text
        )

    def problem_in(self, steps: Steps, error: ConfigurationError, *, key: str = "") -> Problem:
        """Return the problem of a block, at the key that the error names, or at `key`."""
        setting = error.setting or key
        candidates = ((*steps, "params", setting), (*steps, setting))
        return self.problem(next((path for path in candidates if path in self.locations), steps), str(error))

    def graft(self, other: Document, *, source: Steps = (), target: Steps = ()) -> None:
        """Take over the places of a part of another document."""
        mine: Any
        for mine, theirs in ((self.locations, other.locations), (self.sources, other.sources)):
            for steps, entry in theirs.items():
                if steps[: len(source)] == source:
                    mine[(*target, *steps[len(source) :])] = entry

    def adopt_findings(self, other: Document) -> None:
        """Take over what is wrong with another document, and what was read otherwise once."""
        self.problems += other.problems
        self.ambiguous_scalars += other.ambiguous_scalars
        self.warnings += other.warnings


def read_yaml(path: Path, lookup: Lookup, *, text: str | None = None, first_line: int = 1) -> Document:
    """Read a YAML or JSON file; placeholders are expanded in its scalars after it has been parsed.

    What is wrong with it is in the document's `problems`; its value is None where it could not be read.
    """
    document = Document(None, path)
    files_read.record_data(path)
    try:
        # With "utf-8-sig", since editors on Windows put a byte order mark first.
        content = path.read_text(encoding="utf-8-sig") if text is None else text
        if path.suffix.lower() in (".json", ".jsonl"):
            _read_json(document, content, lookup, first_line)
        else:
            _read_nodes(document, content, lookup, first_line)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or f"it is not UTF-8: {error}"
        document.problems.append(Problem(f"cannot be read: {why}", Location(path, 1, 1)))
    except _TooMuch as error:
        document.problems.append(
            Problem("this file is too large or too deeply nested for a suite", error.location)
        )
    return document


def _read_json(document: Document, content: str, lookup: Lookup, first_line: int) -> None:
    from dokimos.suites._json_values import JsonValues

    def note(steps: Steps, location: Location) -> None:
        if len(document.locations) > MOST_VALUES:
            raise _TooMuch(location)
        document.locations[steps] = location

    def convert(steps: Steps, token: str, value: object) -> Any:
        if not isinstance(value, str):
            return token if value is not None and _is_text(steps) else value
        return interpolate(
            value,
            lookup,
            lambda message: document.problems.append(
                Problem(message, document.locations[steps], format_path(steps))
            ),
        )

    values = JsonValues(document.file, content, first_line=first_line, note=note, convert=convert)
    document.value = values.read()
    document.problems += values.problems


def _read_nodes(document: Document, content: str, lookup: Lookup, first_line: int) -> None:
    import yaml

    try:
        loader = make_loader(content)
        try:
            node = loader.get_single_node()
            if node is not None:
                document.value = _Reader(document, loader, lookup, first_line).read(node, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        document.problems.append(_syntax(document.file, error, first_line))


class _TooMuch(Exception):
    """A file holds more than anybody can have written, such as aliases of aliases."""

    def __init__(self, location: Location) -> None:
        self.location = location
        super().__init__(str(location))


def _syntax(path: Path, error: Any, first_line: int) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None) or ""
    if "quoted scalar" in context and "end of stream" in what:
        # The parser is at the end of the file by now; the quote to mend may be a thousand lines above.
        mark, what = error.context_mark, "the quote that is opened here is not closed"
    line, column = (mark.line + first_line, mark.column + 1) if mark else (first_line, 1)
    advice = next((advice for phrase, advice in _SYNTAX.items() if phrase in what), what)
    return Problem(f"this is not valid YAML: {advice}", Location(path, line, column))


class _Reader:
    """Turns the nodes of one file into values."""

    def __init__(self, document: Document, loader: Any, lookup: Lookup, first_line: int) -> None:
        self._document = document
        self._loader = loader
        self._lookup = lookup
        self._first_line = first_line

    def read(self, node: Any, steps: Steps) -> Any:
        locations = self._document.locations
        # Aliases of aliases grow exponentially, and nesting is limited well before Python's recursion is.
        if len(locations) > MOST_VALUES or len(steps) > 200:
            raise _TooMuch(self._place(node))
        locations[steps] = self._place(node)
        if node.id == "mapping":
            return self._mapping(node, steps)
        if node.id == "sequence":
            return [self.read(child, (*steps, index)) for index, child in enumerate(node.value)]
        return self._scalar(node, steps)

    def _mapping(self, node: Any, steps: Steps) -> dict[Any, Any]:
        seen: set[Any] = set()
        # Before flatten_mapping: afterwards, keys that a merge (`<<`) brings look like keys given twice.
        for key_node, _ in node.value:
            if key_node.id == "scalar" and key_node.tag != "tag:yaml.org,2002:merge":
                if key_node.value in seen:
                    self._complain(key_node, steps, f"the key {key_node.value!r} is given twice")
                seen.add(key_node.value)
        self._loader.flatten_mapping(node)
        entries: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar":
                self._complain(key_node, steps, "a key must be a word, not a list or a map")
                continue
            key = self._loader.construct_object(key_node)
            entries[key] = self.read(value_node, (*steps, key))
            # After read(), which noted where the value is: a problem is easier to find at its key.
            self._document.locations[(*steps, key)] = self._place(key_node)
        return entries

    def _scalar(self, node: Any, steps: Steps) -> Any:
        text: str = node.value
        is_plain = not node.style  # None or empty, by the parser
        # Only now that the file is parsed: a variable with a colon, a quote or a line break stays one text.
        if "${" in text:
            text = interpolate(text, self._lookup, lambda message: self._complain(node, steps, message))
            # In quotes it stays a text; without, `${TIMEOUT}` may become a number.
            if text != node.value and not is_plain:
                return text
            node = self._resolve_tag(node, text) if text != node.value else node
        tag = node.tag
        if tag not in (STR, NULL) and tag.startswith("tag:yaml.org,") and _is_text(steps):
            return text
        value: Any = text if tag == STR else self._construct(node, text, steps)
        if is_plain and text[:1] in _OLD_FIRST:
            self._note_source(node, text, value, steps)
        return value

    def _resolve_tag(self, node: Any, text: str) -> Any:
        import yaml

        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
        return yaml.ScalarNode(tag, text, node.start_mark, node.end_mark)

    def _construct(self, node: Any, text: str, steps: Steps) -> Any:
        import yaml

        try:
            if node.tag in CORE_TAGS:
                return read_tagged(node.tag, text)
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            why = getattr(error, "problem", None) or error
            self._complain(node, steps, f"{text!r:.80} cannot be read: {why}")
            return None

    def _note_source(self, node: object, text: str, value: object, steps: Steps) -> None:
        """Remember how a number is written, and what YAML 1.1 read otherwise."""
        if type(value) in (int, float):
            self._document.sources[steps] = text
        if not _is_untyped(steps):
            return
        before = read_scalar_1_1(text, value)
        # The types as well: True == 1 in Python, but `yes` and `1` are not the same to a metric.
        if type(before) is not type(value) or before != value:
            reading = AmbiguousScalar(
                text=text, now=value, before=before, location=self._place(node), path=format_path(steps)
            )
            self._document.ambiguous_scalars.append(reading)

    def _place(self, node: Any) -> Location:
        mark = node.start_mark
        return Location(self._document.file, mark.line + self._first_line, mark.column + 1)

    def _complain(self, node: object, steps: Steps, message: str) -> None:
        self._document.problems.append(Problem(message, self._place(node), format_path(steps)))


def _is_text(steps: Steps) -> bool:
    if not steps:
        return False
    if steps[-1] in TEXT_KEYS and _FREE_KEYS.isdisjoint(steps[:-1]):
        return True
    return len(steps) > 1 and steps[-2] in _TEXT_MAPS and _FREE_KEYS.isdisjoint(steps[:-2])


def _is_untyped(steps: Steps) -> bool:
    """Whether no schema says what a value has to be; the parameters of metrics have types."""
    free = _UNTYPED.intersection(steps)
    return bool(free) and not (free == {"params"} and {"metrics", "evaluations"} & set(steps))


def deep_merge(upper: Mapping[Any, Any], lower: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return two maps merged at every level; the upper one wins."""
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = deep_merge(value, below)
        result[key] = value
    return result
