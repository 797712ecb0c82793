"""The hot body of the server: items of a run, checked by one compiled schema."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from dokimos.server._api.http.error_responses import describe_problem
from dokimos.server._api.http.json_text import dump_json
from dokimos.server._db.ids import parse_id
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem

_CONFIG: Final = ConfigDict(strict=True, allow_inf_nan=False)
# Limits that keep the sums of a run within 64 bits.
_Tokens = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Milliseconds = Annotated[int, Field(ge=0, le=2**40)]
_Dollars = Annotated[float, Field(ge=-1e12, le=1e12)]
_Ordinal = Annotated[int, Field(ge=0, le=2**53)]


@with_config(_CONFIG)
class EvalResultBody(TypedDict):
    """One score of an item."""

    name: str
    score: float
    threshold: NotRequired[float | None]
    success: bool | None
    judged: NotRequired[bool | None]
    reason: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    label: NotRequired[str | None]
    errorDetail: NotRequired[dict[str, Any] | None]


# The first fault is what is answered: a list of a million of them would take seconds and gigabytes.
_EvalResults = Annotated[list[EvalResultBody], Field(fail_fast=True)]


@with_config(_CONFIG)
class ItemBody(TypedDict):
    """One item of a run: what went in, what came out, and how it was scored."""

    inputs: NotRequired[dict[str, Any] | None]
    expectedOutputs: NotRequired[dict[str, Any] | None]
    actualOutputs: NotRequired[dict[str, Any] | None]
    metadata: NotRequired[dict[str, Any] | None]
    evalResults: NotRequired[_EvalResults | None]
    success: NotRequired[bool | None]
    datasetItemId: NotRequired[str | None]
    tokensIn: NotRequired[_Tokens | None]
    tokensOut: NotRequired[_Tokens | None]
    costUsd: NotRequired[_Dollars | None]
    latencyMs: NotRequired[_Milliseconds | None]
    ordinal: NotRequired[_Ordinal | None]
    repetition: NotRequired[_Ordinal | None]
    error: NotRequired[str | None]


@with_config(_CONFIG)
class ItemsBody(TypedDict):
    """A batch of items."""

    items: Annotated[list[ItemBody], Field(min_length=1, fail_fast=True)]


ITEMS_BODY: Final = TypeAdapter(ItemsBody)


def read_items(value: object) -> list[NewItem]:
    """Check a parsed body and return its items.

    Raises:
        InvalidRequestError: A value cannot be used; the message begins with its path, such as
            `items[3].evalResults[0].score`.
    """
    try:
        body = _validate(value)
    except ValidationError as error:
        raise InvalidRequestError(describe_problem(error.errors(include_url=False)[0])) from None
    names: set[str] = set()
    return [_item(item, index, names) for index, item in enumerate(body["items"])]


def _validate(value: object) -> ItemsBody:
    try:
        return ITEMS_BODY.validate_python(value)
    except ValidationError:
        # Clients of languages without whole numbers send 812.0, and fractions of a millisecond. A strict
        # schema is the quick one, so this is looked at only once it has refused.
        if not _round_numbers(value):
            raise
        return ITEMS_BODY.validate_python(value)


def _round_numbers(value: object) -> bool:
    """Make the numbers whole that stand for whole ones; return whether there was any."""
    items = value.get("items") if isinstance(value, dict) else None
    has_rounded = False
    for item in items if isinstance(items, list) else ():
        for name in ("tokensIn", "tokensOut", "latencyMs") if isinstance(item, dict) else ():
            number = item.get(name)
            if not isinstance(number, float) or not math.isfinite(number):
                continue
            if number.is_integer() or name == "latencyMs":
                item[name] = round(number)
                has_rounded = True
    return has_rounded


def _item(body: ItemBody, index: int, checked_names: set[str]) -> NewItem:
    # Written out rather than with a helper for each field: this runs for each item and each score.
    expected, metadata = body.get("expectedOutputs"), body.get("metadata")
    error, dataset_item_id = body.get("error"), body.get("datasetItemId")
    results = body.get("evalResults") or ()
    try:
        return NewItem(
            ordinal=body.get("ordinal"),
            repetition=body.get("repetition") or 0,
            input=dump_json(body.get("inputs") or {}, "inputs"),
            expected_output=None if expected is None else dump_json(expected, "expectedOutputs"),
            actual_output=dump_json(body.get("actualOutputs") or {}, "actualOutputs"),
            metadata=None if metadata is None else dump_json(metadata, "metadata"),
            error=None if error is None else dump_json(error, "error"),
            dataset_item_id=None if dataset_item_id is None else parse_id(dataset_item_id),
            tokens_in=body.get("tokensIn"),
            tokens_out=body.get("tokensOut"),
            cost_usd=body.get("costUsd"),
            latency_ms=body.get("latencyMs"),
            evaluations=[
                _evaluation(result, position, checked_names) for position, result in enumerate(results)
            ],
            # Documented clients give every score a verdict.
            unjudged=[
                position
                for position, result in enumerate(results)
                if result["success"] is None or result.get("judged") is False
            ],
        )
    except InvalidRequestError as problem:
        raise problem.within(f"items[{index}]") from None


def _evaluation(body: EvalResultBody, position: int, checked_names: set[str]) -> NewEvaluation:
    name, reason, label = body["name"], body.get("reason"), body.get("label")
    metadata, detail = body.get("metadata"), body.get("errorDetail")
    try:
        if name not in checked_names:
            checked_names.add(check_name(name, "name"))
        return NewEvaluation(
            name,
            body["score"],
            body.get("threshold"),
            body["success"] is not False or body.get("judged") is False,
            None if reason is None else dump_json(reason, "reason"),
            None if label is None else dump_json(label, "label"),
            None if metadata is None else dump_json(metadata, "metadata"),
            None if detail is None else dump_json(detail, "errorDetail"),
        )
    except InvalidRequestError as problem:
        raise problem.within(f"evalResults[{position}]") from None
