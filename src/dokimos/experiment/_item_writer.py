"""Items and their results on the way into the journal, redacted where that was asked for."""

from __future__ import annotations

import json

from dokimos._core.results import EvalResult
from dokimos.experiment._example_source import SourcedExample
from dokimos.experiment._item_errors import describe_error
from dokimos.experiment._item_index import Position
from dokimos.experiment._redaction import Redaction, redact_detail, redact_map, redact_result
from dokimos.experiment._run_journal import Journal
from dokimos.experiment._task_calls import TaskOutcome


class ItemWriter:
    """Writes what became of items to a journal; what cannot be written is a `problem` and ends no run."""

    def __init__(self, journal: Journal, redact: Redaction | None, *, every_example: bool) -> None:
        self.problem: str | None = None
        self._journal = journal
        self._redact = redact
        self._every_example = every_example
        """Whether examples are written in each repeat, and not only in the first."""

    def write_item(self, position: Position, sourced: SourcedExample, outcome: TaskOutcome) -> None:
        """Write what the task returned for an item, or how it errored."""
        outputs, error, detail = outcome.outputs, outcome.error, outcome.detail
        text, redact = sourced.json, self._redact
        if redact is not None:
            outputs = redact_map(outputs, redact)
            error = None if error is None else redact(error)
            detail = redact_detail(detail, redact)
            text = sourced.redact_json(redact)
        if sourced.example.dataset_item_id is not None:
            text = _with_item_id(text, sourced.example.dataset_item_id)
        try:
            self._journal.write_item(
                position,
                example_hash=sourced.hash,
                example_json=text if position[0] == 0 or self._every_example else None,
                outputs=outputs,
                metrics=outcome.metrics,
                error=error,
                kind=None if outcome.down is None else outcome.down.kind,
                detail=detail,
            )
        except Exception as problem:  # user values decide how they are written
            self._note(position, problem)

    def write_results(
        self, position: Position, results: tuple[EvalResult, ...], *, is_held: bool = False
    ) -> None:
        """Write what evaluators found for an item, as `Journal.write_results` does."""
        redact = self._redact
        if redact is not None:
            results = tuple(redact_result(result, redact) for result in results)
        try:
            self._journal.write_results(position, results, is_held=is_held)
        except Exception as problem:
            self._note(position, problem)

    def _note(self, position: Position, problem: Exception) -> None:
        self.problem = (
            f"Item {position[1]} could not be written to the journal ({describe_error(problem)}); "
            "a resumed run would repeat it."
        )


def _with_item_id(example_json: str, item_id: str) -> str:
    """Add the id of the data set's item to the JSON of an example; it is not part of content or hash."""
    comma = "" if example_json == "{}" else ","
    return f'{example_json[:-1]}{comma}"datasetItemId":{json.dumps(item_id)}}}'
