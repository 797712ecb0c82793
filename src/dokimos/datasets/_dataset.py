"""Data sets: examples in memory, and examples that come one at a time."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final, Generic, TypeVar, overload

from dokimos._core import checks
from dokimos._core.example import Example, convert_types
from dokimos._core.printable import Printable
from dokimos._core.text import quote
from dokimos._core.type_parameters import In, In_co, Out, Out_co
from dokimos.datasets._batched_examples import StreamSummary
from dokimos.datasets._dataset_source import DatasetSource
from dokimos.datasets._fingerprint import Fingerprint
from dokimos.datasets._rows import duplicate_id
from dokimos.datasets._split import part_sizes, shuffle
from dokimos.errors import ConfigurationError, DatasetError

Location = str | os.PathLike[str]
Columns = Mapping[str, str]
Loaded = TypeVar("Loaded", "Dataset[Any, Any]", "DatasetStream[Any, Any]")
_LOGIN: Final = re.compile(r"://[^/@\s]*:[^/@\s]*@")
"""User and password in a URI, which no record of a run may hold."""


@dataclass(frozen=True, repr=False, init=False)
class Dataset(Printable, Sequence[Example[In_co, Out_co]], Generic[In_co, Out_co]):
    """Examples in order, all in memory; ids are unique.

    The file readers take a path or `text=...`. In all of them, `columns` says what the names of a foreign
    file mean: `{"question": "input", "ground_truth": "expected_output", "topic": "metadata.topic"}`.
    What cannot be read is a `DatasetError` with file and line.

    Example:
        >>> data = Dataset.from_rows([{"input": "2 + 2", "expectedOutput": "4"}], name="sums")
        >>> len(data), data[0].input, data[0].expected_output
        (1, '2 + 2', '4')
    """

    __dokimos_view__ = "dokimos.reporting._data_views:DATASET"

    examples: tuple[Example[In_co, Out_co], ...]
    name: str
    description: str
    source: DatasetSource | None = field(default=None, compare=False)
    """Where it was loaded from; equal examples from elsewhere make an equal data set."""

    def __init__(
        self,
        examples: Iterable[Example[In_co, Out_co]] = (),
        name: str = "unnamed",
        description: str = "",
        *,
        source: DatasetSource | None = None,
    ) -> None:
        if not isinstance(examples, Iterable):
            raise ConfigurationError(f"A Dataset holds Examples, not {type(examples).__name__}.")
        checks.require_text("name", name)
        checks.require_text("description", description)
        examples = tuple(examples)
        for index, example in enumerate(examples):
            if not isinstance(example, Example):
                kind = type(example).__name__
                raise DatasetError(
                    f"A Dataset holds Examples, but item {index} is a {kind}. "
                    "Dataset.from_rows(...) takes dicts."
                )
        if twice := duplicate_id(examples):
            raise DatasetError(_twice(name, *twice))
        object.__setattr__(self, "examples", examples)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "source", source)

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example[In_co, Out_co]]:
        return iter(self.examples)

    @overload
    def __getitem__(self, index: int) -> Example[In_co, Out_co]: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset[In_co, Out_co]: ...
    def __getitem__(self, index: int | slice) -> Example[In_co, Out_co] | Dataset[In_co, Out_co]:
        """Return one example, or a Dataset of a slice."""
        if isinstance(index, slice):
            return self._with(self.examples[index])
        return self.examples[index]

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the content of the examples in order; file format and name do not count."""
        fingerprint = Fingerprint()
        fingerprint.add_all(self.examples)
        return fingerprint.digest()

    @property
    def duplicate_ids(self) -> int:
        """Always 0; a `DatasetStream` may have some."""
        return 0

    @property
    def item_ids(self) -> tuple[str | None, ...]:
        """The ids that the examples have in a data set of a server, in order; None for the others."""
        return tuple(example.dataset_item_id for example in self.examples)

    @cached_property
    def input_keys(self) -> frozenset[str]:
        """What the inputs of the examples are called, all of them together."""
        return frozenset(key for example in self.examples for key in example.inputs)

    def subset(self, examples: Iterable[Example[In, Out]]) -> Dataset[In, Out]:
        """Return some of the examples as a data set for which a task is called as it is for all of them."""
        chosen = self._with(examples)
        # Past the frozen dataclass; whether a task gets the input or a map follows from all examples.
        chosen.__dict__["input_keys"] = self.input_keys
        return chosen

    def filter(self, keep: Callable[[Example[In_co, Out_co]], bool]) -> Dataset[In_co, Out_co]:
        """Return the examples for which `keep` is true."""
        return self._with(example for example in self.examples if keep(example))

    def sample(self, n: int, seed: int = 0) -> Dataset[In_co, Out_co]:
        """Return `n` examples chosen at random, the same ones for the same seed, in their order here."""
        if not checks.is_count(n) or not 0 <= n <= len(self):
            raise ConfigurationError(
                f"sample(n) needs n in 0..{len(self)}, the size of {self.name!r}, not {n!r:.80}."
            )
        # The first n of the whole order: a larger sample with the same seed contains a smaller one.
        return self._at(shuffle(len(self), seed)[:n])

    def split(
        self, parts: float | int | Sequence[float] | Sequence[int], seed: int = 0
    ) -> tuple[Dataset[In_co, Out_co], ...]:
        """Divide the examples at random into data sets that share none.

        `split(0.8)` and `split(80)` give that share or number, and the rest. A sequence gives one data set
        for each element: shares that add up to 1, or counts that add up to `len(self)`.
        """
        sizes = part_sizes(parts, len(self))
        order = shuffle(len(self), seed)
        pieces = []
        for number, size in enumerate(sizes, 1):
            chosen, order = order[:size], order[size:]
            pieces.append(self._at(chosen, f"{self.name} {number}/{len(sizes)}"))
        return tuple(pieces)

    @overload
    def as_types(self, input: type[In]) -> Dataset[In, Any]: ...
    @overload
    def as_types(self, input: type[In], output: type[Out]) -> Dataset[In, Out]: ...
    def as_types(self, input: type[Any], output: type[Any] | None = None) -> Dataset[Any, Any]:
        """Return the examples with their inputs, and expected outputs, as values of your own types.

        `Dataset.load("questions.jsonl").as_types(Question, Answer)` is a `Dataset[Question, Answer]`. What is
        converted is `input_value` and `expected`; it is then under "input" and "output".

        Raises:
            TypeConversionError: naming the first example that cannot be converted, and why.
        """
        return self._with(convert_types(example, input, output) for example in self.examples)

    @classmethod
    def load(cls, uri: Location, columns: Columns | None = None) -> Dataset:
        """Load a path, `file:...`, `package:some.pkg/data.json`, `-` or a URI of a registered resolver."""
        from dokimos.datasets._resolver import resolver_for

        return _with_source(resolver_for(uri).load(os.fspath(uri), columns), uri)

    @classmethod
    def stream(cls, uri: Location, columns: Columns | None = None) -> DatasetStream:
        """Open what `load` would load, to be read one example at a time, any number of times."""
        from dokimos.datasets._resolver import resolver_for

        return _with_source(resolver_for(uri).stream(os.fspath(uri), columns), uri)

    @classmethod
    def from_json(
        cls,
        path: Location | None = None,
        *,
        text: str | None = None,
        name: str | None = None,
        columns: Columns | None = None,
    ) -> Dataset:
        """Read an object with the array "examples" (and "name", "description"), or an array of examples."""
        from dokimos.datasets._loaders import load_source

        return load_source(_source(path, text), "json", columns, name=name)

    @classmethod
    def from_jsonl(
        cls,
        path: Location | None = None,
        *,
        text: str | None = None,
        name: str | None = None,
        columns: Columns | None = None,
    ) -> Dataset:
        """Read one example per line."""
        from dokimos.datasets._loaders import load_source

        return load_source(_source(path, text), "jsonl", columns, name=name)

    @classmethod
    def from_csv(
        cls,
        path: Location | None = None,
        *,
        text: str | None = None,
        name: str | None = None,
        columns: Columns | None = None,
        delimiter: str = ",",
    ) -> Dataset:
        """Read a table with the column `input`.

        `expectedOutput`, `expected_output` or `output` is the expected output, `actual_output` a recorded
        one, `metrics` their metrics as JSON, `id` the id; the rest is metadata. All values are texts.
        """
        from dokimos.datasets._loaders import load_source

        return load_source(_source(path, text), "csv", columns, name=name, delimiter=delimiter)

    @classmethod
    def from_parquet(
        cls, path: Location, *, name: str | None = None, columns: Columns | None = None
    ) -> Dataset:
        """Read a Parquet file; its columns mean what `from_rows` says. Needs `dokimos[parquet]`."""
        from dokimos.datasets._loaders import load_source
        from dokimos.datasets._source import Source

        return load_source(Source.of_path(path), "parquet", columns, name=name)

    @classmethod
    def from_rows(
        cls, rows: object, columns: Columns | None = None, *, name: str = "unnamed", description: str = ""
    ) -> Dataset:
        """Read mappings: a list of dicts, a pandas or polars frame, an Arrow table, a Hugging Face data set.

        Columns mean what they mean in a CSV file; `inputs`, `expected_outputs`, `actual_outputs` and
        `metadata` may also hold whole maps.
        """
        from dokimos.datasets._tables import read_rows

        return cls(tuple(read_rows(rows, columns)), name, description)

    def save(self, path: Location) -> None:
        """Write a file in the format of its extension: .json, .jsonl, .csv, .tsv, also with .gz, or .parquet.

        The file appears whole or not at all.
        """
        from dokimos.datasets._writers import save

        save(self, path)

    def to_json(self, path: Location) -> None:
        """Write one JSON document with name, description and examples."""
        from dokimos.datasets._writers import write_json

        write_json(self, path)

    def to_jsonl(self, path: Location) -> None:
        """Write one line per example."""
        from dokimos.datasets._writers import write_jsonl

        write_jsonl(self, path)

    def to_csv(self, path: Location, *, delimiter: str = ",") -> None:
        """Write a table. Values become texts; examples with more inputs or outputs are a `DatasetError`."""
        from dokimos.datasets._writers import write_csv

        write_csv(self, path, delimiter)

    def to_parquet(self, path: Location) -> None:
        """Write a Parquet file. Needs `dokimos[parquet]`."""
        from dokimos.datasets._writers import write_parquet

        write_parquet(self, path)

    def _with(self, examples: Iterable[Example[In, Out]], name: str | None = None) -> Dataset[In, Out]:
        return Dataset(tuple(examples), name or self.name, self.description, source=self.source)

    def _at(self, positions: Iterable[int], name: str | None = None) -> Dataset[In_co, Out_co]:
        return self._with((self.examples[position] for position in sorted(positions)), name)


