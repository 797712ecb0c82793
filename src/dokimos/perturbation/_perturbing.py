"""Perturbed data sets: the examples, and versions of them whose answers should be the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Unpack

from dokimos._core import checks
from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.perturbation import (
    EXPECTED,
    KIND,
    MARKER,
    ORIGIN,
    ORIGINAL,
    PERTURBATION,
    VARIANT,
    read_perturbation,
)
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError, JudgeError
from dokimos.evaluators._injections import FAMILIES, inject_instruction, make_marker
from dokimos.experiment._model_session import ModelSession
from dokimos.experiment._run_options import CallOptionKeywords, RunOptions
from dokimos.judges._protocol import JudgeLike, JudgeLM, as_judge
from dokimos.perturbation._input_places import TextPlace, find_text
from dokimos.perturbation._kinds import WITHOUT_MODEL, PerturbationKind
from dokimos.perturbation._rewriting import paraphrase, translate
from dokimos.perturbation._text_noise import TEXT_NOISE

_TRIES: Final = 8
_SHORTEST_ANSWER: Final = 4
_LONGEST_ANSWER: Final = 60
_NOT_IN_IDS: Final = re.compile(r"\W+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed:
    """A perturbed data set, and what could not be perturbed.

    Example:
        >>> made = perturb_dataset(Dataset([Example.of("Where is Rome?", "Italy", id="a")]), kinds=["typos"])
        >>> [example.id for example in made.dataset]
        ['a', 'a~typos']
    """

    dataset: Dataset
    made: Mapping[str, int] = field(default_factory=dict)
    """By kind: examples that were made."""
    no_place: Mapping[str, int] = field(default_factory=dict)
    """By kind: examples whose input offers no text that could be changed so."""
    errors: tuple[str, ...] = ()
    """What models could not write: the id, the kind and the reason."""
    not_asked: int = 0
    """Versions that the budget did not allow to ask for."""
    metrics: CallMetrics | None = None
    """What the models cost."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Request:
    """One version of an example that is to be made."""

    example: Example
    place: TextPlace
    kind: PerturbationKind
    variant: str = ""


def perturb_dataset(
    dataset: Dataset,
    *,
    kinds: Iterable[PerturbationKind | str] = WITHOUT_MODEL,
    languages: Sequence[str] = (),
    families: Sequence[str] = tuple(FAMILIES),
    model: JudgeLike | None = None,
    seed: int = 0,
    with_originals: bool = True,
    parallelism: int = 8,
    **keywords: Unpack[CallOptionKeywords],
) -> Perturbed:
    """Return a data set with perturbed versions of its examples.

    A version has the expected outputs of its original. Its metadata says under "perturbation" what the
    origin, the kind and the expected outputs are; of an injection the family and the marker, too. The same
    data and seed give the same versions.

    Args:
        dataset: The examples. One without an id gets its position as one.
        kinds: What is done; all that needs no model unless given.
        languages: Into which languages inputs are translated, such as "German"; implies `language`.
        families: Which families of injections are used, one version for each.
        model: Who writes paraphrases and translations.
        seed: Chooses where typos and the like are.
        with_originals: Whether the examples themselves come first.
        parallelism: Calls of the model at once.
        keywords: `budget`, `cassette`, `cassette_mode` and `cache` of `RunOptions`.

    Raises:
        ConfigurationError: for kinds or families that do not exist, or where a model is missing.

    Example:
        >>> made = perturb_dataset(Dataset([Example.of("Is it open?", "Yes", id="a")]), kinds=["case"])
        >>> made.dataset[1].metadata["perturbation"]["origin"], made.dataset[1].expected_output
        ('a', 'Yes')
    """
    from dokimos._runtime.concurrency import run_sync

    plan = plan_perturbations(
        dataset, kinds=kinds, languages=languages, families=families, model=model, seed=seed
    )
    parallelism = checks.require_positive("parallelism", parallelism)
    making = make_perturbed(
        plan, RunOptions(**keywords), parallelism=parallelism, with_originals=with_originals
    )
    return run_sync(making)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbationPlan:
    """What is to be made of which examples."""

    dataset: Dataset
    examples: tuple[Example, ...]
    requests: tuple[_Request, ...]
    no_place: Mapping[str, int]
    model: JudgeLM | None
    seed: int

    @property
    def model_calls(self) -> int:
        """How often the model is asked, unless replies have to be repaired."""
        return sum(request.kind.needs_model for request in self.requests)


