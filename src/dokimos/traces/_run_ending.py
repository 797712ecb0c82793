"""Finds out how the run in a trace ended: with an answer, with a failure, or in an unrecorded way."""

from __future__ import annotations

import math
import re
from ast import literal_eval
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dokimos._core.json_object import parse_if_json
from dokimos.traces._semconv import SpanRole
from dokimos.traces._span import Span
from dokimos.traces._span_content import SpanContent
from dokimos.traces._span_error import NO_MESSAGE
from dokimos.traces._transcript import Entry, Thread, Transcript

_CONTAINERS: Final = frozenset((SpanRole.STEP, SpanRole.OTHER))
_ANSWERING: Final = frozenset((SpanRole.AGENT, SpanRole.MODEL))
_ACTING: Final = _ANSWERING | {SpanRole.TOOL, SpanRole.RETRIEVAL}
_REPORTED: Final = _ANSWERING | {SpanRole.STEP, SpanRole.RETRIEVAL}
"""Roles whose failures are in `errors`, as are those of roots; the failure of a tool is in its call."""


_MODEL_PREFIXES: Final = ("gen_ai.", "llm.", "ai.", "langfuse.observation.")
"""Prefixes of attributes that are about models, also in conventions that are not parsed."""
_TRANSPORT_PREFIXES: Final = (
    "http.", "url.", "rpc.", "db.", "messaging.", "net.", "network.", "server.", "graphql.",
)  # fmt: skip
"""Prefixes of attributes that are about requests, which are not runs by themselves."""

