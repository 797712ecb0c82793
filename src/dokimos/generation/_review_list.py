"""The review list: one case a line, in JSON, for a person to accept or to reject."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from dokimos._core.wire import from_json, to_json
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError, TypeConversionError
from dokimos.generation._review_case import ReviewCase, ReviewStatus, SourcePassage

_CASE_KEYS: Final = frozenset(field.name for field in fields(ReviewCase))
_SOURCE_KEYS: Final = frozenset(field.name for field in fields(SourcePassage))


def read_review_list(path: str | Path) -> tuple[ReviewCase, ...]:
    """Read a review list.

    Raises:
        ConfigurationError: naming the line that cannot be read.

    Example:
        >>> source = SourcePassage(document="a.md", text="It is open.")
        >>> case = ReviewCase(id="c1", input="Is it open?", source=source)
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_review_list(f"{folder}/review.jsonl", [case])
        ...     read_review_list(f"{folder}/review.jsonl") == (case,)
        True
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"Cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"Cannot read {path}: it is not UTF-8 ({error}).") from None
    cases: dict[str, ReviewCase] = {}
    # By hand: `splitlines` also breaks at signs that JSON text may hold.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        case = _read_case(path, number, line)
        if case.id in cases:
            raise ConfigurationError(f"{path}:{number}: there are two cases with the id {case.id!r}.")
        cases[case.id] = case
    return tuple(cases.values())


def write_review_list(path: str | Path, cases: Iterable[ReviewCase]) -> None:
    """Write a review list; the file is replaced in one step.

    Example:
        >>> source = SourcePassage(document="a.md", text="It is open.")
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     case = ReviewCase(id="c1", input="Is it open?", source=source)
        ...     write_review_list(f"{folder}/review.jsonl", [case])
        ...     len(read_review_list(f"{folder}/review.jsonl"))
        1
    """
    from dokimos.exporters._base import write_report

    write_report(Path(path), "".join(f"{_line(case)}\n" for case in cases))


@contextmanager
def hold_review_list(path: str | Path) -> Iterator[None]:
    """Keep other commands from changing a review list while it is read, changed and written."""
    from dokimos._runtime.file_lock import hold_lock

    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(place.with_name(f".{place.name}.lock")):
        yield


def merge_review_lists(known: Sequence[ReviewCase], found: Iterable[ReviewCase]) -> tuple[ReviewCase, ...]:
    """Return the cases that are known, as they were decided, and after them the new ones.

    Where the difficulty of a known one has been measured since, it is taken over.
    """
    by_id = {case.id: case for case in found}
    merged = []
    for case in known:
        again = by_id.pop(case.id, None)
        is_measured = again is not None and case.difficulty is None and again.difficulty is not None
        merged.append(
            replace(case, difficulty=again.difficulty, check=again.check) if again and is_measured else case
        )
    return (*merged, *by_id.values())


def decide(
    cases: Sequence[ReviewCase], ids: Iterable[str], status: ReviewStatus | str
) -> tuple[ReviewCase, ...]:
    """Return the cases, some of them accepted or rejected. Raises `ConfigurationError` for unknown ids."""
    chosen = set(ids)
    unknown = chosen - {case.id for case in cases}
    if unknown:
        raise ConfigurationError(f"There is no case {', '.join(sorted(unknown))} in the review list.")
    return tuple(replace(case, status=ReviewStatus(status)) if case.id in chosen else case for case in cases)


def build_dataset(cases: Iterable[ReviewCase], name: str = "generated") -> Dataset:
    """Return the accepted cases as a data set, each with its source in the metadata.

    Example:
        >>> source = SourcePassage(document="a.md", text="It is open.")
        >>> cases = [ReviewCase(id="c1", input="Is it open?", source=source, status="accepted")]
        >>> build_dataset(cases)[0].metadata["generated"]["document"]
        'a.md'
    """
    return Dataset([case.to_example() for case in cases if case.status is ReviewStatus.ACCEPTED], name=name)


def _read_case(path: str | Path, number: int, line: str) -> ReviewCase:
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}:{number}: not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{path}:{number}: not an object.")
    status = tree.get("status")
    if status is not None and status not in list(ReviewStatus):
        known = ", ".join(ReviewStatus)
        raise ConfigurationError(f"{path}:{number}: the status is {status!r}; it must be one of {known}.")
    # A key that is not read would be gone when the list is written again, and with it what a person wrote.
    for part, known_keys in ((tree, _CASE_KEYS), (_source_of(tree), _SOURCE_KEYS)):
        if unknown := [key for key in part if key not in known_keys]:
            raise ConfigurationError(
                f"{path}:{number}: unknown key {unknown[0]!r}. What you want to say about a case goes under "
                "'note'."
            )
    try:
        return from_json(ReviewCase, line)
    except (TypeConversionError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{path}:{number}: {error}") from None


def _source_of(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    source = tree.get("source")
    return source if isinstance(source, Mapping) else {}


def _line(case: ReviewCase) -> str:
    # With the status, also where it is the default: it is what a person changes.
    tree = json.loads(to_json(case))
    head = {"id": case.id, "status": case.status.value}
    return json.dumps(
        {**head, **{key: value for key, value in tree.items() if key not in head}}, ensure_ascii=False
    )
