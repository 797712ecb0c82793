"""What the review queue and reviews look like on the wire: assembled from the JSON texts of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from dokimos.server._api.http.json_text import dump_json, parse_json
from dokimos.server._api.runs.item_answers import evaluations_json
from dokimos.server._db.clock import format_time
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.reviews.annotations import visible_annotations
from dokimos.server._services.reviews.authors import names_of_authors
from dokimos.server._services.reviews.review_claims import claims_of
from dokimos.server._services.reviews.review_contents import QueueContents, read_contents
from dokimos.server._services.reviews.review_labels import LabelledItem
from dokimos.server._services.reviews.review_queue import Waiting
from dokimos.server._services.reviews.reviews import Verdict


def queue_json(connection: Connection, caller: Principal, page: Sequence[Waiting]) -> str:
    """Return items of the queue as a JSON list."""
    contents = read_contents(connection, page)
    verdicts: dict[str, Row[Any]] = {}
    for project in sorted({each.run.project_id for each in page}):
        ids = [each.item_id for each in page if each.run.project_id == project]
        verdicts |= visible_annotations(connection, caller, project, ids)
    claims = claims_of(connection, caller, [each.item_id for each in page])
    names = names_of_authors(connection, caller, (claim.reviewer for claim in claims.values()))
    # An item may have been removed since the page was read, on PostgreSQL.
    there = [each for each in page if each.item_id in contents.items]
    return f"[{','.join(_row_json(each, contents, verdicts, claims, names) for each in there)}]"


def review_json(row: Row[Any], names: Mapping[str, str]) -> str:
    """Return a review."""
    return (
        f'{{"id":"{row.id}","itemId":"{row.item_id}","runId":"{row.run_id}",'
        f'"reviewer":{json.dumps(row.reviewer)},"reviewerName":{json.dumps(names.get(row.reviewer))},'
        f'"verdict":"{row.verdict}","overriddenExpectedOutput":{row.overridden_expected_output or "null"},'
        f'"note":{row.note or "null"},"labels":{row.labels or "{}"},'
        f'"sampled":{json.dumps(row.sampled)},"selectionProbability":{json.dumps(row.selection_probability)},'
        f'"createdAt":"{format_time(row.created_at)}","updatedAt":"{format_time(row.updated_at)}"}}'
    )


def change_json(row: Row[Any], names: Mapping[str, str]) -> str:
    """Return a change of a review."""
    return (
        f'{{"id":"{row.id}","kind":"{row.kind}","reviewer":{json.dumps(row.reviewer)},'
        f'"reviewerName":{json.dumps(names.get(row.reviewer))},"createdBy":{json.dumps(row.created_by)},'
        f'"createdAt":"{format_time(row.created_at)}","undone":{json.dumps(bool(row.undone))},'
        f'"before":{_statement_json(row.before)},"after":{_statement_json(row.after)}}}'
    )


def label_json(each: LabelledItem) -> str:
    """Return a labelled item as an example of a data set, with the recorded output and its label."""
    inputs, expected, actual, metadata = label_sections(each)
    return (
        f'{{"id":"{each.item.id}","inputs":{inputs},"expectedOutputs":{expected or "{}"},'
        f'"actualOutputs":{actual},"metadata":{metadata}}}'
    )


def label_sections(each: LabelledItem) -> tuple[str, str | None, str, str]:
    """Return the inputs, the expected outputs, the recorded outputs and the metadata of a label, as JSON."""
    item, said = each.item, each.annotation
    corrected = said.overridden_expected_output or item.expected_output or each.answer
    marks = {
        "label": said.verdict == Verdict.CORRECT,
        "verdict": said.verdict,
        "runId": item.run_id,
        "itemId": item.id,
        "reviewedAt": format_time(said.updated_at),
        "reviewerCount": each.reviewer_count,
        "sampled": each.sampled,
        "selectionProbability": each.probability,
    }
    # What the item's own metadata holds stays, as far as a label does not need its name.
    own = {} if item.metadata is None else parse_json(item.metadata.encode())
    metadata = dump_json({**own, **marks}, "metadata")
    return item.input, corrected, item.actual_output, metadata


def _statement_json(text: str | None) -> str:
    if text is None:
        return "null"
    verdict, expected, note, labels, *_ = json.loads(text)
    return (
        f'{{"verdict":"{verdict}","overriddenExpectedOutput":{expected or "null"},'
        f'"note":{note or "null"},"labels":{labels or "{}"}}}'
    )


def _row_json(
    each: Waiting,
    contents: QueueContents,
    verdicts: Mapping[str, Row[Any]],
    claims: Mapping[str, Row[Any]],
    names: Mapping[str, str],
) -> str:
    item, run = contents.items[each.item_id], each.run
    verdict, claim = verdicts.get(each.item_id), claims.get(each.item_id)
    scores = evaluations_json(item.id, contents.evaluations.get(item.id, ()))
    return (
        f'{{"itemId":"{item.id}","runId":"{item.run_id}","experimentId":"{run.experiment_id}",'
        f'"experimentName":{json.dumps(run.experiment_name)},"projectName":{json.dumps(run.project_name)},'
        f'"ordinal":{item.ordinal},"repetition":{item.repetition},'
        f'"input":{item.input},"expectedOutput":{item.expected_output or "null"},'
        f'"actualOutput":{item.actual_output},"evalResults":{scores},'
        f'"currentVerdict":{"null" if verdict is None else json.dumps(verdict.verdict)},'
        f'"createdAt":"{format_time(item.created_at)}","error":{item.error or "null"},'
        f'"sampled":{json.dumps(each.sampled)},"selectionProbability":{json.dumps(each.probability)},'
        f'"claim":{"null" if claim is None else _claim_json(claim, names)}}}'
    )


def _claim_json(row: Row[Any], names: Mapping[str, str]) -> str:
    claim = {
        "reviewer": row.reviewer,
        "reviewerName": names.get(row.reviewer),
        "expiresAt": format_time(row.expires_at),
        "assignedBy": row.assigned_by,
    }
    return json.dumps(claim, separators=(",", ":"))