class DatasetStream(Iterable[Example[In_co, Out_co]], Generic[In_co, Out_co]):
    """Examples that are read anew by each iteration and never held in memory together.

    A whole iteration costs 8 bytes for each example with an id, to count the ids that occur twice.

    Example:
        >>> def sums():
        ...     yield from (Example.of(f"{n} + 1", str(n + 1)) for n in range(1_000))
        >>> stream = DatasetStream(sums, name="sums")
        >>> next(iter(stream)).input
        '0 + 1'
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Example[In_co, Out_co]]],
        name: str = "unnamed",
        description: str = "",
        *,
        waits: bool = False,
        source: DatasetSource | None = None,
    ) -> None:
        if not callable(read):
            raise ConfigurationError(
                f"A DatasetStream takes a function that returns the examples, not {type(read).__name__}."
            )
        self.name: str = checks.require_text("name", name)
        self.description: str = checks.require_text("description", description)
        self.source: DatasetSource | None = source
        """Where it is read from."""
        self.fingerprint: str | None = None
        """Like `Dataset.fingerprint`; None until one iteration has come to the end."""
        self.waits = waits
        """Whether the next example may take long to come; then an experiment asks for it in a thread."""
        self.duplicate_ids: int = 0
        """How many examples of the last whole iteration had an id that had come before."""
        self._read = read

    def __repr__(self) -> str:
        return f"DatasetStream({self.name!r})"

    def __iter__(self) -> Iterator[Example[In_co, Out_co]]:
        return chain.from_iterable(self._read_batches())

    def _read_batches(self) -> Iterator[Sequence[Example[In_co, Out_co]]]:
        summary = StreamSummary()
        yield from summary.pass_on(self._read())
        self.fingerprint = summary.fingerprint()
        self.duplicate_ids = summary.duplicate_ids()


def _with_source(loaded: Loaded, uri: Location) -> Loaded:
    """Return what a resolver loaded, with the URI that was asked for unless the resolver knows better."""
    found: object = loaded  # a resolver is written by anyone
    if not isinstance(found, Dataset | DatasetStream) or found.source is not None:
        return loaded
    # A copy: a resolver may hold on to what it returns.
    loaded = copy.copy(loaded)
    object.__setattr__(loaded, "source", DatasetSource(uri=_LOGIN.sub("://", os.fspath(uri))))
    return loaded


def _source(path: Location | None, text: str | None) -> Any:
    from dokimos.datasets._source import Source

    if (path is None) == (text is None):
        raise ConfigurationError("Give either a path or text=..., and not both.")
    if text is not None and not isinstance(text, str):
        raise ConfigurationError(f"text must be text, not {type(text).__name__}.")
    if isinstance(path, str) and _looks_like_data(path):
        raise ConfigurationError(
            f"{quote(path)} is not a path but looks like the data itself; write text=... to give the data."
        )
    return Source.of_text(text) if path is None and text is not None else Source.of_path(path or "")


def _looks_like_data(path: str) -> bool:
    """Say whether somebody gave the content of a file in the place of its path."""
    return "\n" in path or (path.lstrip()[:1] in ("{", "[") and not os.path.exists(path))


def _twice(name: str, id: str, first: int, second: int) -> str:
    return (
        f"The id {id!r} is given twice in the data set {name!r}: by examples {first} and {second} "
        "(counted from 0). Ids must be unique."
    )