_SMOLAGENTS: Final = re.compile(r"""RunResult\(output=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_OBJECT: Final = re.compile(r"[A-Z]\w*\([a-z_]+=")
"""How Python shows an object, such as LlamaIndex's `StopEvent(result=...)`, often cut off."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    answer: str | None = None
    partial: str | None = None
    """The part of an answer that came before a failure ended it."""
    error: str | None = None
    """The failure that ended it before an answer."""
    errors: tuple[str, ...] = ()
    """All other failures, in order."""
    is_recorded: bool = True
    """Whether the spans record how it ended; a recorded run without answer and error ended with a call."""


def find_ending(transcript: Transcript) -> Ending:
    """Find out how a run ended.

    The answer is the one that the last agent, or the root, declares, else the last message of the model,
    unless that was only an intermediate step of a run that failed, or was cut off.
    """
    failures = _find_failures(transcript)
    last_entry, last = _find_last_entry(transcript.main), _find_last_model(transcript)
    partial = _find_partial_answer(transcript, last_entry)
    declared, unsure = _find_declared_answers(transcript, partial)
    # A declared answer comes first: what agents and roots return is what the application used.
    if declared is not None:
        return Ending(declared, errors=_describe_failures(transcript, failures))
    complete = last_entry if last_entry is not None and partial is None and _is_answer(last_entry) else None
    fatal = _find_fatal_failure(transcript, complete, last)
    if fatal is not None:
        cause = _find_cause(transcript, failures, fatal)
        others = [span for span in failures if span is not cause]
        errors = _describe_failures(transcript, others)
        return Ending(None, unsure or partial or None, _describe_failure(transcript, fatal), errors)
    errors = _describe_failures(transcript, failures)
    if unsure is not None:
        return Ending(unsure, errors=errors)
    if last is not None and _is_silent(transcript, last):
        return Ending(errors=errors, is_recorded=False)
    if last_entry is not None:
        return Ending(last_entry.message.text if _is_answer(last_entry) else None, errors=errors)
    answer = None if transcript.threads else _text_of_roots(transcript)
    return Ending(answer, errors=errors, is_recorded=answer is not None)


def has_run(transcript: Transcript) -> bool:
    """Say whether anything ran in a trace; setting up an agent is not a run."""
    created = False
    for span in transcript.tree.spans:
        content = transcript.content(span)
        if span.attributes.get("gen_ai.operation.name") == "create_agent":
            created = True
            continue
        if content.role is not SpanRole.OTHER or content.input_text or content.output_text:
            return True
        if any(name.startswith(_MODEL_PREFIXES) for name in span.attributes):
            return True
    return not created and any(_is_failed_run(transcript, root) for root in transcript.tree.roots)


def _is_failed_run(transcript: Transcript, root: Span) -> bool:
    """Say whether a root without attributes of models is a failed run of an application, not a request."""
    if transcript.content(root).error is None or root.kind not in (None, "internal"):
        return False
    return not any(name.startswith(_TRANSPORT_PREFIXES) for name in root.attributes)


def outermost_agents(transcript: Transcript) -> list[Span]:
    """Return the agents that no other agent called, in order."""
    agents = transcript.spans_of(SpanRole.AGENT)
    return [span for span in agents if not transcript.ancestors_of(span, SpanRole.AGENT)]


def _find_declared_answers(transcript: Transcript, partial: str | None) -> tuple[str | None, str | None]:
    """Return the answer that the last of the outermost agents, or the root, declares, if that is prose.

    The second text is of a span whose failure was final: it may be cut off. A text that only repeats the
    partial answer of a model does not count.
    """
    roots = [s for s in transcript.tree.roots if transcript.content(s).role in _CONTAINERS]
    last_start = _last_start(transcript, _ANSWERING)
    unsure = None
    for span in (*_agents_from_last(transcript), *reversed(roots)):
        text = _find_declared_answer(transcript.content(span))
        if text is None or (partial and text.strip() == partial.strip()):
            continue
        if not _is_final_failure(transcript, span, last_start):
            return text, None
        unsure = unsure or text
    return None, unsure


def _find_declared_answer(content: SpanContent) -> str | None:
    message = content.outputs[-1] if content.outputs else None
    if message is not None and message.calls:
        return None  # text beside a call is an intermediate step
    if message is not None and message.text:
        return message.text.rstrip("\n")
    text = content.output_text
    if text is None:
        return None
    answer = _unwrap_answer(text)
    return None if answer is None or _is_state(answer) else answer


def _unwrap_answer(text: str) -> str | None:
    """Return the answer in an output: the spans of some frameworks have the whole result around it."""
    if text.startswith('{"raw":'):  # CrewAI
        tree = parse_if_json(text)
        return str(tree["raw"]) if isinstance(tree, dict) and "tasks_output" in tree else text
    found = _SMOLAGENTS.match(text)
    try:
        return text if found is None else str(literal_eval(found[1]))
    except (SyntaxError, ValueError):  # an escape that Python does not write
        return text


def _agents_from_last(transcript: Transcript) -> Iterator[Span]:
    """Yield the outermost agents, the last first, up to one that failed with nobody taking over."""
    last_start = _last_start(transcript, _ANSWERING)
    for agent in reversed(outermost_agents(transcript)):
        yield agent
        if _is_final_failure(transcript, agent, last_start):
            return


def _is_state(text: str) -> bool:
    """Say whether text is the state of a program, in JSON or as Python shows it, rather than an answer."""
    return text.lstrip()[:1] in ("{", "[") or _OBJECT.match(text) is not None


def _find_last_entry(thread: Thread | None) -> Entry | None:
    """Return the model's last message in answer to the last message of the user."""
    for entry in () if thread is None else reversed(thread.entries[thread.start :]):
        if entry.message.role == "user":
            return None
        if entry.message.role == "assistant":
            return entry
    return None


def _is_answer(entry: Entry) -> bool:
    return bool(entry.message.text) and not entry.message.calls


def _find_partial_answer(transcript: Transcript, entry: Entry | None) -> str | None:
    """Return the text of a message whose model failed while it answered, also in a span around it."""
    if entry is None:
        return None
    for span in transcript.spans_of(SpanRole.MODEL):
        if any(entry.message is each for each in transcript.content(span).outputs):
            around = (span, *transcript.ancestors_of(span, SpanRole.MODEL))
            is_cut_off = any(transcript.content(each).error for each in around)
            return entry.message.text if is_cut_off else None
    return None


def _find_last_model(transcript: Transcript) -> Span | None:
    """Return the last call of a model that belongs to the run itself, and not to one of its tools."""
    models = transcript.spans_of(SpanRole.MODEL)
    calls = [s for s in models if not transcript.ancestors_of(s, SpanRole.MODEL, SpanRole.TOOL)]
    return calls[-1] if calls else None


def _is_silent(transcript: Transcript, model: Span) -> bool:
    """Say whether a call of a model, with those that it wraps, has neither an answer nor an error."""
    if _has_outcome(transcript, model):
        return False
    models = (span for span in transcript.spans_of(SpanRole.MODEL) if _has_outcome(transcript, span))
    return not any(model is above for span in models for above in transcript.tree.ancestors(span))


def _has_outcome(transcript: Transcript, model: Span) -> bool:
    content = transcript.content(model)
    return bool(content.outputs or content.error)


def _find_fatal_failure(transcript: Transcript, answer: Entry | None, last: Span | None) -> Span | None:
    """Return the span whose failure left the run without an answer; None if it has one or did not fail."""
    agents, last_start = outermost_agents(transcript), _last_start(transcript, _ANSWERING)
    if agents and _is_final_failure(transcript, agents[-1], last_start):
        return agents[-1]
    if answer is None or _last_start(transcript, _ACTING) >= answer.time_ns:
        for root in reversed(_fatal_roots(transcript, last)):
            if _is_final_failure(transcript, root, last_start):
                return root
    if last is None or answer is not None:
        return None
    return None if transcript.content(last).error is None else last


def _fatal_roots(transcript: Transcript, last: Span | None) -> list[Span]:
    """Return the roots whose failure can end a run: of models only the last call, of tools only one alone."""
    roots = [
        s for s in transcript.tree.roots if s is last or transcript.content(s).role is not SpanRole.MODEL
    ]
    return [s for s in roots if len(roots) == 1 or transcript.content(s).role is not SpanRole.TOOL]


def _is_final_failure(transcript: Transcript, span: Span, last_start: float) -> bool:
    """Say whether a span failed and no agent or model was called after it."""
    if transcript.content(span).error is None:
        return False
    return span.end_ns is None or last_start < span.end_ns  # without an end, it was open to the last


def _last_start(transcript: Transcript, roles: frozenset[SpanRole]) -> float:
    """Return when the last span of some roles started."""
    starts = [span.start_ns for role in roles for span in transcript.spans_of(role)]
    return max((start for start in starts if start is not None), default=-math.inf)


def _text_of_roots(transcript: Transcript) -> str | None:
    texts = [transcript.content(span).output_text for span in transcript.tree.roots]
    return next((text for text in reversed(texts) if text is not None), None)


def _find_failures(transcript: Transcript) -> list[Span]:
    """Return one span for each failure, without the spans above to which it was passed on."""
    spans = [span for span in transcript.tree.spans if transcript.contents[span.span_id].error is not None]
    failed = [span for span in spans if _is_reported(transcript, span)]
    passed_on = {id(above) for span in failed for above in _find_passed_failures(transcript, span)}
    return [span for span in failed if id(span) not in passed_on]


def _is_reported(transcript: Transcript, span: Span) -> bool:
    """Say whether the failure of a span is one of the errors of its run."""
    content = transcript.content(span)
    if content.role not in _REPORTED:
        return content.role is not SpanRole.TOOL and transcript.tree.parent(span) is None
    return not transcript.ancestors_of(span, SpanRole.TOOL)


def _find_passed_failures(transcript: Transcript, span: Span) -> Iterator[Span]:
    """Yield the spans above that failed by the same error."""
    error = transcript.content(span).error or ""
    for above in transcript.tree.ancestors(span):
        other = transcript.content(above).error
        # What passes an error on often wraps its message or cuts it.
        if other is not None and (error in other or other in error):
            yield above


def _find_cause(transcript: Transcript, failures: list[Span], fatal: Span) -> Span:
    """Return the last of the failures that was passed on to a span, else the span."""
    for span in reversed(failures):
        if any(above is fatal for above in _find_passed_failures(transcript, span)):
            return span
    return fatal


def _describe_failures(transcript: Transcript, spans: Iterable[Span]) -> tuple[str, ...]:
    return tuple(_describe_failure(transcript, span) for span in spans)


def _describe_failure(transcript: Transcript, span: Span) -> str:
    """Return a failure as `Type: message`, as far as they are known."""
    exception = next((e.attributes for e in reversed(span.events) if e.name == "exception"), {})
    full_name = str(exception.get("exception.type") or span.attributes.get("error.type") or "")
    kind = full_name.rpartition(".")[2]
    message = (transcript.content(span).error or "").strip()
    if not message or message in (NO_MESSAGE, full_name):
        return kind or f"The span {span.name!r} has the status ERROR, without a message."
    return message if not kind or kind in message else f"{kind}: {message}"
