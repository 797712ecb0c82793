"""What a suite asks for, case by case and turn by turn, after everything has been looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos._core.contexts import OF_RETRIEVERS, find_contexts, items_of
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT, TOOL_CALLS, TOOLS
from dokimos._core.test_case import EvalTestCase
from dokimos._core.wire import from_json
from dokimos.errors import TypeConversionError
from dokimos.evaluators._base import Evaluator

TURNS: Final = "turns"
"""Where the outputs of a conversation have its turns, each with its own outputs."""
TURN_ERROR: Final = "error"
"""In the outputs of a turn: why there is no reply."""
TURN_ERROR_DETAIL: Final = "errorDetail"
"""In the outputs of a turn: where its error came from, as JSON."""
EXPECTED_TOOLS: Final = "Expected Tools"
"""The result that says whether the tools were called that a turn expects."""
FILE_CONTENTS: Final = "fileContents"
SEPARATOR: Final = "\n---\n"


@dataclass(frozen=True, kw_only=True)
class TurnPlan:
    """One input, and what there is to know about it."""

    index: int
    input: str
    ground_truth: Any = None
    contexts: tuple[str, ...] | None = None
    """What was retrieved, where the suite says it."""
    files: tuple[Mapping[str, Any], ...] = ()
    """As they go to the agent; paths are absolute."""
    named_files: tuple[Mapping[str, Any], ...] = ()
    """The same as the suite names them, so that a case is the same on every machine."""
    turn_config: Mapping[str, Any] = field(default_factory=dict)
    case_name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def view(self, case: EvalTestCase, outputs: Mapping[str, Any]) -> EvalTestCase:
        """Return the turn as a case of its own, for its evaluators."""
        retrieved = self.find_contexts(outputs)
        retrieved_outputs = {} if retrieved is None else {CONTEXTS: retrieved}
        about: dict[str, Any] = {"caseName": self.case_name, "turnIndex": self.index}
        about |= {"turnConfig": dict(self.turn_config), "files": list(self.files)}
        return EvalTestCase(
            {INPUT: self.input},
            {TOOL_CALLS: [], **outputs, **retrieved_outputs},
            expected_outputs={} if self.ground_truth is None else {OUTPUT: self.ground_truth},
            metadata={**self.metadata, **about},
            # Metrics and repeat are those of the case: latency and cost are not known turn by turn.
            id=case.id,
            metrics=case.metrics,
            run_index=case.run_index,
        )

    def file_contents(self) -> list[str]:
        """Return what a judge is shown of the files: their text, or what is said about those without any.

        Raises:
            DocumentError: where a file cannot be read.
            MissingExtraError: where the package that reads it is not installed.
        """
        return [_content(file) for file in self.files]

    def find_contexts(self, outputs: Mapping[str, Any]) -> list[Any] | None:
        """Return what was retrieved: as the suite says, else as the agent does, else None."""
        if self.contexts:
            return [*self.contexts]
        contexts = find_contexts(outputs, {}, {}, OF_RETRIEVERS)
        return None if contexts is None else items_of(contexts)


@dataclass(frozen=True, kw_only=True)
class CasePlan:
    """One test case."""

    id: str
    name: str
    turns: tuple[TurnPlan, ...]
    evaluators: tuple[Evaluator, ...] = ()
    is_conversation: bool = False
    tags: tuple[str, ...] = ()
    skip: str | None = None
    repeats: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """The ids of the case's examples, one for each repeat."""
        if self.repeats == 1:
            return [self.id]
        return [f"{self.id} [{number}/{self.repeats}]" for number in range(1, self.repeats + 1)]

    def examples(self) -> list[Example]:
        """Return the case as examples, one for each repeat."""
        return [self._example(id) for id in self.ids]

    def _example(self, id: str) -> Example:
        # One text even of a conversation, for reports and judges that know no turns.
        inputs: dict[str, Any] = {INPUT: SEPARATOR.join(turn.input for turn in self.turns)}
        if self.is_conversation:
            inputs[TURNS] = [turn.input for turn in self.turns]
        files = [dict(file) for turn in self.turns for file in turn.named_files]
        if files:
            inputs["files"] = files
        tags = {"tags": list(self.tags)} if self.tags else {}
        return Example(
            inputs, self._ground_truths(), metadata={**self.metadata, "case": self.id, **tags}, id=id
        )

    def _ground_truths(self) -> dict[str, Any]:
        truths = [turn.ground_truth for turn in self.turns]
        if all(truth is None for truth in truths):
            return {}
        return {TURNS: truths} if self.is_conversation else {OUTPUT: truths[0]}


def turn_outputs(case: EvalTestCase, plan: TurnPlan, *, conversation: bool) -> Mapping[str, Any] | None:
    """Return what the agent gave in a turn, None where it gave nothing."""
    if not conversation:
        return case.actual_outputs
    turns: Sequence[Any] = case.actual_outputs.get(TURNS) or ()
    if plan.index >= len(turns) or not isinstance(turns[plan.index], Mapping):
        return None
    outputs: Mapping[str, Any] = turns[plan.index]
    if outputs.get(TURN_ERROR) is not None:
        return None
    tools = case.actual_outputs.get(TOOLS)
    return outputs if tools is None else {TOOLS: tools, **outputs}


def build_failed_turn(text: str, error: str, detail: ErrorDetail | None = None) -> dict[str, Any]:
    """Return the outputs of a turn without a reply."""
    details = {} if detail is None else {TURN_ERROR_DETAIL: jsonable(detail)}
    return {INPUT: text, TURN_ERROR: error, **details}


def turn_error_detail(turn: Mapping[str, Any]) -> ErrorDetail | None:
    """Return where the error of a turn came from, None where that is not known."""
    tree = turn.get(TURN_ERROR_DETAIL)
    try:
        return from_json(ErrorDetail, tree) if isinstance(tree, Mapping) else None
    except TypeConversionError:  # outputs may come from a file that somebody wrote
        return None


def _content(file: Mapping[str, Any]) -> str:
    if file.get("type") != "image" and "path" in file:
        from dokimos.suites._retrieval.text_extraction import to_text

        part = {name: file.get(name) for name in ("pages", "sheet", "range")}
        return to_text(file["path"], kind=file["type"], **part)
    return str(file.get("description") or file.get("path") or file.get("url"))