def plan_perturbations(
    dataset: Dataset,
    *,
    kinds: Iterable[PerturbationKind | str] = WITHOUT_MODEL,
    languages: Sequence[str] = (),
    families: Sequence[str] = tuple(FAMILIES),
    model: JudgeLike | None = None,
    seed: int = 0,
) -> PerturbationPlan:
    """Say what is to be made; no model is asked yet. Raises `ConfigurationError`."""
    chosen = _check_kinds(kinds, languages, model)
    unknown = [family for family in families if family not in FAMILIES]
    if unknown or not families:
        raise ConfigurationError(f"Families of injections are {', '.join(FAMILIES)}, not {unknown}.")
    examples = tuple(_with_id(example, index) for index, example in enumerate(dataset))
    missing: Counter[str] = Counter()
    requests = []
    for example in examples:
        if (perturbation_of(example) or {KIND: ORIGINAL})[KIND] != ORIGINAL:
            raise ConfigurationError(
                f"{dataset.name}: example {example.id!r} is a perturbed one already. Perturb the original "
                "data."
            )
        place = find_text(example.inputs)
        for kind in chosen:
            if place is None or (kind in TEXT_NOISE and _draw_noise(place.text, kind, seed, example) is None):
                missing[kind.value] += 1
                continue
            variants = {PerturbationKind.INJECTION: families, PerturbationKind.LANGUAGE: languages}
            requests += [_Request(example, place, kind, one) for one in variants.get(kind, ("",))]
    judge = None if model is None else as_judge(model)
    return PerturbationPlan(
        dataset=dataset, examples=examples, requests=tuple(requests), no_place=missing, model=judge, seed=seed
    )


async def make_perturbed(
    plan: PerturbationPlan,
    options: RunOptions,
    *,
    parallelism: int = 8,
    with_originals: bool = True,
    folder: Path | None = None,
) -> Perturbed:
    """Make what was planned; replies of the model are kept in the folder, where one is given."""
    asked = [request for request in plan.requests if request.kind.needs_model]
    session = ModelSession(options, folder=folder, parallelism=parallelism, seed=plan.seed)
    async with session:
        replies = await session.gather([_job(plan, request) for request in asked])
    written = {id(request): reply for request, reply in zip(asked, replies, strict=True)}
    made: list[tuple[_Request, str]] = []
    errors = []
    for request in plan.requests:
        text = written[id(request)] if request.kind.needs_model else _make_text(plan, request)
        if isinstance(text, JudgeError):
            errors.append(f"{request.example.id}, {request.kind}: {text}")
        elif text is not None:
            made.append((request, text))
    return Perturbed(
        dataset=_join(plan, made, with_originals=with_originals),
        made=Counter(request.kind.value for request, _ in made),
        no_place=dict(plan.no_place),
        errors=tuple(errors),
        not_asked=sum(reply is None for reply in replies),
        metrics=session.metrics,
        warnings=session.warnings(),
    )


def _join(plan: PerturbationPlan, made: Sequence[tuple[_Request, str]], *, with_originals: bool) -> Dataset:
    originals = [_mark_original(example) for example in plan.examples] if with_originals else []
    versions = [_make_version(request, text, plan.seed) for request, text in made]
    name = f"{plan.dataset.name} perturbed"
    return Dataset([*originals, *versions], name=name, description=plan.dataset.description)


def perturbation_of(example: Example) -> Mapping[str, Any] | None:
    """Return what the metadata say of a perturbed example or an original; None of any other."""
    return read_perturbation(example.metadata)


