"""`Jury`: several judges for one verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import pstdev
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from dokimos._core.results import UNAVAILABLE, ErrorKind, Score, worst_kind
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import error_text, pluralize
from dokimos.errors import (
    ConfigurationError,
    DokimosError,
    EndpointDownError,
    JudgeError,
    JudgeReplyError,
    RunError,
)
from dokimos.evaluators import registry
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._llm.base import AGGREGATES, JudgedEvaluator, aggregate_scores
from dokimos.evaluators._llm.g_eval import with_logprobs
from dokimos.evaluators._llm.llm_judge import LLMJudge
from dokimos.evaluators._setting_checks import check_option, check_whole, is_list
from dokimos.judges._protocol import (
    JsonSchemaDict,
    JudgeLike,
    JudgeLM,
    JudgeReply,
    as_judge,
    identity_of,
)
from dokimos.judges._shapes import AsGiven

Template: TypeAlias = JudgedEvaluator | str | Mapping[str, Mapping[str, Any]] | None

_TEMPLATE_SCHEMA: Final = {
    "oneOf": [{"type": "string"}, {"type": "object", "maxProperties": 1}, {"type": "null"}]
}


@dataclass(frozen=True, slots=True)
class Vote:
    """What one judge said: a score, or an error."""

    judge: str
    score: Score | None = None
    error: str | None = None
    error_kind: ErrorKind | None = None
    cause: Exception | None = field(default=None, repr=False, compare=False)
    """What a judge raised that is a function of the user's."""


@dataclass(frozen=True, slots=True)
class _Seat:
    """A judge that sits more than once: each seat asks on its own."""

    judge: JudgeLM
    number: int

    @property
    def identity(self) -> str:
        return f"{identity_of(self.judge)}#{self.number}"

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        return await self.judge.complete(prompt, schema=schema)

    def with_logprobs(self, top: int) -> _Seat:
        """Seat the judge so that it reports token probabilities, where it can."""
        return replace(self, judge=with_logprobs(self.judge, top))


@dataclass(frozen=True, kw_only=True)
class Jury(Evaluator):
    """Asks several judges and joins their scores; how far they disagree is in the metadata.

    They are asked by criteria, or by any judged evaluator. `majority` gives 1 or 0, by what more than half of
    the judges decide at the threshold; half is not a majority. As many calls as the judges' evaluators make.

    Example:
        >>> strict, mild = (lambda prompt: '{"score": 0.4}'), (lambda prompt: '{"score": 0.8}')
        >>> jury = Jury(judges=[strict, mild], criteria="The answer helps.", aggregate="mean")
        >>> round(jury.evaluate(EvalTestCase.of("Hello?", "Hi!")).score, 3)
        0.6
    """

    method_source = 'Verga et al., "Replacing Judges with Juries" (2024).'
    judge_calls = "judges * evaluator"
    deterministic = False

    looks_for: ClassVar[tuple[str, ...]] = ("input", "actual_output")

    judges: Annotated[Sequence[JudgeLike], AsGiven()] = field(
        metadata={"json_schema": {"type": "array", "items": {"type": "string"}, "minItems": 1}}
    )
    """Whom to ask: models, `JudgeLM`s or functions of the prompt. The same one may sit more than once."""
    criteria: str = ""
    """What makes a good output, as for `llm_judge`. Give this or an evaluator."""
    evaluator: Annotated[Template, AsGiven()] = field(
        default=None, metadata={"json_schema": _TEMPLATE_SCHEMA}
    )
    """What each judge does: the name of a judged evaluator, {NAME: {parameters}}, or in code an evaluator."""
    aggregate: Literal["mean", "majority", "median"] = "mean"
    """How the scores become one."""
    quorum: int | None = None
    """How many judges must give a score; unless given, all of them, or the result is an error."""
    threshold: float | None = None
    """That of the judges' evaluator unless given."""

    async def score(self, case: EvalTestCase) -> Score:
        votes = await asyncio.gather(*(_vote(juror, case) for juror in self._jurors))
        scores = [vote.score for vote in votes if vote.score is not None]
        if len(scores) < (len(votes) if self.quorum is None else self.quorum):
            raise _too_few(votes, self.quorum) from next((vote.cause for vote in votes if vote.cause), None)
        return self._aggregate_votes(votes, scores)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, "aggregate", self.aggregate, AGGREGATES)
        object.__setattr__(self, "judges", _seat_judges(self.name, self.judges))
        if self.quorum is not None:
            check_whole(self, "quorum", self.quorum, least=1)
            if self.quorum > len(self.judges):
                raise ConfigurationError(
                    f"{self.name}: quorum {self.quorum} is more than the {len(self.judges)} judges."
                )
        pattern = self._jurors[0]
        object.__setattr__(self, "requires", tuple(pattern.evaluation_params or pattern.requires))
        object.__setattr__(self, "lower_is_better", pattern.lower_is_better)
        object.__setattr__(self, "own_range", pattern.custom_range())
        if self.threshold is None:
            object.__setattr__(self, "threshold", pattern.threshold)

    def default_parts(self) -> tuple[str, ...]:
        return self._jurors[0].default_parts()

    @cached_property
    def _jurors(self) -> tuple[JudgedEvaluator, ...]:
        return tuple(self._juror(judge) for judge in self.judges)

    def _juror(self, judge: JudgeLike) -> JudgedEvaluator:
        juror = self._build_juror(judge)
        if self.evaluation_params is None:
            return juror
        return replace(juror, evaluation_params=self.evaluation_params)

    def _build_juror(self, judge: JudgeLike) -> JudgedEvaluator:
        template = self.evaluator
        if (template is None) == (not self.criteria):
            raise ConfigurationError(f"{self.name} needs either criteria or an evaluator.")
        if template is None:
            return LLMJudge(criteria=self.criteria, judge=judge)
        if isinstance(template, JudgedEvaluator):
            return replace(template, judge=judge)
        return _build_from_registry(self.name, template, judge)

    def _aggregate_votes(self, votes: Sequence[Vote], scores: Sequence[Score]) -> Score:
        values = [score.value for score in scores]
        value = aggregate_scores(
            values, self.aggregate, threshold=self.threshold, lower_is_better=self.lower_is_better
        )
        nearest = min(scores, key=lambda score: abs(score.value - value))
        metadata: dict[str, Any] = {
            "jurors": [_vote_metadata(vote) for vote in votes],
            "disagreement": max(values) - min(values),
            "stdDev": pstdev(values),
        }
        return Score(value, self._reason(values, len(votes), nearest.reason), metadata=metadata)

    def _reason(self, values: Sequence[float], seats: int, nearest_reason: str) -> str:
        scores = ", ".join(f"{value:.2f}" for value in values)
        missing = f" ({pluralize(seats - len(values), 'judge')} gave none)" if len(values) < seats else ""
        count = pluralize(len(values), "score")
        return f"The {self.aggregate} of {count}: {scores}{missing}. {nearest_reason}".strip()


