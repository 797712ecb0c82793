"""Reading a configuration of promptfoo with the files that it names."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from dokimos.errors import ConfigurationError
from dokimos.importers._promptfoo.assertions import KNOWN
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.files import read_data_file, read_text_file
from dokimos.importers._promptfoo.nunjucks.values import of_file
from dokimos.importers._promptfoo.shapes import CONFIG, SCENARIO, TEST, check_shape, number

FILE: Final = "file://"
DEFAULT_PROVIDER: Final = "openai:gpt-5-mini"
_DATA: Final = (".yaml", ".yml", ".json", ".jsonl", ".csv")
_BLOB: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".mp4", ".mp3", ".wav")
_EXPECTED: Final = re.compile(r"__expected(\d*)")
_CONFIG: Final = re.compile(r"__config:__expected(\d*):(\w+)")
# The part before the colon counts only if it is a known assertion: answers may have colons, too.
_SHORTHAND: Final = re.compile(r"\s*([a-z][a-z0-9-]*)(?:\(([\d.]+)\))?\s*:\s*(.*)", re.DOTALL)
_WITHOUT_VALUE: Final = ("is-json", "contains-json")
_LISTED: Final = ("contains-any", "contains-all", "icontains-any", "icontains-all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt: one text, or messages."""

    label: str
    text: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()


