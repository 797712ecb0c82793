"""Mutants: recorded answers with one fault each, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from dokimos._core.agent import ToolCall
from dokimos._core.conversation import call_text
from dokimos._core.item_result import ItemResult
from dokimos._core.jsonable import text_form
from dokimos.mutation._answer_places import find_answer, find_tool_calls, find_tool_names
from dokimos.mutation._kinds import MutationKind
from dokimos.mutation._value_faults import NO_PLACE, change_argument, inject
from dokimos.mutation._vocabulary import Vocabulary, fold

_TRIES: Final = 8
"""How often a fault is drawn anew that changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A recorded answer with one fault.

    Example:
        >>> item = ItemResult(0, Example.of("Price?", "42 euros"), actual_outputs={"output": "42 euros"})
        >>> [mutant] = make_mutants([item], kinds=["wrong_number"])
        >>> mutant.before, mutant.after
        ('42 euros', '12 euros')
    """

    item: ItemResult
    """The item with the recorded answer."""
    kind: MutationKind
    outputs: Mapping[str, Any]
    """The outputs with the fault."""
    before: str
    """The answer, or the tool call, as text."""
    after: str
    """The same with the fault."""


def make_mutants(
    items: Iterable[ItemResult],
    *,
    kinds: Iterable[MutationKind | str] = tuple(MutationKind),
    seed: int = 0,
) -> tuple[Mutant, ...]:
    """Put one fault of each kind into each recorded answer that offers a place for it.

    The same answers, kinds and seed give the same mutants. What replaces names, tools and arguments is taken
    from the other answers. An item whose task errored has no answer, and no mutant.

    Args:
        items: The items of a run, such as `result.runs[0].item_results`.
        kinds: The kinds of faults; all unless given.
        seed: Chooses the places and the replacements.

    Raises:
        ValueError: for a kind that does not exist.

    Example:
        >>> item = ItemResult(0, Example.of("Is it open?"), actual_outputs={"output": "It is open."})
        >>> [mutant.after for mutant in make_mutants([item], kinds=["negated", "empty"])]
        ['It is not open.', '']
    """
    chosen = [MutationKind(kind) for kind in kinds]
    answered = [item for item in items if item.error is None]
    vocabulary = collect_vocabulary(answered)
    return tuple(
        mutant
        for item in answered
        for kind in chosen
        if (mutant := _make_mutant(item, kind, seed, vocabulary)) is not None
    )


def collect_vocabulary(items: Sequence[ItemResult]) -> Vocabulary:
    """Return what the answers of items hold."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    tools: list[str] = []
    for item in items:
        answer, called = find_answer(item.actual_outputs), find_tool_calls(item.actual_outputs)
        if answer is not None and (text := text_form(answer.value)):
            texts.append(text)
        if called is not None:
            calls += called.value
        tools += find_tool_names(item.actual_outputs, item.example.metadata)
    return Vocabulary.of(texts, calls, tools)


def _make_mutant(item: ItemResult, kind: MutationKind, seed: int, vocabulary: Vocabulary) -> Mutant | None:
    # Of its own for each item and kind, so that a mutant does not depend on which others are made.
    random = Random(f"{seed}|{item.key}|{kind}")
    for _ in range(_TRIES):
        drawn = _DRAWS.get(kind, _draw_answer)(item, kind, random, vocabulary)
        if drawn is None:
            return None
        # An answer that says the same is not a fault: a metric that notices it is too strict.
        if fold(drawn.before) != fold(drawn.after):
            return drawn
    return None


def _draw_answer(
    item: ItemResult, kind: MutationKind, random: Random, vocabulary: Vocabulary
) -> Mutant | None:
    place = find_answer(item.actual_outputs)
    if place is None:
        return None
    changed = inject(kind, place.value, random, vocabulary)
    if changed is NO_PLACE:
        return None
    return Mutant(
        item=item,
        kind=kind,
        outputs=place.put(changed),
        before=text_form(place.value) or "",
        after=text_form(changed) or "",
    )


def _draw_tool(item: ItemResult, kind: MutationKind, random: Random, vocabulary: Vocabulary) -> Mutant | None:
    place = find_tool_calls(item.actual_outputs)
    if place is None:
        return None
    index = random.randrange(len(place.value))
    call = place.value[index]
    available = find_tool_names(item.actual_outputs, item.example.metadata)
    other = replace(call, name=random.choice(vocabulary.other_tools(call.name, available)))
    return _call_mutant(item, kind, index, other)


def _draw_argument(
    item: ItemResult, kind: MutationKind, random: Random, vocabulary: Vocabulary
) -> Mutant | None:
    place = find_tool_calls(item.actual_outputs)
    arguments = [] if place is None else list(_arguments(place.value))
    if place is None or not arguments:
        return None
    index, name = random.choice(arguments)
    call = place.value[index]
    value = fold(text_form(call.arguments[name]) or "")
    others = vocabulary.other_values(call.name, name, call.arguments[name])
    others = [one for one in others if fold(text_form(one) or "") != value]
    changed = change_argument(call.arguments[name], random, vocabulary, others)
    return _call_mutant(item, kind, index, replace(call, arguments={**call.arguments, name: changed}))


def _arguments(calls: Sequence[ToolCall]) -> Iterator[tuple[int, str]]:
    for index, call in enumerate(calls):
        for name in call.arguments:
            yield index, name


def _call_mutant(item: ItemResult, kind: MutationKind, index: int, call: ToolCall) -> Mutant | None:
    place = find_tool_calls(item.actual_outputs)
    if place is None:
        return None
    calls = (*place.value[:index], call, *place.value[index + 1 :])
    return Mutant(
        item=item,
        kind=kind,
        outputs=place.put(calls),
        before=call_text(place.value[index]),
        after=call_text(call),
    )


_DRAWS: Final = {MutationKind.WRONG_TOOL: _draw_tool, MutationKind.WRONG_ARGUMENT: _draw_argument}
