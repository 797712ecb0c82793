"""The runs that agents have made, `~/.dokimos/mcp-results.json`: the file of the reference, read and written.

It is an array of records with exactly the reference's fields: its own reader refuses a file with any other.
What we know beyond them, such as the run folder and the errors of items, is in `modelConfig`, which is open.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dokimos._core.checks import is_number
from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.provenance import Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos._runtime.file_lock import hold_lock
from dokimos._runtime.terminal_text import print_line

FILE: Final = "mcp-results.json"
RUN: Final = "run"
"""In `modelConfig`: the id of the run in the local run store."""
ERRORS: Final = "errors"
"""In `modelConfig`: why items have no answer, by their positions."""
OVERALL: Final = "overall"
"""The evaluator of items for which none is recorded, as the reference calls it."""

Record = Mapping[str, Any]


def default_file() -> Path:
    """Return where the reference keeps its runs, too."""
    return Path.home() / ".dokimos" / FILE


@dataclass(frozen=True, slots=True)
class ResultStore:
    """A file of runs; several processes may write it."""

    file: Path

    def records(self) -> list[Record]:
        """Return all runs, oldest first; a damaged file is set aside, which is said on standard error.

        Where it cannot be set aside, as in a folder that is not writable, what is readable of it is returned.
        """
        records, problem = self._read()
        if problem is not None:
            try:
                with self._hold():
                    records = self._read_or_set_aside()
            except OSError as error:
                print_line(f"{self.file} is damaged ({problem}), and cannot be set aside: {error.strerror}")
        return records

    def find(self, run_id: str) -> Record | None:
        """Return the run with this id, None where there is none."""
        return next((record for record in self.records() if record["id"] == run_id), None)

    def add(self, record: Record) -> None:
        """Add a run, or replace the one with its id."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self._hold() as target:
            others = [one for one in self._read_or_set_aside() if one["id"] != record["id"]]
            _write(target, [*others, record])

    @contextlib.contextmanager
    def _hold(self) -> Iterator[Path]:
        """Keep other processes from writing the file inside the block; a link to it stays a link."""
        target = self.file.resolve()
        with hold_lock(target.with_name(f"{target.name}.lock")):
            yield target

    def _read(self) -> tuple[list[Record], str | None]:
        """Return the readable runs, and what is wrong with the file, None for nothing."""
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return [], None
        if not content.strip():
            return [], None
        records, problem = _parse_records(content)
        return sorted(records, key=lambda record: str(record.get("timestamp") or "")), problem

    def _read_or_set_aside(self) -> list[Record]:
        # Under the lock: what another process has mended meanwhile is not set aside.
        records, problem = self._read()
        if problem is None:
            return records
        self._set_aside(problem)
        return []

    def _set_aside(self, problem: str) -> None:
        stamp = f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        target = self.file.resolve()  # of a link, what it leads to: the next run is written there
        aside = target.with_name(f"{target.name}.damaged-{stamp}")
        os.replace(target, aside)
        print_line(f"{target} is damaged ({problem}); it was set aside as {aside.name}.")


