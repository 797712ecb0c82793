"""What the source says of each key of a suite, put into the JSON Schema for editors and the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dokimos.evaluators._parameters import descriptions
from dokimos.suites._metric_schema import Block

_TEXT: Final = {"type": "string"}
_TOOL: Final = {"anyOf": [{"$ref": "#/$defs/ExpectedTool"}, _TEXT]}
_TOOLS: Final = {"items": _TOOL, "type": "array"}
_TRUTH: Final = ({"type": "number"}, {"type": "boolean"})
_SHORT_FORMS: Final[dict[str, dict[str, tuple[dict[str, Any], ...]]]] = {
    "SuiteFile": {"agent": (_TEXT,)},
    "TestCase": {"expected_tools": (_TOOLS,), "ground_truth": _TRUTH},
    **{
        name: {"ground_truth": _TRUTH}
        for name in ("StandardMetric", "GEvalMetric", "RagMetric", "CodeMetric", "EvaluatorMetric")
    },
    "Turn": {"expected_tools": (_TOOLS,), "ground_truth": _TRUTH},
}
"""What a key takes beside its own form: it is read into that form, which pydantic's schema does not know."""


def add_descriptions(schema: dict[str, Any], root: type[Block]) -> dict[str, Any]:
    """Return the schema of `root` with the strings below its fields as descriptions."""
    blocks = {kind.__name__: kind for kind in _all_subclasses(Block)}
    _describe(schema, root)
    for name, definition in schema.get("$defs", {}).items():
        if name in blocks:
            _describe(definition, blocks[name])
    return schema


def _all_subclasses(kind: type[Block]) -> Iterator[type[Block]]:
    for child in kind.__subclasses__():
        yield child
        yield from _all_subclasses(child)


def _describe(definition: dict[str, Any], kind: type[Block]) -> None:
    texts = descriptions(kind)
    for name, field in kind.model_fields.items():
        described = definition.get("properties", {}).get(field.alias or name)
        if described is not None and texts.get(name):
            described.setdefault("description", texts[name])
    for key, forms in _SHORT_FORMS.get(kind.__name__, {}).items():
        definition["properties"][key]["anyOf"][:0] = forms
    if kind.__name__ == "ExpectedTools":
        definition["properties"]["tools"]["items"] = _TOOL
