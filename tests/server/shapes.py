"""What documented answers look like: each documented field with its kind, nulls where they are documented."""

import re

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def is_uuid(value):
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def is_time(value):
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def is_whole(value):
    return type(value) is int


def is_number(value):
    return type(value) in (int, float)


def is_text(value):
    return isinstance(value, str)


def is_flag(value):
    return isinstance(value, bool)


def is_object(value):
    return isinstance(value, dict)


def one_of(*values):
    return lambda value: value in values


def or_null(shape):
    return lambda value: value is None or matches(value, shape)


def list_of(shape):
    return lambda value: isinstance(value, list) and all(matches(each, shape) for each in value)


def matches(value, shape):
    if isinstance(shape, dict):
        return isinstance(value, dict) and not problems(value, shape)
    return shape(value)


def problems(value, shape, path=""):
    """The places where a value has not the shape; fields that the shape does not name are fine."""
    if not isinstance(shape, dict):
        return [] if shape(value) else [f"{path}: {value!r}"]
    if not isinstance(value, dict):
        return [f"{path}: {value!r}"]
    found = [f"{path}.{name} is missing" for name in shape if name not in value]
    for name in shape.keys() & value.keys():
        found += problems(value[name], shape[name], f"{path}.{name}")
    return found


def page_of(content):
    sort = {"empty": is_flag, "sorted": is_flag, "unsorted": is_flag}
    return {
        "content": list_of(content),
        "number": is_whole,
        "size": is_whole,
        "totalElements": is_whole,
        "totalPages": is_whole,
        "first": is_flag,
        "last": is_flag,
        "numberOfElements": is_whole,
        "empty": is_flag,
        "sort": sort,
        "pageable": {
            "offset": is_whole,
            "sort": sort,
            "paged": is_flag,
            "pageNumber": is_whole,
            "pageSize": is_whole,
            "unpaged": is_flag,
        },
    }


