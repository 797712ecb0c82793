"""Data sets as parameters of tests."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._core import checks
from dokimos._core.example import Example
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError, DatasetError

if TYPE_CHECKING:
    import pytest

    from dokimos.reporting._protocol import Reporter

LONGEST_SLUG: Final = 40
LONGEST_ID: Final = 100
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")

DatasetLike = Dataset | Iterable[Example] | str | Path


def dataset_source(
    dataset: DatasetLike | None = None,
    *,
    json: str | None = None,
    jsonl: str | None = None,
    runs: int = 1,
    argument: str = "example",
    ids: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    reporter: Reporter | str | None = None,
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test once per example, the same as `@pytest.mark.dokimos(...)`.

    Args:
        dataset: A data set, a path (relative to the test module, else to pytest's root) or a URI.
        json: The text of a JSON data set, in its place.
        jsonl: The text of a JSONL data set, in its place.
        runs: How often each example is run.
        argument: The test's argument that receives the example.
        ids: A template for the tests' ids, with `{index}` (from 1), `{id}`, `{input}` and `{run}` (from 1).
        metadata: Goes to the reporter with the run.
        reporter: Receives the test function's cases as one run; an object, or `module:attribute`.
    """
    import pytest

    given = {
        "dataset": dataset, "json": json, "jsonl": jsonl, "runs": runs, "argument": argument,
        "ids": ids, "metadata": metadata, "reporter": reporter,
    }  # fmt: skip
    return pytest.mark.dokimos(**{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSource:
    """The arguments of a test function's `dokimos` marker."""

    dataset: DatasetLike | None = None
    json: str | None = None
    jsonl: str | None = None
    runs: int = 1
    argument: str = "example"
    ids: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reporter: Reporter | str | None = None

    @classmethod
    def of(cls, marker: pytest.Mark) -> CaseSource:
        """Read a marker. Raises `ConfigurationError` for arguments that it does not take."""
        names = cls.__dataclass_fields__
        unknown = [name for name in marker.kwargs if name not in names]
        if unknown:
            known = ", ".join(names)
            raise ConfigurationError(f"@pytest.mark.dokimos has no {unknown[0]}=; there are {known}.")
        if len(marker.args) + ("dataset" in marker.kwargs) > 1:
            raise ConfigurationError("@pytest.mark.dokimos takes one data set.")
        source = cls(**dict(zip(("dataset",), marker.args, strict=False)), **marker.kwargs)
        if sum(given is not None for given in (source.dataset, source.json, source.jsonl)) > 1:
            raise ConfigurationError("@pytest.mark.dokimos takes one of dataset=, json= and jsonl=.")
        checks.require_positive("runs", source.runs)
        return source

    @property
    def has_data(self) -> bool:
        """Whether the marker names a data set; without one it only makes the plugin record the test."""
        return any(given is not None for given in (self.dataset, self.json, self.jsonl))

    def load(self, module: Path, root: Path) -> Dataset:
        """Return the data set. Raises `DatasetError` if it cannot be loaded or is empty."""
        data = self._load(module, root)
        if not len(data):
            raise DatasetError(f"The data set {data.name!r} is empty, so there is nothing to test.")
        return data

    def _load(self, module: Path, root: Path) -> Dataset:
        if self.json is not None:
            return Dataset.from_json(text=self.json)
        if self.jsonl is not None:
            return Dataset.from_jsonl(text=self.jsonl)
        if isinstance(self.dataset, str | Path):
            return Dataset.load(_resolve_path(self.dataset, module, root))
        if isinstance(self.dataset, Dataset):
            return self.dataset
        return Dataset(() if self.dataset is None else self.dataset)


@dataclass(frozen=True, slots=True)
class Case:
    """One test to generate: an example, its position and the id of the test."""

    example: Example
    position: int
    """Index in the data set."""
    index: int
    """Index among all cases of the test function, whose repeats come one after the other."""
    run_index: int
    id: str


def cases(data: Dataset, *, runs: int = 1, ids: str | None = None) -> Iterator[Case]:
    """Yield the cases of a data set with unique ids."""
    for run_index in range(runs):
        # Anew for each repeat, so that an example has the same name in all of them except for the suffix.
        used: set[str] = set()
        suffix = f"-run{run_index + 1}" if runs > 1 else ""
        for position, example in enumerate(data):
            name = _make_unique(_id_of(example, position, run_index, ids), used)
            yield Case(example, position, run_index * len(data) + position, run_index, name + suffix)


def _resolve_path(dataset: str | Path, module: Path, root: Path) -> str | Path:
    text = str(dataset)
    if _SCHEME.match(text) or Path(text).is_absolute():
        return dataset
    # Never the working directory, which is another one in an editor, under tox and in CI.
    existing = next((folder / text for folder in (module.parent, root) if (folder / text).exists()), None)
    return dataset if existing is None else existing


def _id_of(example: Example, position: int, run_index: int, template: str | None) -> str:
    if not template:
        return example.id or slug(example.input or "") or f"row-{position + 1}"
    values = {
        "index": position + 1, "id": example.id or "", "input": example.input or "", "run": run_index + 1,
    }  # fmt: skip
    try:
        rendered = template.format(**values)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"The ids template {template!r} cannot be filled in ({error}); "
            "it may hold {index}, {id}, {input} and {run}."
        ) from None
    return " ".join(rendered.split())[:LONGEST_ID] or f"row-{position + 1}"


def slug(text: str) -> str:
    """Return a text in a form that is easy to type after `-k`, such as `how-do-i-reset-it`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    slugged = ""
    for word in words:
        longer = f"{slugged}-{word}" if slugged else word
        if len(longer) > LONGEST_SLUG:
            break
        slugged = longer
    return slugged or "".join(words)[:LONGEST_SLUG]


def _make_unique(name: str, used: set[str]) -> str:
    unique, number = name, 1
    while unique in used:
        number += 1
        unique = f"{name}-{number}"
    used.add(unique)
    return unique
