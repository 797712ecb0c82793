"""Faults in a structured answer or an argument: a number, a text or an entry of it, found at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from dokimos._core.convert import convert
from dokimos._core.jsonable import MAX_DEPTH, jsonable, text_form
from dokimos.errors import TypeConversionError
from dokimos.mutation._kinds import MutationKind
from dokimos.mutation._text_faults import REFUSALS, TEXT_FAULTS, change_digits, cut_off, negate
from dokimos.mutation._vocabulary import Vocabulary

Path: TypeAlias = tuple[Any, ...]
NO_PLACE: Final = object()
"""Says that a value offers no place for a fault; None is a value."""
_PLAIN: Final = (str, int, float, bool, type(None), dict, list, tuple)


def inject(kind: MutationKind, value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    """Return an answer of any type with a fault, `NO_PLACE` where there is no place for one."""
    if isinstance(value, str):
        return _or_no_place(TEXT_FAULTS[kind](value, random, vocabulary))
    if isinstance(value, _PLAIN):
        return _STRUCTURED[kind](value, random, vocabulary)
    # An object of the application's: changed as JSON, and made an object of its type again.
    changed = inject(kind, jsonable(value), random, vocabulary)
    if changed is NO_PLACE or isinstance(changed, str):
        return changed
    try:
        return convert(changed, type(value), what="mutant")
    except (TypeConversionError, TypeError):
        return NO_PLACE


def _change_number(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    leaves = [(path, leaf) for path, leaf in _leaves(value) if _is_number(leaf)]
    if leaves:
        path, leaf = random.choice(leaves)
        return _replace(value, path, other_number(leaf, random))
    return _change_text(MutationKind.WRONG_NUMBER, value, random, vocabulary)


def _swap_name(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    return _change_text(MutationKind.SWAPPED_ENTITY, value, random, vocabulary)


def _negate(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    leaves = [(path, leaf) for path, leaf in _leaves(value) if isinstance(leaf, bool)]
    if leaves:
        path, leaf = random.choice(leaves)
        return _replace(value, path, not leaf)
    return _change_text(MutationKind.NEGATED, value, random, vocabulary)


def _drop_entry(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    """Leave out an entry of a mapping or a list that has several; one that says something."""
    containers = [(path, one) for path, one in _containers(value) if len(one) > 1 and _full_keys(one)]
    if not containers:
        return _change_text(MutationKind.DROPPED_CLAUSE, value, random, vocabulary)
    path, container = random.choice(containers)
    if isinstance(container, Mapping):
        gone = random.choice(_full_keys(container))
        return _replace(value, path, {key: one for key, one in container.items() if key != gone})
    index = random.choice(_full_keys(container))
    return _replace(value, path, [*container[:index], *container[index + 1 :]])


def _full_keys(container: Any) -> list[Any]:
    """Return the keys or indexes of what is neither null nor empty, whose absence means the same."""
    entries = container.items() if isinstance(container, Mapping) else enumerate(container)
    return [key for key, one in entries if one is not None and one not in ("", [], {}, ())]


def _refuse(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    return random.choice(REFUSALS)


def _cut_off(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    """Break off the JSON of the answer, as a model does that reaches its limit of tokens."""
    if not isinstance(value, dict | list | tuple):
        return NO_PLACE
    return _or_no_place(cut_off(text_form(value) or "", random, vocabulary))


def _make_empty(value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    if isinstance(value, dict | list | tuple):
        return ({} if isinstance(value, dict) else []) if value else NO_PLACE
    return NO_PLACE if value is None else ""


_STRUCTURED: Final[dict[MutationKind, Callable[[Any, Random, Vocabulary], Any]]] = {
    MutationKind.WRONG_NUMBER: _change_number,
    MutationKind.DROPPED_CLAUSE: _drop_entry,
    MutationKind.SWAPPED_ENTITY: _swap_name,
    MutationKind.NEGATED: _negate,
    MutationKind.REFUSAL: _refuse,
    MutationKind.TRUNCATED: _cut_off,
    MutationKind.EMPTY: _make_empty,
}


def other_number(number: float, random: Random) -> float:
    """Return another number of the same type and about the same size."""
    text = repr(number)
    if "e" in text or not any(sign.isdigit() for sign in text):  # 1e-300, and what has no digits
        return number * 2 if number and math.isfinite(number) else 1.0
    changed = change_digits(text.lstrip("-"), random)
    sign = "-" if text.startswith("-") else ""
    return int(sign + changed) if isinstance(number, int) else float(sign + changed)


def change_argument(value: Any, random: Random, vocabulary: Vocabulary, others: Sequence[Any]) -> Any:
    """Return another value for an argument: one that other calls gave it, else this one with a fault."""
    if isinstance(value, bool):
        return not value
    if others:
        return random.choice(list(others))
    if _is_number(value):
        return other_number(value, random)
    if isinstance(value, str):
        faults = (MutationKind.WRONG_NUMBER, MutationKind.SWAPPED_ENTITY, MutationKind.DROPPED_CLAUSE)
        found = [TEXT_FAULTS[kind](value, random, vocabulary) for kind in faults]
        found += [negate(value, random, vocabulary)]
        return next((text for text in found if text is not None and text != value), "unknown")
    if isinstance(value, dict | list | tuple) and value:
        kinds = (MutationKind.WRONG_NUMBER, MutationKind.SWAPPED_ENTITY, MutationKind.DROPPED_CLAUSE)
        changed = (inject(kind, value, random, vocabulary) for kind in kinds)
        return next((one for one in changed if one is not NO_PLACE and one != value), "unknown")
    return "unknown"


def _change_text(kind: MutationKind, value: Any, random: Random, vocabulary: Vocabulary) -> Any:
    """Put a fault into one of the texts that has a place for it."""
    texts = [(path, leaf) for path, leaf in _leaves(value) if isinstance(leaf, str)]
    random.shuffle(texts)
    for path, text in texts:
        changed = TEXT_FAULTS[kind](text, random, vocabulary)
        if changed is not None and changed != text:
            return _replace(value, path, changed)
    return NO_PLACE


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _or_no_place(text: str | None) -> Any:
    return NO_PLACE if text is None else text


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield what is in a value that holds nothing else, each with its path."""
    if len(path) > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, (*path, key))
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _leaves(one, (*path, index))
    else:
        yield path, value


def _containers(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if len(path) > MAX_DEPTH or not isinstance(value, Mapping | list | tuple):
        return
    yield path, value
    inner = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, one in inner:
        yield from _containers(one, (*path, key))


def _replace(value: Any, path: Path, new: Any) -> Any:
    """Return a value with another one in a place of it; the containers on the way are copies."""
    if not path:
        return new
    head, *rest = path
    if isinstance(value, Mapping):
        return {key: _replace(one, tuple(rest), new) if key == head else one for key, one in value.items()}
    return [_replace(one, tuple(rest), new) if index == head else one for index, one in enumerate(value)]
