"""What a model is asked for cases: which passages, which categories, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from dokimos._core import checks
from dokimos.errors import ConfigurationError
from dokimos.generation._difficulty import SAMPLES
from dokimos.generation._drafts import CATEGORIES
from dokimos.generation._review_case import ReviewCase, input_text
from dokimos.generation._sources import Passage, Source, SourceKind, split_into_passages
from dokimos.judges._protocol import JudgeLike, JudgeLM, as_judge

CASES_PER_CALL: Final = 2
MOST_CALLS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Order:
    """One call of the model: for a case of each of these categories from a passage."""

    passage: Passage
    categories: tuple[str, ...]
    sample: int
    """Counts the calls for the same passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationPlan:
    """What a model is to be asked."""

    sources: tuple[Source, ...]
    orders: tuple[Order, ...]
    categories: Mapping[str, str]
    count: int
    writer: JudgeLM
    judge: JudgeLM
    """The same model, which judges the tries of the weak one."""
    weak: JudgeLM | None
    known: tuple[str, ...]
    """Inputs that there are already."""
    listed: frozenset[str]
    """The ids of the cases that are in the review list already."""

    @property
    def calls(self) -> int:
        """How often models are asked, unless replies have to be repaired."""
        tries = 0 if self.weak is None else 2 * SAMPLES * self.count
        return len(self.orders) + tries

    @property
    def marks(self) -> list[object]:
        """What tells this piece of work from another."""
        texts = [source.text for source in self.sources]
        return [texts, self.count, dict(self.categories)]


def plan_generation(
    sources: Sequence[Source],
    *,
    model: JudgeLike,
    count: int = 20,
    categories: Mapping[str, str] | None = None,
    weak: JudgeLike | None = None,
    known: Iterable[str] = (),
    listed: Sequence[ReviewCase] = (),
    seed: int = 0,
) -> GenerationPlan:
    """Choose passages and categories; no model is asked yet. Raises `ConfigurationError`."""
    count = checks.require_positive("count", count)
    chosen = dict(CATEGORIES if categories is None else categories)
    if not chosen or not all(name.strip() for name in chosen):
        raise ConfigurationError("Give at least one category, each with a name.")
    if count > MOST_CALLS * CASES_PER_CALL:
        raise ConfigurationError(f"count must be at most {MOST_CALLS * CASES_PER_CALL:,}, not {count:,}.")
    passages = split_into_passages(sources)
    if not passages:
        raise ConfigurationError("The sources have no text, so no cases can be made from them.")
    parts = list(_share_out(list(chosen), count))
    places = _spread(passages, len(parts), seed)
    return GenerationPlan(
        sources=tuple(sources),
        orders=tuple(
            Order(passage, part, sample) for (passage, sample), part in zip(places, parts, strict=True)
        ),
        categories=chosen,
        count=count,
        writer=_as_writer(model),
        judge=as_judge(model),
        weak=None if weak is None else _as_writer(weak),
        known=(*known, *_inputs_of_cases(sources), *(input_text(case) for case in listed)),
        listed=frozenset(case.id for case in listed),
    )


def _as_writer(model: JudgeLike) -> JudgeLM:
    """Return a model with its usual temperature, where it is given by its name.

    At the temperature of judges, 0, it would write the same cases whenever it is asked for the same passage,
    and a weak model would give the same answer in each of its tries.
    """
    if not isinstance(model, str):
        return as_judge(model)
    from dokimos.judges._factory import judge

    return judge(model, temperature=None)


def _share_out(categories: Sequence[str], count: int) -> Iterator[tuple[str, ...]]:
    """Yield the categories of each call: all of them equally often, or once more."""
    requested = [categories[index % len(categories)] for index in range(count)]
    for place in range(0, count, CASES_PER_CALL):
        yield tuple(requested[place : place + CASES_PER_CALL])


def _spread(passages: Sequence[Passage], calls: int, seed: int) -> list[tuple[Passage, int]]:
    """Choose passages for so many calls: each once before any twice, by chance where not all are needed."""
    order = list(range(len(passages)))
    chosen: list[tuple[Passage, int]] = []
    random = Random(seed)
    for sample in range(-(-calls // len(passages))):
        left = calls - len(chosen)
        picked = order if left >= len(order) else sorted(random.sample(order, left))
        chosen += [(passages[index], sample) for index in picked]
    return chosen


def _inputs_of_cases(sources: Iterable[Source]) -> Iterator[str]:
    for source in sources:
        if source.kind is SourceKind.CASES:
            yield source.text.partition("\nExpected: ")[0].removeprefix("Input: ")