def _check_kinds(
    kinds: Iterable[PerturbationKind | str], languages: Sequence[str], model: JudgeLike | None
) -> list[PerturbationKind]:
    try:
        chosen = list(dict.fromkeys(PerturbationKind(kind) for kind in kinds))
    except ValueError as error:
        raise ConfigurationError(f"{error}; kinds are {', '.join(PerturbationKind)}.") from None
    if languages and PerturbationKind.LANGUAGE not in chosen:
        chosen.append(PerturbationKind.LANGUAGE)
    if PerturbationKind.LANGUAGE in chosen and not languages:
        raise ConfigurationError(
            'Say into which languages inputs are to be translated, such as languages=["German"] '
            "(--language German on the command line)."
        )
    asking = [kind.value for kind in chosen if kind.needs_model]
    if asking and model is None:
        raise ConfigurationError(
            f"{' and '.join(asking)}: a model has to write them. Name one, such as model='openai:gpt-5-mini' "
            "(--model on the command line)."
        )
    if not chosen:
        raise ConfigurationError(f"Name at least one kind: {', '.join(PerturbationKind)}.")
    return chosen


def _with_id(example: Example, index: int) -> Example:
    return example if example.id is not None else replace(example, id=f"item-{index}")


def _job(plan: PerturbationPlan, request: _Request) -> Callable[[], Coroutine[Any, Any, str]]:
    model = plan.model
    if model is None:
        raise ConfigurationError("A model has to write this.")  # the plan was checked
    text, answers = request.place.text, _short_answers(request.example)
    if request.kind is PerturbationKind.LANGUAGE:
        return partial(translate, model, text, request.variant, answers=answers)
    return partial(paraphrase, model, text, answers=answers)


def _short_answers(example: Example) -> list[str]:
    """Return expected answers that a rewritten input cannot hold by chance, as "yes" or "3" could be."""
    answers = (text_form(value) or "" for value in example.expected_outputs.values())
    return [one for one in answers if _SHORTEST_ANSWER <= len(one) <= _LONGEST_ANSWER]


def _make_text(plan: PerturbationPlan, request: _Request) -> str | None:
    text = request.place.text
    if request.kind is PerturbationKind.CONTROL:
        return text
    if request.kind is PerturbationKind.INJECTION:
        return inject_instruction(text, request.variant, _marker_of(request, plan.seed))
    return _draw_noise(text, request.kind, plan.seed, request.example)


def _draw_noise(text: str, kind: PerturbationKind, seed: int, example: Example) -> str | None:
    random = Random(f"{seed}|{example.id}|{kind}")
    for _ in range(_TRIES):
        changed = TEXT_NOISE[kind](text, random)
        if changed is not None and changed != text:
            return changed
    return None


def _marker_of(request: _Request, seed: int) -> str:
    return make_marker(Random(f"{seed}|{request.example.id}|{request.variant}"))


def _mark_original(example: Example) -> Example:
    about = {ORIGIN: example.id, KIND: ORIGINAL}
    return replace(example, metadata={**example.metadata, PERTURBATION: about})


def _make_version(request: _Request, text: str, seed: int) -> Example:
    example = request.example
    about: dict[str, Any] = {
        ORIGIN: example.id,
        KIND: request.kind.value,
        EXPECTED: jsonable(dict(example.expected_outputs)),
    }
    if request.variant:
        about[VARIANT] = request.variant
    if request.kind is PerturbationKind.INJECTION:
        about[MARKER] = _marker_of(request, seed)
    suffix = "-".join(_id_parts(request))
    return replace(
        example,
        id=f"{example.id}~{suffix}",
        inputs=request.place.put(text),
        metadata={**example.metadata, PERTURBATION: about},
        # What was recorded is the answer to the original.
        actual_outputs=None,
        actual_error=None,
        metrics=None,
        dataset_item_id=None,
    )


def _id_parts(request: _Request) -> Iterator[str]:
    yield request.kind.value
    if request.variant:
        yield _NOT_IN_IDS.sub("-", request.variant.lower())
