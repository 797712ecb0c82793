"""The error for a case that lacks a required part: what is missing, what is there, and the remedy."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dokimos._core.contexts import OF_ANSWERS, OF_RANKINGS, are_ids
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT, RELEVANT, RETRIEVED, TOOL_CALLS, TOOLS
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import quote, shorten
from dokimos.errors import MissingInputError
from dokimos.evaluators._case_parts import SECTIONS, part_of

_MOST_NAMES: Final = 12
_SHORT: Final = {
    f"inputs.{INPUT}": "input",
    f"outputs.{OUTPUT}": "output",
    f"expected_outputs.{OUTPUT}": "expected",
}
_LONG: Final = {
    "input": f"inputs.{INPUT}",
    "actual_output": f"outputs.{OUTPUT}",
    "expected_output": f"expected_outputs.{OUTPUT}",
}
_WORDS: Final = {
    f"inputs.{INPUT}": "an input",
    f"outputs.{OUTPUT}": "an output",
    f"expected_outputs.{OUTPUT}": "an expected output",
    f"outputs.{TOOL_CALLS}": "the tool calls",
    f"expected_outputs.{TOOL_CALLS}": "the expected tool calls",
    f"metadata.{TOOLS}": "the agent's tools",
    "metadata": "metadata",
    "metrics": "metrics measured by the task",
    "inputs": "inputs",
    "outputs": "outputs",
    "expected_outputs": "expected outputs",
}
_MAP_OF: Final = {
    "input": "inputs",
    "actual_output": "outputs",
    "expected_output": "expected_outputs",
}
"""The whole map in which a part stands, of those that a judge can be shown."""
_OTHER_WORDS: Final[dict[str, tuple[str, ...]]] = {
    CONTEXTS: ("documents", "docs", "chunks", "passages", "nodes", "sources", "source_documents",
               "source_nodes", "retrieved_documents", "search_results", "evidence"),
    OUTPUT: ("answer", "response", "result", "reply", "completion", "prediction", "actual_output", "text"),
    INPUT: ("question", "query", "prompt", "user_input", "message"),
    RELEVANT: ("relevant_ids", "relevant_docs", "relevant_documents", "reference_contexts", "gold", "qrels"),
    TOOL_CALLS: ("tool_calls", "tools_called", "calls"),
}  # fmt: skip
"""What people commonly call a part that has another name here."""
_PLACES: Final = {
    "inputs": ("inputs", "metadata"),
    "outputs": ("outputs",),
    "expected_outputs": ("expected_outputs", "metadata", "inputs"),
    "metadata": ("metadata", "inputs", "outputs"),
    CONTEXTS: ("outputs", "metadata", "inputs"),
    RELEVANT: ("expected_outputs", "metadata", "inputs"),
}
"""In which parts of a case something may stand that was meant for one of them."""
_PARAMETERS: Final = {CONTEXTS: "contexts_key", RELEVANT: "expected_key"}
"""The evaluators' parameter for a key of the user's own."""


def missing_part(name: str, path: str, case: EvalTestCase, *, shown: Sequence[str] = ()) -> MissingInputError:
    """Return the error that a case lacks the part which a path names.

    It says what the evaluator requires, what the case has, what was probably meant, and how to supply it.

    Args:
        name: The evaluator.
        path: The part that is missing.
        case: The case that lacks it.
        shown: The parts that its judge is shown by default, where `evaluation_params` can name others.
    """
    has = list_parts(case)
    sentences = [
        f"{name} requires {describe_path(path)}; the case has: {has}.",
        _suggest(path, case),
        remedy(path),
        _offer_maps(path, shown, case),
    ]
    return MissingInputError(" ".join(sentence for sentence in sentences if sentence))


def list_parts(case: EvalTestCase) -> str:
    """Return the names of what a case has: `input, output, expected, metadata.topic`."""
    names = [_SHORT.get(path, shorten(path, 60)) for path, value in _entries(case) if value is not None]
    more = len(names) - _MOST_NAMES
    text = ", ".join(names[:_MOST_NAMES])
    return f"{text} and {more} more" if more > 0 else text or "nothing"


def _offer_maps(path: str, shown: Sequence[str], case: EvalTestCase) -> str:
    """Say how a judge is shown what the case has, under whatever keys, where it has something there."""
    params = []
    for part in shown:
        whole = _MAP_OF.get(part, part)
        if part_of(case, part) is not None:
            params.append(part)
        elif part_of(case, whole) is not None:
            params.append(whole)
        elif part == path:
            return ""  # its map is empty too
    if path not in shown:
        return ""
    return f"Or show the judge whole maps: evaluation_params={json.dumps(params)}."


def describe_path(path: str) -> str:
    """Return a path as it stands in a sentence: "an input", "'topic' in the metadata"."""
    path = _LONG.get(path, path)
    if path in _WORDS:
        return _WORDS[path]
    section, dot, key = path.partition(".")
    if section in (CONTEXTS, RETRIEVED):
        return f"contexts under {key!r}" if dot else "contexts"
    if section == RELEVANT:
        return f"the relevant items under {key!r} in the expected outputs" if dot else "the relevant items"
    return f"{key!r} in the {section.replace('_', ' ')}" if dot else path


def remedy(path: str) -> str:
    """Say how a part gets into a case."""
    path = _LONG.get(path, path)
    section, _, key = path.partition(".")
    if section in (CONTEXTS, RETRIEVED):
        key = key or CONTEXTS
        return (
            f'Return them from the task: {{"output": ..., "{key}": [...]}}; or give the data set a column '
            f'"{key}".'
        )
    if section == RELEVANT:
        return f'Give each row of the data set a list "{key or RELEVANT}" of what should be retrieved.'
    if path == f"inputs.{INPUT}":
        return "Give the example an input: Example.of(input, expected)."
    if path == f"expected_outputs.{OUTPUT}":
        return (
            "Give the example an expected output: Example.of(input, expected), or a column expected_output."
        )
    return _remedy_of_key(section, key)


def _remedy_of_key(section: str, key: str) -> str:
    if not key and section in ("inputs", "expected_outputs"):
        return f"Put them into the example: {section}={{...}}."
    if not key and section == "outputs":
        return "Return them from the task, as a map."
    if section == "outputs":
        rest = "" if key == OUTPUT else f', "{key}": ...'
        return f'Return it from the task: {{"output": ...{rest}}}.'
    if section in ("inputs", "expected_outputs"):
        return (
            f'Put it into the example: {section}={{"{key}": ...}}, or columns={{"NAME": "{section}.{key}"}}.'
        )
    if section == "metadata":
        return f'Put it into the example: metadata={{"{key or "KEY"}": ...}}, or a column of the data set.'
    return "A run measures them; a case of your own takes metrics=CallMetrics(...)."


def _suggest(path: str, case: EvalTestCase) -> str:
    """Say what of a case was probably meant, or why what seems to be there does not count."""
    path = _LONG.get(path, path)
    section, dot, key = path.partition(".")
    section = CONTEXTS if section == RETRIEVED else section
    names = OF_ANSWERS if section == CONTEXTS and not dot else (key or section,)
    entries = {p: v for p, v in _entries(case) if p.partition(".")[0] in _PLACES.get(section, ())}
    explanation = _explain_unusable(path, names, entries, case)
    if explanation:
        return explanation
    similar = _find_similar([p for p, value in entries.items() if value is not None], names)
    parameter = _PARAMETERS.get(section)
    advice = f" If so, set {parameter}={similar[0].partition('.')[2]!r}." if similar and parameter else ""
    return f"Did you mean {' or '.join(similar)}?{advice}" if similar else ""


def _explain_unusable(path: str, names: Sequence[str], entries: Mapping[str, Any], case: EvalTestCase) -> str:
    """Say why a part that is there under its name does not count: it is null, or ids instead of texts."""
    of_contexts = path.partition(".")[0] in (CONTEXTS, RETRIEVED)
    for there, value in entries.items():
        if value is None and (there == path or of_contexts) and there.partition(".")[2] in names:
            return f"{there} is null."
    ids = case.find_contexts(OF_RANKINGS, texts=False) if path == CONTEXTS else None
    if ids is None or not are_ids(ids.value):
        return ""
    return f"{ids.path} has what look like ids rather than texts: {quote(ids.value)}."


def _find_similar(paths: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return up to three paths whose keys mean what one of the names does, else resemble one of them."""
    synonyms = {_letters(word) for name in names for word in (name, *_OTHER_WORDS.get(name, ()))}
    others = [path for path in paths if path not in _SHORT]
    same = [path for path in others if _letters(path.partition(".")[2]) in synonyms]
    near = (path for path in others if difflib.get_close_matches(path.partition(".")[2], names, 1, 0.75))
    # Synonyms first: a key that merely looks alike is the worse guess.
    return (same or [*near])[:3]


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _entries(case: EvalTestCase) -> Iterator[tuple[str, Any]]:
    for section, read in SECTIONS.items():
        for key, value in read(case).items():
            yield f"{section}.{key}", value
