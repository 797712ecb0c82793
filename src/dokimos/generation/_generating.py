"""Cases from sources: drafts of a model, verified, without duplicates, with their difficulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

from dokimos._core import checks
from dokimos._core.metrics import CallMetrics
from dokimos._core.printable import Printable
from dokimos.errors import JudgeError
from dokimos.experiment._model_session import ModelSession
from dokimos.experiment._run_options import CallOptionKeywords, RunOptions
from dokimos.generation._checks import HARD
from dokimos.generation._difficulty import measure_difficulty
from dokimos.generation._drafts import Draft, write_drafts
from dokimos.generation._plan import GenerationPlan, Order, plan_generation
from dokimos.generation._review_case import Rejections, ReviewCase
from dokimos.generation._sieve import Sieve
from dokimos.generation._sources import Passage, SourceKind, read_sources
from dokimos.judges._protocol import JudgeLike

NOT_MEASURED: Final = -1.0
"""Stands for the difficulty of a case without an expected answer."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Generation(Printable):
    """Generated cases for a person to look at, and what became of the others.

    Example:
        >>> Generation(cases=(), requested={"fact": 2}).by_category
        {'fact': 0}
    """

    __dokimos_view__ = "dokimos.generation._view:VIEW"

    cases: tuple[ReviewCase, ...]
    requested: Mapping[str, int] = field(default_factory=dict)
    """By category: cases that the model was asked for."""
    rejections: Rejections = field(default_factory=Rejections)
    errors: tuple[str, ...] = ()
    """Calls without a usable reply, in a sentence each."""
    not_asked: int = 0
    """Calls that the budget did not allow."""
    metrics: CallMetrics | None = None
    """What the models cost."""
    warnings: tuple[str, ...] = ()

    @property
    def by_category(self) -> dict[str, int]:
        """How many cases there are in each category that was asked for."""
        counts = Counter(case.category for case in self.cases)
        return {category: counts[category] for category in self.requested}

    @property
    def is_complete(self) -> bool:
        """Whether all calls have a reply."""
        return not self.errors and not self.not_asked


def generate_cases(  # noqa: PLR0913 - all but one are keywords
    sources: Sequence[str | Path] | str | Path,
    *,
    model: JudgeLike,
    count: int = 20,
    kind: SourceKind | str | None = None,
    categories: Mapping[str, str] | None = None,
    weak: JudgeLike | None = None,
    known: Iterable[str] = (),
    seed: int = 0,
    parallelism: int = 8,
    **keywords: Unpack[CallOptionKeywords],
) -> Generation:
    """Let a model write cases from documents, JSON Schemas, traces or existing cases.

    Each case names the passage that it rests on. A case whose passage does not occur in its document word for
    word, or that is (nearly) the same as another one, is rejected and counted. The rest waits for a person:
    `write_review_list` writes it to a file, and `build_dataset` makes a data set of what was accepted.

    Args:
        sources: Files, folders or patterns.
        model: Who writes the cases, and judges the tries of the weak model. One that is given by its name
            writes at its usual temperature and judges at 0.
        count: How many cases the model is asked for; there are fewer where some are rejected.
        kind: What the sources are, where their content does not say it.
        categories: What kinds of cases there should be, each with what it means; equally many of each.
        weak: A weak model whose failures measure the difficulty: three tries of each case.
        known: Inputs that there are already, which are not requested again.
        seed: Chooses the passages where there are more than are needed.
        parallelism: Calls of models at once.
        keywords: `budget`, `cassette`, `cassette_mode` and `cache` of `RunOptions`.

    Raises:
        ConfigurationError: where there is nothing to make cases from.
        DocumentError: for a file that cannot be read.

    Example:
        >>> draft = {"input": "When is it open?", "answer": "On Monday.", "quote": "Open on Monday."}
        >>> reply = json.dumps({"cases": [{**draft, "category": "fact"}]})  # of a model
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with open(f"{folder}/hours.md", "w") as file:
        ...         count = file.write("Open on Monday.")
        ...     generation = generate_cases(f"{folder}/hours.md", model=lambda prompt: reply, count=1)
        >>> [(case.input, case.source.text) for case in generation.cases]
        [('When is it open?', 'Open on Monday.')]
    """
    from dokimos._runtime.concurrency import run_sync

    paths = [sources] if isinstance(sources, str | Path) else list(sources)
    plan = plan_generation(
        read_sources(paths, kind=kind), model=model, count=count, categories=categories, weak=weak,
        known=known, seed=seed,
    )  # fmt: skip
    parallelism = checks.require_positive("parallelism", parallelism)
    return run_sync(generate(plan, RunOptions(**keywords), parallelism=parallelism))


async def generate(
    plan: GenerationPlan, options: RunOptions, *, parallelism: int = 8, folder: Path | None = None
) -> Generation:
    """Ask for what was planned; replies are kept in the folder, where one is given."""
    session = ModelSession(options, folder=folder, parallelism=parallelism)
    async with session:
        replies = await session.gather([_draft_job(plan, order) for order in plan.orders])
        sieve = Sieve(plan.known, plan.listed)
        for order, reply in zip(plan.orders, replies, strict=True):
            for draft in reply if isinstance(reply, list) else ():
                sieve.add(order.passage, draft)
        jobs = [] if plan.weak is None else [_difficulty_job(plan, *one) for one in sieve.found]
        measured = await session.gather(jobs)
    outcomes = (*replies, *measured)
    return Generation(
        cases=_with_difficulties([case for case, _ in sieve.found], measured),
        requested=Counter(name for order in plan.orders for name in order.categories),
        rejections=sieve.rejections(),
        errors=tuple(str(one) for one in outcomes if isinstance(one, JudgeError)),
        not_asked=sum(one is None for one in outcomes),
        metrics=session.metrics,
        warnings=session.warnings(),
    )


def _with_difficulties(
    cases: Sequence[ReviewCase], measured: Sequence[float | JudgeError | None]
) -> tuple[ReviewCase, ...]:
    if not measured:
        return tuple(cases)
    return tuple(_with_difficulty(case, one) for case, one in zip(cases, measured, strict=True))


def _with_difficulty(case: ReviewCase, difficulty: float | JudgeError | None) -> ReviewCase:
    if not isinstance(difficulty, float) or difficulty == NOT_MEASURED:
        return case
    doubts = (*case.check, HARD) if difficulty == 1.0 else case.check
    return replace(case, difficulty=difficulty, check=doubts)


def _draft_job(plan: GenerationPlan, order: Order) -> Callable[[], Coroutine[Any, Any, list[Draft]]]:
    return partial(
        write_drafts, plan.writer, order.passage, order.categories, plan.categories, sample=order.sample
    )


def _difficulty_job(
    plan: GenerationPlan, case: ReviewCase, passage: Passage
) -> Callable[[], Coroutine[Any, Any, float]]:
    async def measure() -> float:
        if plan.weak is None or case.expected is None:
            return NOT_MEASURED
        return await measure_difficulty(case, passage.text, plan.weak, plan.judge)

    return measure