async def _vote(juror: JudgedEvaluator, case: EvalTestCase) -> Vote:
    name = identity_of(juror.lm)
    try:
        return Vote(name, await juror.score(case))
    except RunError:
        raise  # the budget of the run is spent: no juror's fault
    except Exception as error:  # a judge may be anybody's function
        kind = error.kind if isinstance(error, JudgeReplyError | EndpointDownError) else None
        cause = None if isinstance(error, DokimosError) else error
        return Vote(name, error=error_text(error), error_kind=kind, cause=cause)


def _vote_metadata(vote: Vote) -> dict[str, Any]:
    if vote.score is None:
        kind = {} if vote.error_kind is None else {"errorKind": vote.error_kind}
        return {"judge": vote.judge, "error": vote.error, **kind}
    return {"judge": vote.judge, "score": vote.score.value, "reason": vote.score.reason}


def _too_few(votes: Sequence[Vote], quorum: int | None) -> JudgeError:
    """Return the error of a jury; replies that could not be used make it as hard as one of them alone."""
    errors = "; ".join(f"{vote.judge}: {vote.error}" for vote in votes if vote.error)
    requirement = "all are needed unless a quorum is given" if quorum is None else f"the quorum is {quorum}"
    scored = sum(vote.error is None for vote in votes)
    message = f"{scored} of {pluralize(len(votes), 'judge')} gave a score, and {requirement}. {errors}"
    kind = worst_kind(vote.error_kind for vote in votes)
    if kind == UNAVAILABLE:
        return EndpointDownError(message)
    return JudgeError(message) if kind is None else JudgeReplyError(message, kind=kind)


def _seat_judges(owner: str, judges: Sequence[JudgeLike]) -> tuple[JudgeLM, ...]:
    """Return the judges, ready to be asked; each seat of the same judge has an identity of its own."""
    if not is_list(judges) or not judges:
        raise ConfigurationError(f"{owner}: judges must be a list of at least one judge, not {judges!r:.80}.")
    seen: dict[str, int] = {}
    seated: list[JudgeLM] = []
    for judge_like in judges:
        judge = as_judge(judge_like)
        # Replies are stored by identity: two seats of one judge must not share a reply.
        number = seen[identity_of(judge)] = seen.get(identity_of(judge), 0) + 1
        seated.append(judge if number == 1 else _Seat(judge, number))
    return tuple(seated)


def _build_from_registry(owner: str, template: object, judge: JudgeLike) -> JudgedEvaluator:
    name: Any = template
    params: Any = {}
    if isinstance(template, Mapping) and len(template) == 1:
        ((name, params),) = template.items()
    if not isinstance(name, str) or not isinstance(params or {}, Mapping):
        raise ConfigurationError(
            f"{owner}: evaluator must be a name or {{NAME: {{parameters}}}}, not {template!r:.80}."
        )
    if not issubclass(registry.find(name), JudgedEvaluator):
        raise ConfigurationError(f"{owner}: {name} does not ask a judge, so a jury cannot use it.")
    built = registry.build(name, {**(params or {}), "judge": judge}, where=f"{owner}.evaluator")
    assert isinstance(built, JudgedEvaluator)
    return built
