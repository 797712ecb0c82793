"""Ways to tell that a retrieved item is one of the relevant ones.

Any callable of (retrieved, relevant) that gives a bool, sync or async, is a strategy; these are ready-made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dokimos._core.jsonable import text_form
from dokimos._core.text import quote
from dokimos._runtime import user_calls
from dokimos.errors import ConfigurationError
from dokimos.evaluators._json_tree import identity_key

if TYPE_CHECKING:
    from dokimos.evaluators._retrieval.llm_matching import LlmMatching
    from dokimos.judges._protocol import JudgeLike

Strategy: TypeAlias = Callable[[Any, Any], "bool | Awaitable[bool]"]
Matching: TypeAlias = Strategy | str | Mapping[str, Any]
"""A strategy, or its data form: "equality", {"field": "id"}, {"any_of": [...]} and so on."""

MATCHING_SCHEMA: Final[dict[str, Any]] = {
    "oneOf": [
        {"enum": ["equality", "ignore_case", "containment"]},
        {"type": "object", "required": ["field"], "additionalProperties": False,
         "properties": {"field": {"type": "string"}}},
        {"type": "object", "required": ["fields"], "additionalProperties": False,
         "properties": {"fields": {"type": "array", "items": {"type": "string"}, "minItems": 1}}},
        {"type": "object", "required": ["llm"], "additionalProperties": False,
         "properties": {"llm": {"type": "string"}}},
        {"type": "object", "required": ["any_of"], "additionalProperties": False,
         "properties": {"any_of": {"type": "array"}}},
        {"type": "object", "required": ["all_of"], "additionalProperties": False,
         "properties": {"all_of": {"type": "array"}}},
    ]
}  # fmt: skip


@dataclass(frozen=True)
class KeyMatching:
    """Matches items that share a key; an item without one (None) matches nothing."""

    key: Callable[[Any], Hashable]
    fields: tuple[str, ...] = ()
    """The fields that make up the key, where it is made of fields."""

    def __call__(self, retrieved: object, relevant: object) -> bool:
        key = self.key(retrieved)
        return key is not None and key == self.key(relevant)


@dataclass(frozen=True)
class Containment:
    """Matches texts of which one contains the other."""

    normalize: bool = True
    """Whether case and runs of white space make no difference."""

    def __call__(self, retrieved: object, relevant: object) -> bool:
        text, relevant_text = _text(retrieved, self.normalize), _text(relevant, self.normalize)
        if not text or not relevant_text:
            return text == relevant_text
        return text in relevant_text or relevant_text in text


@dataclass(frozen=True)
class Combined:
    """Matches where any, or all, of several strategies do; asks them in order and no more than it must."""

    strategies: tuple[Strategy, ...]
    every: bool
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", any(map(is_async, self.strategies)))

    def __call__(self, retrieved: object, relevant: object) -> bool | Awaitable[bool]:
        if self.is_async:
            return self._ask(retrieved, relevant)
        answers = (bool(strategy(retrieved, relevant)) for strategy in self.strategies)
        return all(answers) if self.every else any(answers)

    async def _ask(self, retrieved: object, relevant: object) -> bool:
        for strategy in self.strategies:
            if await matches(strategy, retrieved, relevant) is not self.every:
                return not self.every
        return self.every


def equality(retrieved: object, relevant: object) -> bool:
    """Match equal values; 1 equals 1.0, True does not equal 1.

    Example:
        >>> equality("d1", "d1"), equality(1, True)
        (True, False)
    """
    return identity_key(retrieved) == identity_key(relevant)


def ignore_case(retrieved: object, relevant: object) -> bool:
    """Match strings without regard to upper and lower case, anything else by equality.

    Example:
        >>> ignore_case("DOC-1", "doc-1")
        True
    """
    return _caseless_key(retrieved) == _caseless_key(relevant)


def by_identifier(identifier: Callable[[Any], Any]) -> KeyMatching:
    """Match items for which `identifier(item)` gives equal values; None matches nothing.

    Example:
        >>> same_file = by_identifier(lambda path: path.rpartition("/")[2])
        >>> same_file("old/report.pdf", "new/report.pdf")
        True
    """
    return KeyMatching(lambda item: _key_or_none(identifier(item)))


def by_field(name: str) -> KeyMatching:
    """Match items by one field; an item that is not a map stands for the value itself.

    Example:
        >>> by_field("id")({"id": 7, "text": "Returns"}, 7)
        True
    """
    return KeyMatching(lambda item: _key_or_none(_field(item, name, item)), (name,))


def by_fields(*names: str) -> KeyMatching:
    """Match maps that agree in every one of these fields, anything else by equality.

    Example:
        >>> same_page = by_fields("file", "page")
        >>> same_page({"file": "a.pdf", "page": 2, "score": 0.9}, {"file": "a.pdf", "page": 2})
        True
    """
    if not names:
        raise ConfigurationError("by_fields needs the name of at least one field.")
    return KeyMatching(lambda item: _fields_key(item, names), names)


def containment(*, normalize: bool = True) -> Containment:
    """Match texts of which one contains the other, ignoring case and runs of white space where normalised.

    An empty text matches only an empty one.

    Example:
        >>> containment()("Return goods within 30 days.", "within  30 Days")
        True
    """
    return Containment(normalize)


def llm_based(judge: JudgeLike) -> LlmMatching:
    """Match items that give the same information according to a judge; one call for each pair.

    Example:
        >>> import asyncio
        >>> same_meaning = llm_based(lambda prompt: "yes")
        >>> asyncio.run(same_meaning("Returns take 30 days.", "You have a month to return goods."))
        True
    """
    from dokimos.evaluators._retrieval.llm_matching import LlmMatching
    from dokimos.judges._protocol import as_judge

    return LlmMatching(as_judge(judge))


def any_of(*strategies: Matching) -> Combined:
    """Match where at least one strategy matches; without strategies, nothing matches.

    Example:
        >>> same_page = any_of(by_field("id"), by_field("url"))
        >>> same_page({"id": 9, "url": "/faq"}, {"id": 7, "url": "/faq"})
        True
    """
    return Combined(tuple(as_strategy(strategy) for strategy in strategies), every=False)


def all_of(*strategies: Matching) -> Combined:
    """Match where every strategy matches; without strategies, everything matches.

    Example:
        >>> same_page = all_of(by_field("file"), by_field("page"))
        >>> same_page({"file": "a.pdf", "page": 2}, {"file": "a.pdf", "page": 3})
        False
    """
    return Combined(tuple(as_strategy(strategy) for strategy in strategies), every=True)


def as_strategy(matching: Matching) -> Strategy:
    """Return the strategy for its data form; a callable is one already.

    Raises:
        ConfigurationError: for anything else, with the forms there are.
    """
    if isinstance(matching, str) and matching in _NAMED:
        return _NAMED[matching]
    if isinstance(matching, Mapping) and len(matching) == 1:
        ((form, content),) = matching.items()
        if form in _FORMS and isinstance(content, _FORMS[form][0]) and content != "":
            return _FORMS[form][1](content)
    if callable(matching):
        return matching
    raise ConfigurationError(
        f"matching {quote(matching)} is not known; expected {', '.join(map(repr, _NAMED))}, "
        '{"field": NAME}, {"fields": [NAME, ...]}, {"llm": MODEL}, {"any_of": [...]}, {"all_of": [...]} '
        "or a function of two items."
    )


def is_async(strategy: Strategy) -> bool:
    """Return whether a strategy has to be awaited."""
    return getattr(strategy, "is_async", False) is True or user_calls.is_async(strategy)


def asks_judge(strategy: Strategy) -> bool:
    """Return whether a strategy asks a model, and so may answer differently another time."""
    if isinstance(strategy, Combined):
        return any(map(asks_judge, strategy.strategies))
    return hasattr(strategy, "judge")


async def matches(strategy: Strategy, retrieved: object, relevant: object) -> bool:
    """Ask a strategy, sync or async."""
    return bool(await user_calls.await_value(strategy(retrieved, relevant)))


def compares_fields(strategy: Strategy) -> bool:
    """Return whether a strategy looks at fields of the items."""
    return isinstance(strategy, KeyMatching) and bool(strategy.fields)


def compares_items(strategy: Strategy) -> bool:
    """Return whether a strategy must be given documents as they are, and not their ids or texts."""
    if isinstance(strategy, Combined):
        return any(map(compares_items, strategy.strategies))
    reads_texts = strategy in (equality, ignore_case) or isinstance(strategy, Containment)
    return not reads_texts and not asks_judge(strategy)


def key_of(strategy: Strategy) -> Callable[[Any], Hashable] | None:
    """Return the function whose equal results are matches, None for a strategy that must see each pair."""
    if isinstance(strategy, KeyMatching):
        return strategy.key
    # By identity and not in a dict: an object of the user's may be callable without being hashable.
    if strategy is equality:
        return identity_key
    return _caseless_key if strategy is ignore_case else None


def _caseless_key(item: object) -> Hashable:
    return identity_key(item.casefold() if isinstance(item, str) else item)


def _key_or_none(value: object) -> Hashable:
    return None if value is None else identity_key(value)


def _field(item: object, name: str, otherwise: object) -> Any:
    if isinstance(item, Mapping):
        return item.get(name)
    if isinstance(item, str | int | float | list | tuple) or item is None:
        return otherwise
    return getattr(item, name, None)


def _fields_key(item: object, names: tuple[str, ...]) -> Hashable:
    absent = object()
    values = [_field(item, name, absent) for name in names]
    # A plain value has none of the fields, a map has all of them or None.
    if values[0] is absent:
        return identity_key(item)
    return None if None in values else tuple([identity_key(value) for value in values])


def _text(item: object, normalize: bool) -> str:
    text = text_form(item) or ""
    return " ".join(text.casefold().split()) if normalize else text


def _list_of(make: Callable[..., Strategy]) -> Callable[[Any], Strategy]:
    return lambda content: make(*content)


_NAMED: Final[dict[str, Strategy]] = {
    "equality": equality,
    "ignore_case": ignore_case,
    "containment": containment(),
}
_FORMS: Final[dict[str, tuple[type, Callable[[Any], Strategy]]]] = {
    "field": (str, by_field),
    "fields": (list, _list_of(by_fields)),
    "llm": (str, llm_based),
    "any_of": (list, _list_of(any_of)),
    "all_of": (list, _list_of(all_of)),
}