ERROR = {"error": is_text, "message": is_text, "timestamp": is_time}
CREATED_RUN = {"runId": is_uuid}
PROJECT = {"id": is_uuid, "name": is_text, "experimentCount": is_whole, "createdAt": is_time}
STATUS = one_of("RUNNING", "EVALUATING", "SUCCESS", "FAILED", "CANCELLED")
EXPERIMENT = {
    "id": is_uuid,
    "name": is_text,
    "createdAt": is_time,
    "latestRun": or_null(
        {"runId": is_uuid, "status": STATUS, "passRate": or_null(is_number), "startedAt": is_time}
    ),
}
_RUN = {
    "id": is_uuid,
    "status": STATUS,
    "config": or_null(is_object),
    "passRate": or_null(is_number),
    "startedAt": is_time,
    "completedAt": or_null(is_time),
    "datasetVersionId": or_null(is_uuid),
    "datasetVersion": or_null(is_whole),
    "totalTokensIn": or_null(is_whole),
    "totalTokensOut": or_null(is_whole),
    "totalCostUsd": or_null(is_number),
    "avgLatencyMs": or_null(is_number),
}
RUN_SUMMARY = {**_RUN, "itemCount": is_whole, "passedCount": is_whole}
ANNOTATION = {
    "id": is_uuid,
    "verdict": one_of("CORRECT", "INCORRECT", "UNSURE"),
    "overriddenExpectedOutput": or_null(is_object),
    "note": or_null(is_text),
    "createdBy": is_text,
    "createdAt": is_time,
    "updatedAt": is_time,
}
ITEM = {
    "id": is_uuid,
    "input": is_object,
    "expectedOutput": or_null(is_object),
    "actualOutput": is_object,
    "metadata": or_null(is_object),
    "evalResults": list_of(
        {
            "id": is_uuid,
            "evaluatorName": is_text,
            "score": is_number,
            "threshold": or_null(is_number),
            "success": is_flag,
            "reason": or_null(is_text),
        }
    ),
    "createdAt": is_time,
    "datasetItemId": or_null(is_uuid),
    "annotation": or_null(ANNOTATION),
    "tokensIn": or_null(is_whole),
    "tokensOut": or_null(is_whole),
    "costUsd": or_null(is_number),
    "latencyMs": or_null(is_whole),
}
RUN = {
    **_RUN,
    "experimentId": is_uuid,
    "experimentName": is_text,
    "projectName": is_text,
    "totalItems": is_whole,
    "passedItems": is_whole,
    "pricedItemCount": is_whole,
    "tokenizedItemCount": is_whole,
    "items": page_of(ITEM),
}
TRENDS = {
    "experimentName": is_text,
    "projectName": is_text,
    "runs": list_of(
        {
            "runId": is_uuid,
            "startedAt": is_time,
            "passRate": is_number,
            "totalItems": is_whole,
            "passedItems": is_whole,
        }
    ),
}
DATASET = {
    "id": is_uuid,
    "name": is_text,
    "description": or_null(is_text),
    "latestVersion": or_null(is_whole),
    "latestItemCount": is_whole,
    "createdAt": is_time,
    "updatedAt": is_time,
}
_VERSION = {
    "id": is_uuid,
    "version": is_whole,
    "description": or_null(is_text),
    "itemCount": is_whole,
    "createdAt": is_time,
    "createdBy": is_text,
}
VERSION = {**_VERSION, "datasetName": is_text}
DATASET_WITH_VERSIONS = {**DATASET, "versions": list_of(_VERSION)}
DATASET_ITEM = {
    "id": is_uuid,
    "ordinal": is_whole,
    "inputs": is_object,
    "expectedOutputs": or_null(is_object),
    "metadata": or_null(is_object),
}
_COUNTS = {
    "candidatePassRate": is_number,
    "significant": is_flag,
    "improvedCount": is_whole,
    "regressedCount": is_whole,
    "unchangedCount": is_whole,
    "addedCount": is_whole,
    "removedCount": is_whole,
}
_MEANS = {"baselineMean": or_null(is_number), "candidateMean": or_null(is_number), "delta": is_number}
GATE = {
    **_COUNTS,
    "status": one_of("PASS", "FAIL", "NO_BASELINE"),
    "passed": is_flag,
    "candidateRunId": is_uuid,
    "baselineRunId": or_null(is_uuid),
    "pairing": one_of("dataset_item_id", "positional", "none"),
    "baselinePassRate": or_null(is_number),
    "passRateDelta": or_null(is_number),
    "regressedEvaluators": list_of({"evaluator": is_text, **_MEANS, "pValue": is_number}),
    "cases": list_of(
        {
            "datasetItemId": or_null(is_uuid),
            "index": is_text,
            "evaluatorDrops": list_of({"evaluator": is_text, **_MEANS}),
        }
    ),
    "casesTruncated": is_flag,
}
DIFF = {
    "summary": {
        **_COUNTS,
        "pairing": one_of("dataset_item_id", "positional"),
        "baselineRunId": is_uuid,
        "candidateRunId": is_uuid,
        "baselinePassRate": is_number,
        "passRateDelta": is_number,
    },
    "cases": page_of(
        {
            "datasetItemId": or_null(is_uuid),
            "index": is_text,
            "status": one_of("REGRESSED", "IMPROVED", "UNCHANGED", "ADDED", "REMOVED"),
            "passFlip": is_flag,
            "input": or_null(is_text),
            "evaluators": list_of(
                {
                    "name": is_text,
                    **_MEANS,
                    "status": one_of("IMPROVED", "REGRESSED", "UNCHANGED"),
                    "significant": is_flag,
                }
            ),
        }
    ),
}
KEY = {
    "id": is_uuid,
    "name": is_text,
    "role": one_of("VIEWER", "EDITOR", "ADMIN"),
    "tenantId": or_null(is_text),
    "enabled": is_flag,
    "createdAt": is_time,
    "lastUsedAt": or_null(is_time),
}
CREATED_KEY = {"key": is_text, "apiKey": KEY}
HEALTH = {"status": one_of("UP", "DOWN"), "components": {"db": {"status": one_of("UP", "DOWN")}}}