class Reader:
    """Reads one configuration; paths are relative to its folder."""

    def __init__(self, path: Path, notes: Notes) -> None:
        self.folder = path.parent
        self.notes = notes
        self.config = self._config(path)

    def prompts(self) -> list[Prompt]:
        """Return the prompts; without any, the variable `prompt` is the prompt."""
        entry_value = self._include(self.config.get("prompts", "{{prompt}}"))
        if isinstance(entry_value, Mapping) and not {"raw", "id"} & set(entry_value):
            entry_value = [{"id": name, "label": label} for name, label in entry_value.items()]
        entries = entry_value if isinstance(entry_value, list) else [entry_value]
        return [prompt for entry in entries for prompt in self._prompt(entry)]

    def providers(self) -> list[Any]:
        """Return the providers; without any, the usual one."""
        entry_value = self._include(
            self.config.get("providers") or self.config.get("targets") or DEFAULT_PROVIDER
        )
        included = [
            self._include(one) for one in (entry_value if isinstance(entry_value, list) else [entry_value])
        ]
        return [one for entry in included for one in (entry if isinstance(entry, list) else [entry])]

    def tests(self) -> list[dict[str, Any]]:
        """Return all tests with the defaults put under them, one for each combination of listed values."""
        default = check_shape(self._include(self.config.get("defaultTest") or {}), TEST, "defaultTest")
        raw_tests = [*self._tests(self.config.get("tests") or []), *self._scenarios()]
        merged = [self._with_files(_over(default, test)) for test in raw_tests]
        return [test for one in merged for test in self._spread(one)]

    def _config(self, path: Path) -> dict[str, Any]:
        tree = self._data(path)
        if not isinstance(tree, dict) or not {"prompts", "providers", "tests", "scenarios"} & set(tree):
            raise ConfigurationError(f"{path} is not a promptfoo configuration: it has no prompts or tests.")
        return check_shape(tree, CONFIG, str(path))

    def _data(self, path: Path) -> Any:
        return self._table(path) if path.suffix == ".csv" else read_data_file(path)

    def _table(self, path: Path) -> list[dict[str, Any]]:
        try:
            return [self._row(row) for row in csv.DictReader(io.StringIO(read_text_file(path), newline=""))]
        except csv.Error as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from None

    def _place(self, reference: str) -> Path:
        return self.folder / reference.removeprefix(FILE)

    def _include(self, value: object) -> Any:
        """Return the content of a data file that stands in the place of a value."""
        if isinstance(value, str) and value.startswith(FILE) and value.endswith(_DATA):
            return self._data(self._place(value))
        return value

    def _prompt(self, entry: object) -> Iterator[Prompt]:
        label, entry_value = "", entry
        if isinstance(entry, Mapping):
            label, entry_value = str(entry.get("label") or ""), entry.get("raw") or entry.get("id") or ""
        entry_value = str(entry_value)
        path = (
            self._place(entry_value)
            if entry_value.startswith(FILE) or _looks_like_file(entry_value)
            else None
        )
        if path is None:
            yield (
                Prompt(label=label, text=entry_value)
                if not _messages(entry_value)
                else _chat(label, entry_value)
            )
            return
        for one in (
            sorted(self.folder.glob(str(path.relative_to(self.folder)))) if "*" in entry_value else [path]
        ):
            yield from self._prompt_file(label or one.stem, one)

    def _prompt_file(self, label: str, path: Path) -> Iterator[Prompt]:
        if path.suffix not in (".txt", ".md", ".j2", ".json", ".yaml", ".yml", ".csv"):
            self.notes.lose(f"the prompt {path.name} is made by a program")
            return
        text = read_text_file(path)
        if path.suffix == ".csv":
            rows = csv.DictReader(io.StringIO(text, newline=""))
            yield from (Prompt(label=row.get("label") or label, text=row.get("prompt") or "") for row in rows)
        elif path.suffix in (".yaml", ".yml"):
            yield _chat(label, json.dumps(self._data(path), ensure_ascii=False))
        elif _messages(text):
            yield _chat(label, text)
        else:
            parts = [part.strip() for part in re.split(r"^---\s*$", text, flags=re.MULTILINE)]
            for number, part in enumerate((part for part in parts if part), 1):
                yield Prompt(label=label if len(parts) == 1 else f"{label} {number}", text=part)

    def _tests(self, entry_value: object) -> list[dict[str, Any]]:
        entries = entry_value if isinstance(entry_value, list) else [entry_value]
        return [test for entry in entries for test in self._entry(entry)]

    def _entry(self, entry: object) -> Iterator[dict[str, Any]]:
        # A map with `path` names a file of tests; any other is a test.
        if isinstance(entry, dict) and "path" not in entry:
            yield check_shape(entry, TEST, "a test")
            return
        name = str(entry["path"] if isinstance(entry, dict) else entry)
        if not name.endswith(_DATA) or "://" in name.removeprefix(FILE):
            self.notes.lose(f"the tests of {name} are made by a program or come from elsewhere")
            return
        path = self._place(name)
        paths = sorted(self.folder.glob(name.removeprefix(FILE))) if "*" in name else [path]
        for one in paths:
            tree = self._data(one)
            yield from self._tests(tree.get("tests", tree) if isinstance(tree, dict) else tree or [])

    def _scenarios(self) -> list[dict[str, Any]]:
        spread = []
        for scenario in self._include(self.config.get("scenarios") or []):
            block = check_shape(self._include(scenario), SCENARIO, "a scenario")
            configs = self._tests(block.get("config") or [{}])
            tests = self._tests(block.get("tests") or [{}])
            spread += [_over(config, test) for config, test in product(configs, tests)]
        return spread

    def _with_files(self, test: dict[str, Any]) -> dict[str, Any]:
        """Return a test whose variables hold what the files that they name do; pictures become inputs."""
        variables, files = {}, []
        entry_value = check_shape(self._include(test.get("vars") or {}), {}, "vars of a test")
        for name, value in entry_value.items():
            is_file = isinstance(value, str) and value.startswith(FILE)
            if is_file and value.lower().endswith(_BLOB):
                files.append(value.removeprefix(FILE))
                variables[name] = ""
            elif is_file and value.endswith((".js", ".py", ".ts", ".mjs")):
                self.notes.lose(f"the variable {name} is made by {value}")
            elif is_file:
                path = self._place(value)
                variables[name] = self._content(path)
            else:
                variables[name] = value
        return {**test, "vars": variables, "files": files}

    def _content(self, path: Path) -> Any:
        """Return what a file of a variable holds; promptfoo writes JSON as it stands in the file."""
        text = read_text_file(path).strip()
        if path.suffix not in _DATA[:3]:
            return text
        return of_file(self._data(path), text if path.suffix == ".json" else None)

    def _spread(self, test: dict[str, Any]) -> Iterator[dict[str, Any]]:
        options = test.get("options") or {}
        listed = (
            [] if options.get("disableVarExpansion") else [n for n, v in test["vars"].items() if _is_list(v)]
        )
        # promptfoo runs a test with lists of values once for each combination of them.
        for combination in product(*(test["vars"][name] for name in listed)):
            yield {**test, "vars": {**test["vars"], **dict(zip(listed, combination, strict=True))}}

    def _row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of a table as a test."""
        test: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}, "options": {}}
        settings: dict[str, dict[str, Any]] = {}
        for column, cell in row.items():
            if not column or not isinstance(cell, str):
                continue
            # Before the plain columns of assertions, which these settings belong to by their number.
            if found := _CONFIG.fullmatch(column):
                settings.setdefault(found[1], {})[found[2]] = number(cell, column) if cell else None
            elif found := _EXPECTED.fullmatch(column):
                test["assert"] += [{**parse_assertion(cell), "column": found[1]}] if cell.strip() else []
            else:
                self._cell(test, column, cell)
        for assertion in test["assert"]:
            column = assertion.pop("column")
            own_settings = {**settings.get("", {}), **settings.get(column, {})}
            assertion |= {key: value for key, value in own_settings.items() if value is not None}
            if row.get("__metric"):
                assertion["metric"] = row["__metric"]
        return test

    def _cell(self, test: dict[str, Any], column: str, cell: str) -> None:
        match column:
            case "__description":
                test["description"] = cell
            case "__prefix" | "__suffix":
                test["options"][column.removeprefix("__")] = cell
            case "__threshold":
                test["threshold"] = number(cell, column) if cell else None
            case "__metric":
                pass
            case _ if column.startswith("__metadata:"):
                _note_metadata(test["metadata"], column.removeprefix("__metadata:"), cell)
            case _ if column.startswith("__"):
                self.notes.lose(f"the column {column}")
            case _:
                test["vars"][column] = cell


def _note_metadata(metadata: dict[str, Any], key: str, cell: str) -> None:
    values = [part.replace("\\,", ",").strip() for part in re.split(r"(?<!\\),", cell)]
    metadata[key.removesuffix("[]")] = values if key.endswith("[]") else cell


def parse_assertion(text: str) -> dict[str, Any]:
    """Return the assertion that a cell such as `similar(0.8): Hello` stands for."""
    if text.strip().removeprefix("not-") in _WITHOUT_VALUE:
        return {"type": text.strip()}
    match = _SHORTHAND.match(text)
    if match is None or not _is_type(match[1]):
        return {"type": "equals", "value": text}
    kind, threshold, value = match[1], match[2], match[3].strip()
    if kind in ("fn", "eval"):
        kind = "javascript"
    elif kind == "grade":
        kind = "llm-rubric"
    assertion: dict[str, Any] = {"type": kind}
    if kind.removeprefix("not-") in _LISTED:
        assertion["value"] = [part.strip() for part in next(csv.reader([value], skipinitialspace=True), [])]
    elif kind.removeprefix("not-") in ("latency", "cost") and threshold is None:
        assertion["threshold"] = number(value, f"the value of {kind}")
    elif value:
        assertion["value"] = value
    return (
        assertion
        if threshold is None
        else {**assertion, "threshold": number(threshold, f"the threshold of {kind}")}
    )


def _is_type(name: str) -> bool:
    return name.removeprefix("not-") in KNOWN or name in ("fn", "eval", "grade")


def _over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test with another one under it: maps are merged, assertions joined."""
    joined = {**lower, **upper}
    for key in ("vars", "options", "metadata"):
        below, above = lower.get(key) or {}, upper.get(key) or {}
        # `vars` may be the name of a file, which cannot be merged with a map.
        mixed = isinstance(below, str) or isinstance(above, str)
        joined[key] = (above or below) if mixed else {**below, **above}
    own = (lower.get("options") or {}).get("disableDefaultAsserts") or (upper.get("options") or {}).get(
        "disableDefaultAsserts"
    )
    joined["assert"] = [*([] if own else lower.get("assert") or []), *(upper.get("assert") or [])]
    return joined


def _is_list(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(one, str | int | float) for one in value)
    )


def _looks_like_file(text: str) -> bool:
    return re.fullmatch(r"[\w./*-]+\.(txt|md|j2|json|yaml|yml|csv|py|js|mjs|ts)(:\w+)?", text) is not None


def _messages(text: str) -> bool:
    return text.lstrip().startswith("[") and '"role"' in text


def _chat(label: str, text: str) -> Prompt:
    try:
        tree = json.loads(text)
    except ValueError:
        return Prompt(label=label, text=text)
    if not isinstance(tree, list) or not all(isinstance(one, dict) and "role" in one for one in tree):
        return Prompt(label=label, text=text)
    return Prompt(label=label, messages=tuple(tree))
