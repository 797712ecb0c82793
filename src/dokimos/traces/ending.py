"""How the run in a trace ended: with an answer, by a failure, or in a way that nobody recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dokimos.traces.reading import NO_MESSAGE, SpanReading
from dokimos.traces.semconv import SpanRole
from dokimos.traces.span import Span
from dokimos.traces.transcript import Entry, Thread, Transcript

_HOLDERS: Final = frozenset((SpanRole.STEP, SpanRole.OTHER))
_ANSWERING: Final = frozenset((SpanRole.AGENT, SpanRole.MODEL))
_ACTING: Final = _ANSWERING | {SpanRole.TOOL, SpanRole.RETRIEVAL}
_REPORTED: Final = _ANSWERING | {SpanRole.STEP, SpanRole.RETRIEVAL}
"""The roles whose failures are told in `errors`, as are those of roots; a tool's stands in its call."""


_MODELS_OWN: Final = ("gen_ai.", "llm.", "ai.", "langfuse.observation.")
"""How the names of attributes begin that tell of models, also in conventions that are not read."""
_TRANSPORT: Final = ("http.", "url.", "rpc.", "db.", "messaging.", "net.", "network.", "server.", "graphql.")
"""How the names of attributes begin that tell of requests, which are nobody's run by themselves."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    answer: str | None = None
    partial: str | None = None
    """What was said of an answer before a failure ended it."""
    error: str | None = None
    """The failure that ended it in the place of an answer."""
    errors: tuple[str, ...] = ()
    """All other failures, in order."""
    is_recorded: bool = True
    """Whether the spans say how it ended; a recorded run without answer and error ended with a call."""


def find_ending(transcript: Transcript) -> Ending:
    """Find out how a run ended.

    The answer is what the last agent, or the root, says that it is, else the last message of the model,
    unless that was only an intermediate step of a run that failed, or broke off.
    """
    failures = _find_failures(transcript)
    said, last = _last_said(transcript.main), _last_model(transcript)
    partial = None if said is None or not _broke_off(transcript, said) else said.message.text
    declared, unsure = _declared_answers(transcript, partial)
    if declared is not None:
        return Ending(declared, errors=_texts(transcript, failures))
    complete = said if said is not None and partial is None and _is_answer(said) else None
    fatal = _fatal_failure(transcript, complete, last)
    if fatal is not None:
        cause = _cause_of(transcript, failures, fatal)
        others = [span for span in failures if span is not cause]
        so_far = unsure or partial or None
        return Ending(None, so_far, _text(transcript, fatal), _texts(transcript, others))
    errors = _texts(transcript, failures)
    if unsure is not None:
        return Ending(unsure, errors=errors)
    if last is not None and _is_silent(transcript, last):
        return Ending(errors=errors, is_recorded=False)
    if said is not None:
        return Ending(said.message.text if _is_answer(said) else None, errors=errors)
    answer = None if transcript.threads else _text_of_roots(transcript)
    return Ending(answer, errors=errors, is_recorded=answer is not None)


def has_run(transcript: Transcript) -> bool:
    """Say whether anything ran in a trace, and did not only make an agent for later, say."""
    created = False
    for span in transcript.tree.spans:
        reading = transcript.reading(span)
        if span.attributes.get("gen_ai.operation.name") == "create_agent":
            created = True
            continue
        if reading.role is not SpanRole.OTHER or reading.input_text or reading.output_text:
            return True
        if any(name.startswith(_MODELS_OWN) for name in span.attributes):
            return True
    return not created and any(_is_failed_run(transcript, root) for root in transcript.tree.roots)


def _is_failed_run(transcript: Transcript, root: Span) -> bool:
    """Say whether a root that says nothing of models is an application's own that failed, and no request."""
    if transcript.reading(root).error is None or root.kind not in (None, "internal"):
        return False
    return not any(name.startswith(_TRANSPORT) for name in root.attributes)


def outermost_agents(transcript: Transcript) -> list[Span]:
    """Return the agents that no other agent called, in order."""
    agents = transcript.spans_of(SpanRole.AGENT)
    return [span for span in agents if not transcript.above(span, SpanRole.AGENT)]


def _declared_answers(transcript: Transcript, partial: str | None) -> tuple[str | None, str | None]:
    """Return what the last of the outermost agents, or the root, says is its answer, if that is prose.

    The second text is one of a span that failed for good: it may have broken off. What only repeats how far
    a model came before it broke off is none.
    """
    roots = [s for s in transcript.tree.roots if transcript.reading(s).role in _HOLDERS]
    last_start = _last_start(transcript, _ANSWERING)
    unsure = None
    for span in (*_agents_that_count(transcript), *reversed(roots)):
        text = _declared_by(transcript.reading(span))
        if text is None or (partial and text.strip() == partial.strip()):
            continue
        if not _failed_for_good(transcript, span, last_start):
            return text, None
        unsure = unsure or text
    return None, unsure


def _declared_by(reading: SpanReading) -> str | None:
    said = reading.outputs[-1] if reading.outputs else None
    if said is not None and said.calls:
        return None  # what is said beside a call is a step on the way
    if said is not None and said.text:
        return said.text.rstrip("\n")
    text = reading.output_text
    return None if text is None or _is_state(text) else text


def _agents_that_count(transcript: Transcript) -> Iterator[Span]:
    """Yield the outermost agents, the last first, up to one that failed with nobody taking over."""
    last_start = _last_start(transcript, _ANSWERING)
    for agent in reversed(outermost_agents(transcript)):
        yield agent
        if _failed_for_good(transcript, agent, last_start):
            return


