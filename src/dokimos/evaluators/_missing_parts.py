"""The error for a case that lacks a required part: what is missing, what is there, and the remedy."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dokimos._core.contexts import OF_ANSWERS, OF_RANKINGS, are_ids
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT, RELEVANT, RETRIEVED, TOOL_CALLS, TOOLS
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import quote, shorten
from dokimos.errors import MissingInputError
from dokimos.evaluators._case_parts import SECTIONS, part_of

_MAX_LISTED_PARTS: Final = 12


class _PartNames(NamedTuple):
    """What the part at a path is called elsewhere."""

    in_sentence: str
    in_list: str = ""
    """In the list of what a case has; empty where the path stands there."""
    parameter: str = ""
    """Among the parts that a judge is shown (`evaluation_params`)."""


_NAMES: Final = {
    f"inputs.{INPUT}": _PartNames("an input", "input", "input"),
    f"outputs.{OUTPUT}": _PartNames("an output", "output", "actual_output"),
    f"expected_outputs.{OUTPUT}": _PartNames("an expected output", "expected", "expected_output"),
    f"outputs.{TOOL_CALLS}": _PartNames("the tool calls"),
    f"expected_outputs.{TOOL_CALLS}": _PartNames("the expected tool calls"),
    f"metadata.{TOOLS}": _PartNames("the agent's tools"),
    "metadata": _PartNames("metadata"),
    "metrics": _PartNames("metrics measured by the task"),
    "inputs": _PartNames("inputs"),
    "outputs": _PartNames("outputs"),
    "expected_outputs": _PartNames("expected outputs"),
}
_PATHS: Final = {names.parameter: path for path, names in _NAMES.items() if names.parameter}
_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    CONTEXTS: ("documents", "docs", "chunks", "passages", "nodes", "sources", "source_documents",
               "source_nodes", "retrieved_documents", "search_results", "evidence"),
    OUTPUT: ("answer", "response", "result", "reply", "completion", "prediction", "actual_output", "text"),
    INPUT: ("question", "query", "prompt", "user_input", "message"),
    RELEVANT: ("relevant_ids", "relevant_docs", "relevant_documents", "reference_contexts", "gold", "qrels"),
    TOOL_CALLS: ("tool_calls", "tools_called", "calls"),
}  # fmt: skip
"""What people commonly call a part that has another name here."""
_SECTIONS_SEARCHED: Final = {
    "inputs": ("inputs", "metadata"),
    "outputs": ("outputs",),
    "expected_outputs": ("expected_outputs", "metadata", "inputs"),
    "metadata": ("metadata", "inputs", "outputs"),
    CONTEXTS: ("outputs", "metadata", "inputs"),
    RELEVANT: ("expected_outputs", "metadata", "inputs"),
}
"""The sections of a case in which what was meant for one of them may stand."""
_KEY_PARAMETERS: Final = {CONTEXTS: "contexts_key", RELEVANT: "expected_key"}
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
    sentences = [
        f"{name} requires {describe_path(path)}; the case has: {list_parts(case)}.",
        _suggest_part(path, case),
        describe_remedy(path),
        _offer_maps(path, shown, case),
    ]
    return MissingInputError(" ".join(sentence for sentence in sentences if sentence))


def list_parts(case: EvalTestCase) -> str:
    """Return the names of what a case has: `input, output, expected, metadata.topic`."""
    names = [_list_name(path) for path, value in _entries(case) if value is not None]
    if not names:
        return "nothing"
    more = len(names) - _MAX_LISTED_PARTS
    text = ", ".join(names[:_MAX_LISTED_PARTS])
    return f"{text} and {more} more" if more > 0 else text


def _list_name(path: str) -> str:
    names = _NAMES.get(path)
    return names.in_list if names is not None and names.in_list else shorten(path, 60)


def _offer_maps(path: str, shown: Sequence[str], case: EvalTestCase) -> str:
    """Say how a judge is shown what the case has, under whatever keys, where it has something there."""
    if path not in shown:
        return ""
    params = []
    for part in shown:
        whole_map = _PATHS[part].partition(".")[0] if part in _PATHS else part
        if part_of(case, part) is not None:
            params.append(part)
        elif part_of(case, whole_map) is not None:
            params.append(whole_map)
        elif part == path:
            return ""  # its map is empty too
    return f"Or show the judge whole maps: evaluation_params={json.dumps(params)}."


def describe_path(path: str) -> str:
    """Return a path as it stands in a sentence: "an input", "'topic' in the metadata"."""
    path = _PATHS.get(path, path)
    if path in _NAMES:
        return _NAMES[path].in_sentence
    section, dot, key = path.partition(".")
    if section in (CONTEXTS, RETRIEVED):
        return f"contexts under {key!r}" if dot else "contexts"
    if section == RELEVANT:
        return f"the relevant items under {key!r} in the expected outputs" if dot else "the relevant items"
    return f"{key!r} in the {section.replace('_', ' ')}" if dot else path


def describe_remedy(path: str) -> str:
    """Say how a part gets into a case."""
    path = _PATHS.get(path, path)
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
    return _describe_key_remedy(section, key)


def _describe_key_remedy(section: str, key: str) -> str:
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


def _suggest_part(path: str, case: EvalTestCase) -> str:
    """Say what of a case was probably meant, or why what seems to be there does not count."""
    path = _PATHS.get(path, path)
    section, dot, key = path.partition(".")
    if section in (CONTEXTS, RETRIEVED):
        section, names = CONTEXTS, (key,) if dot else OF_ANSWERS
    else:
        names = (key or section,)
    searched = _SECTIONS_SEARCHED.get(section, ())
    entries = {place: value for place, value in _entries(case) if place.partition(".")[0] in searched}
    explanation = _explain_unusable(path, names, entries, case)
    if explanation:
        return explanation
    similar = _find_similar([place for place, value in entries.items() if value is not None], names)
    if not similar:
        return ""
    question = f"Did you mean {' or '.join(similar)}?"
    parameter = _KEY_PARAMETERS.get(section)
    if parameter is None:
        return question
    return f"{question} If so, set {parameter}={similar[0].partition('.')[2]!r}."


def _explain_unusable(path: str, names: Sequence[str], entries: Mapping[str, Any], case: EvalTestCase) -> str:
    """Say why a part that is there under its name does not count: it is null, or ids instead of texts."""
    of_contexts = path.partition(".")[0] in (CONTEXTS, RETRIEVED)
    for place, value in entries.items():
        if value is None and (place == path or of_contexts) and place.partition(".")[2] in names:
            return f"{place} is null."
    if path != CONTEXTS:
        return ""
    ids = case.find_contexts(OF_RANKINGS, texts=False)
    if ids is None or not are_ids(ids.value):
        return ""
    return f"{ids.path} has what look like ids rather than texts: {quote(ids.value)}."


def _find_similar(paths: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return up to three paths whose keys mean what one of the names does, else resemble one of them."""
    # The input, the output and the expected output are what they are called; they were not meant for another.
    own_keys = {path: path.partition(".")[2] for path in paths if not _has_own_name(path)}
    synonyms = {_letters(word) for name in names for word in (name, *_SYNONYMS.get(name, ()))}
    # Synonyms first: a key that merely looks alike is the worse guess.
    same = [path for path, key in own_keys.items() if _letters(key) in synonyms]
    if same:
        return same[:3]
    return [path for path, key in own_keys.items() if difflib.get_close_matches(key, names, 1, 0.75)][:3]


def _has_own_name(path: str) -> bool:
    return path in _NAMES and _NAMES[path].in_list != ""


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _entries(case: EvalTestCase) -> Iterator[tuple[str, Any]]:
    for section, read in SECTIONS.items():
        for key, value in read(case).items():
            yield f"{section}.{key}", value