def _parse_records(content: bytes) -> tuple[list[Record], str | None]:
    """Return the readable runs of a file, and what is wrong with it, None for nothing."""
    try:
        trees = json.loads(content, parse_constant=_refuse_number, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        return [], f"it is not JSON: {error}"
    if not isinstance(trees, list):
        return [], "it is not a list of runs"
    bad = next((number for number, one in enumerate(trees, 1) if not _is_record(one)), None)
    return list(filter(_is_record, trees)), None if bad is None else f"its entry {bad} is not a run"


def _parse_finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> float:
    # No JSON can be written of it, so that no run could be added.
    raise ValueError(f"{text[:40]} is not a finite number")


def _is_record(tree: object) -> bool:
    if not isinstance(tree, dict) or not isinstance(tree.get("id"), str):
        return False
    items = tree.get("items") or []
    return isinstance(items, list) and all(map(_is_item, items))


def _is_item(tree: object) -> bool:
    if not isinstance(tree, dict):
        return False
    evaluations = tree.get("evaluations") or []
    return isinstance(evaluations, list) and all(
        isinstance(one, dict) and _is_score(one.get("score")) for one in evaluations
    )


def _is_score(value: object) -> bool:
    """Whether a value is a number, and not a whole one that no float can hold."""
    return is_number(value) and abs(value) <= sys.float_info.max


def _write(file: Path, records: list[Record]) -> None:
    temporary = file.with_name(f"{file.name}.{os.getpid()}-{secrets.token_hex(2)}.tmp")
    try:
        # What models answered is for nobody else, unless the user has let others read the file.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(file.stat().st_mode))
            json.dump(records, stream, ensure_ascii=False, indent=2, allow_nan=False)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def new_id() -> str:
    """Return an id as the reference makes them: eight hexadecimal digits."""
    return secrets.token_hex(4)


def make_record(
    result: ExperimentResult, *, run_id: str, dataset_path: str, model: str, temperature: float | None
) -> Record:
    """Return a result as the reference records it."""
    items = result.item_results
    errors = {str(item.index): item.errors[0] for item in items if item.errors}
    scores = {name: result.average_score(name) for name in result.evaluator_names}
    return {
        "id": run_id,
        "timestamp": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "experimentName": result.name,
        "datasetName": result.provenance.dataset_name,
        "datasetPath": dataset_path,
        "modelConfig": {"model": model, "temperature": temperature, RUN: result.run_id, ERRORS: errors},
        "passRate": result.pass_rate or 0.0,
        "totalCount": result.total_count,
        "passCount": int(result.pass_count),
        "failCount": int(result.total_count - result.pass_count),
        "averageScores": {name: score for name, score in scores.items() if score is not None},
        "items": [_item_record(item) for item in items],
    }


def _item_record(item: ItemResult) -> dict[str, Any]:
    return {
        "input": text_form(item.example.inputs.get(INPUT)) or "",
        "expectedOutput": text_form(item.example.expected_outputs.get(OUTPUT)) or "",
        "actualOutput": item.actual_output or "",
        "success": item.success is True,
        "evaluations": [
            {
                "evaluator": one.name,
                "score": one.score,
                "success": one.success is True,
                "reason": one.reason,
            }
            for one in item.eval_results
            if one.score is not None
        ],
    }


def result_of(record: Record) -> ExperimentResult:
    """Return a record as a result: what is compared and listed."""
    errors = _config(record).get(ERRORS)
    items = [
        _item_of(index, tree, errors.get(str(index)) if isinstance(errors, dict) else None)
        for index, tree in enumerate(record.get("items") or [])
    ]
    return ExperimentResult(
        name=str(record.get("experimentName") or "unnamed"),
        metadata={"model": _config(record).get("model")},
        runs=(RunResult(item_results=tuple(items)),),
        provenance=Provenance(
            run_id=record["id"],
            dataset_name=_text(record.get("datasetName")),
            started_at=_text(record.get("timestamp")),
        ),
    )


def _config(record: Record) -> Mapping[str, Any]:
    config = record.get("modelConfig")
    return config if isinstance(config, dict) else {}


def run_of(record: Record) -> str | None:
    """Return the run in the local run store that a record is about, None where it names none."""
    return _text(_config(record).get(RUN))


def model_of(record: Record) -> str | None:
    """Return the model that answered."""
    return _text(_config(record).get("model"))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _item_of(index: int, tree: Record, error: object) -> ItemResult:
    return ItemResult(
        index,
        Example.of(_text(tree.get("input")) or "", _text(tree.get("expectedOutput"))),
        actual_outputs={} if error is not None else {OUTPUT: tree.get("actualOutput")},
        eval_results=() if error is not None else _evaluations_of(tree),
        error=_text(error),
    )


def _evaluations_of(tree: Record) -> tuple[EvalResult, ...]:
    given = tree.get("evaluations") or []
    if not given:  # the verdict of the whole is all that is known
        passed = tree.get("success") is True
        return (EvalResult(OVERALL, float(passed), success=passed),)
    return tuple(_evaluation_of(one) for one in given)


def _evaluation_of(tree: Record) -> EvalResult:
    score = float(tree["score"])
    return EvalResult(
        str(tree.get("evaluator")),
        score,
        success=tree.get("success") is True,
        reason=_text(tree.get("reason")) or "",
        score_range=None if 0.0 <= score <= 1.0 else (min(0.0, score), max(1.0, score)),
    )
