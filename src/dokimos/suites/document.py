"""A YAML file as plain values that remember where each of them stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dokimos.suites.problems import Place, Problem, Steps, case_named, near, path_text

MOST_VALUES: Final = 1_000_000
TEXT_KEYS: Final = frozenset({"ground_truth", "input", "name"})
"""Keys whose scalars are texts even without quotes, so that 60.94 stays `60.94`."""
_FREE_KEYS: Final = frozenset(
    {"args", "env", "ground_truth", "headers", "metadata", "parameters", "params", "response_format",
     "schema", "turn_config"}
)  # fmt: skip
"""Below them, keys are the user's own."""
_NULL: Final = "tag:yaml.org,2002:null"
_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}")
_HALVES: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)

_HINTS: Final = {
    "cannot start any token": "; indent with blanks, never with tabs, and quote texts that begin with @ or `",
    "another document": "; a file holds one suite, so that --- stands at its beginning or nowhere",
}

Lookup = Callable[[str], str | None]
"""Gives the value of an environment variable, None where it is not set."""


@dataclass(slots=True)
class Document:
    """The values of one or several files, with their places and what is wrong with them."""

    value: Any
    file: Path
    places: dict[Steps, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, steps: Steps) -> Place:
        """Return the place of a value, or of what is nearest above it."""
        known = self.known(steps)
        return self.places.get(known) or Place(self.file, 1, 1)

    def known(self, steps: Steps) -> Steps:
        """Return the steps without those that are not in the file, such as the names of alternatives."""
        found: Steps = ()
        for step in steps:
            if (*found, step) in self.places:
                found = (*found, step)
        return found

    def problem(self, steps: Steps, message: str, *, missing: str = "") -> Problem:
        """Return a problem at a value."""
        known = self.known(steps)
        shown = path_text((*known, missing) if missing else known)
        return Problem(message + case_named(self.value, known), self.place(known), shown)

    def graft(self, other: Document, *, source: Steps = (), target: Steps = ()) -> None:
        """Take over the places of a part of another document."""
        for steps, place in other.places.items():
            if steps[: len(source)] == source:
                self.places[(*target, *steps[len(source) :])] = place


def read_yaml(path: Path, lookup: Lookup, *, text: str | None = None, first_line: int = 1) -> Document:
    """Read a YAML or JSON file; variables are put into its scalars after it has been parsed.

    What is wrong with it is in the document's `problems`; its value is None where it could not be read.
    """
    import yaml

    document = Document(None, path)
    try:
        content = path.read_text(encoding="utf-8-sig") if text is None else text
        if path.suffix.lower() in (".json", ".jsonl"):
            content = _with_whole_characters(content)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(content)
        try:
            node = loader.get_single_node()
            if node is not None:
                document.value = _Reader(document, loader, lookup, first_line).read(node, ())
        finally:
            loader.dispose()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or f"it is not UTF-8: {error}"
        document.problems.append(Problem(f"cannot be read: {why}", Place(path, 1, 1)))
    except _TooMuch as error:
        document.problems.append(Problem("there is more in this file than a suite can hold", error.place))
    except yaml.YAMLError as error:
        document.problems.append(_syntax(path, error, first_line))
    return document


class _TooMuch(Exception):
    """A file holds more than anybody can have written, such as aliases of aliases."""

    def __init__(self, place: Place) -> None:
        self.place = place
        super().__init__(str(place))


def _syntax(path: Path, error: Any, first_line: int) -> Problem:
    mark = getattr(error, "problem_mark", None)
    place = Place(path, mark.line + first_line, mark.column + 1) if mark else Place(path, first_line, 1)
    what = getattr(error, "problem", None) or str(error)
    hint = next((hint for told, hint in _HINTS.items() if told in what), "")
    return Problem(f"this is not valid YAML: {what}{hint}", place)


class _Reader:
    """Turns the nodes of one file into values."""

    def __init__(self, document: Document, loader: Any, lookup: Lookup, first_line: int) -> None:
        self._document = document
        self._loader = loader
        self._lookup = lookup
        self._first_line = first_line

    def read(self, node: Any, steps: Steps) -> Any:
        places = self._document.places
        if len(places) > MOST_VALUES or len(steps) > 200:
            raise _TooMuch(self._place(node))
        places[steps] = self._place(node)
        if node.id == "mapping":
            return self._mapping(node, steps)
        if node.id == "sequence":
            return [self.read(child, (*steps, index)) for index, child in enumerate(node.value)]
        return self._scalar(node, steps)

    def _mapping(self, node: Any, steps: Steps) -> dict[Any, Any]:
        seen: set[Any] = set()
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
            self._document.places[(*steps, key)] = self._place(key_node)
        return entries

    def _scalar(self, node: Any, steps: Steps) -> Any:
        import yaml

        text, changed = self._substituted(node, steps)
        is_plain = not node.style  # None or empty, by the parser
        if changed and is_plain:
            tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
            node = yaml.ScalarNode(tag, text, node.start_mark, node.end_mark)
        elif changed:
            return text
        if _is_text(steps) and node.tag != _NULL and node.tag.startswith("tag:yaml.org,"):
            return text
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            why = getattr(error, "problem", None) or error
            self._complain(node, steps, f"{text!r:.80} cannot be read: {why}")
            return None

    def _substituted(self, node: Any, steps: Steps) -> tuple[str, bool]:
        text: str = node.value
        if "${" not in text:
            return text, False

        def value(found: re.Match[str]) -> Any:
            name, default = found[1], found[3]
            if name is None:
                return "${"
            known = self._lookup(name)
            if known is None and default is None:
                hint = near(name, _environment_names())
                self._complain(
                    node,
                    steps,
                    f"the variable {name} is not set; set it, put it into .env, or write ${{{name}:-default}}"
                    f".{hint}",
                )
                return found[0]
            return default if known is None else known

        replaced = _VARIABLE.sub(value, text)
        return replaced, replaced != node.value

    def _place(self, node: Any) -> Place:
        mark = node.start_mark
        return Place(self._document.file, mark.line + self._first_line, mark.column + 1)

    def _complain(self, node: Any, steps: Steps, message: str) -> None:
        self._document.problems.append(Problem(message, self._place(node), path_text(steps)))


def _is_text(steps: Steps) -> bool:
    return bool(steps) and steps[-1] in TEXT_KEYS and _FREE_KEYS.isdisjoint(steps[:-1])


def _with_whole_characters(text: str) -> str:
    """Return JSON whose characters are one escape each: YAML does not know halves."""

    def whole(found: re.Match[str]) -> str:
        high, low = int(found[2], 16), int(found[3], 16)
        return f"{found[1]}\\U{0x10000 + ((high - 0xD800) << 10) + low - 0xDC00:08x}"

    return _HALVES.sub(whole, text) if "\\u" in text else text


def _environment_names() -> list[str]:
    import os

    return [name for name in os.environ if not name.startswith("_")]


def merged(upper: Mapping[Any, Any], lower: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return two maps merged at every level; the upper one wins."""
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merged(value, below)
        result[key] = value
    return result