def _is_state(text: str) -> bool:
    """Say whether text is the state of a program, in JSON, rather than an answer."""
    return text.lstrip()[:1] in ("{", "[")


def _last_said(thread: Thread | None) -> Entry | None:
    """Return the model's last message in answer to the last message of the user."""
    for entry in () if thread is None else reversed(thread.entries[thread.start :]):
        if entry.message.role == "user":
            return None
        if entry.message.role == "assistant":
            return entry
    return None


def _is_answer(said: Entry) -> bool:
    return bool(said.message.text) and not said.message.calls


def _broke_off(transcript: Transcript, said: Entry) -> bool:
    """Say whether a message is of a model that failed while it spoke, also in a span around it."""
    for span in transcript.spans_of(SpanRole.MODEL):
        if any(said.message is each for each in transcript.reading(span).outputs):
            around = (span, *transcript.above(span, SpanRole.MODEL))
            return any(transcript.reading(each).error for each in around)
    return False


def _last_model(transcript: Transcript) -> Span | None:
    """Return the last call of a model that belongs to the run itself, and not to one of its tools."""
    models = transcript.spans_of(SpanRole.MODEL)
    own = [s for s in models if not transcript.above(s, SpanRole.MODEL, SpanRole.TOOL)]
    return own[-1] if own else None


def _is_silent(transcript: Transcript, model: Span) -> bool:
    """Say whether a call of a model, with those that it wraps, tells neither its answer nor an error."""
    if _tells(transcript, model):
        return False
    models = (span for span in transcript.spans_of(SpanRole.MODEL) if _tells(transcript, span))
    return not any(model is above for span in models for above in transcript.tree.ancestors(span))


def _tells(transcript: Transcript, model: Span) -> bool:
    reading = transcript.reading(model)
    return bool(reading.outputs or reading.error)


def _fatal_failure(transcript: Transcript, answer: Entry | None, last: Span | None) -> Span | None:
    """Return the span whose failure left the run without an answer; None if it has one or did not fail."""
    agents, last_start = outermost_agents(transcript), _last_start(transcript, _ANSWERING)
    if agents and _failed_for_good(transcript, agents[-1], last_start):
        return agents[-1]
    if answer is None or _last_start(transcript, _ACTING) >= answer.time_ns:
        for root in reversed(_roots_that_count(transcript, last)):
            if _failed_for_good(transcript, root, last_start):
                return root
    if last is None or answer is not None:
        return None
    return None if transcript.reading(last).error is None else last


def _roots_that_count(transcript: Transcript, last: Span | None) -> list[Span]:
    """Return the roots whose failure can end a run: of models only the last call, of tools only one alone."""
    roots = [
        s for s in transcript.tree.roots if s is last or transcript.reading(s).role is not SpanRole.MODEL
    ]
    return [s for s in roots if len(roots) == 1 or transcript.reading(s).role is not SpanRole.TOOL]


def _failed_for_good(transcript: Transcript, span: Span, last_start: float) -> bool:
    """Say whether a span failed and no agent or model was asked after it."""
    if transcript.reading(span).error is None:
        return False
    return span.end_ns is None or last_start < span.end_ns


def _last_start(transcript: Transcript, roles: frozenset[SpanRole]) -> float:
    """Return when the last span of some roles started."""
    starts = (span.start_ns for span in transcript.tree.spans if transcript.reading(span).role in roles)
    return max((start for start in starts if start is not None), default=-math.inf)


def _text_of_roots(transcript: Transcript) -> str | None:
    texts = [transcript.reading(span).output_text for span in transcript.tree.roots]
    return next((text for text in reversed(texts) if text is not None), None)


def _find_failures(transcript: Transcript) -> list[Span]:
    """Return what failed, once for each failure, however far it was passed on to the spans above."""
    failed = [span for span in transcript.tree.spans if _is_reported(transcript, span)]
    passed_on = {id(above) for span in failed for above in _passed_to(transcript, span)}
    return [span for span in failed if id(span) not in passed_on]


def _is_reported(transcript: Transcript, span: Span) -> bool:
    reading = transcript.reading(span)
    if reading.error is None:
        return False
    if reading.role not in _REPORTED:
        return reading.role is not SpanRole.TOOL and transcript.tree.parent(span) is None
    return not transcript.above(span, SpanRole.TOOL)


def _passed_to(transcript: Transcript, span: Span) -> Iterator[Span]:
    """Yield the spans above that failed by the same error."""
    error = transcript.reading(span).error or ""
    for above in transcript.tree.ancestors(span):
        other = transcript.reading(above).error
        if other is not None and (error in other or other in error):
            yield above


def _cause_of(transcript: Transcript, failures: list[Span], fatal: Span) -> Span:
    """Return the last of the failures that was passed on to a span, else the span."""
    for span in reversed(failures):
        if any(above is fatal for above in _passed_to(transcript, span)):
            return span
    return fatal


def _texts(transcript: Transcript, spans: Iterable[Span]) -> tuple[str, ...]:
    return tuple(_text(transcript, span) for span in spans)


def _text(transcript: Transcript, span: Span) -> str:
    """Return a failure as `Type: message`, as far as it is known."""
    raised = next((e.attributes for e in reversed(span.events) if e.name == "exception"), {})
    full_name = str(raised.get("exception.type") or span.attributes.get("error.type") or "")
    kind = full_name.rpartition(".")[2]
    message = (transcript.reading(span).error or "").strip()
    if not message or message in (NO_MESSAGE, full_name):
        return kind or f"The span {span.name!r} has the status ERROR, without a message."
    return message if not kind or kind in message else f"{kind}: {message}"
