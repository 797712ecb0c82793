"""The body of a rule, as what it asks for."""

from __future__ import annotations

from dokimos.server._api.online.rule_schemas import RuleBody
from dokimos.server._db.ids import parse_id
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.judging.judge_evaluators import CriteriaJudge, EvaluatorSpec, rename_params
from dokimos.server._services.online.eval_rules import RuleDraft, RuleScope
from dokimos.server._services.online.review_sampling import parse_review_sampling
from dokimos.server._services.online.rule_conditions import parse_condition, parse_conditions
from dokimos.server._services.online.rule_sampling import parse_sampling

_SHOWN = ("INPUT", "ACTUAL_OUTPUT")
"""What a judge is shown of a span."""


def read_draft(body: RuleBody) -> RuleDraft:
    """Return the rule that a body describes.

    Raises:
        InvalidRequestError: A field is missing, or cannot be used.
    """
    condition = parse_condition(body.match_type, body.match_key, body.match_value)
    if body.conditions is not None:
        parse_conditions(body.conditions, "conditions")
    parse_sampling(body.sampling)
    parse_review_sampling(body.review)
    connection_id = None
    if body.connection_id is not None:
        connection_id = parse_id(body.connection_id)
        if connection_id is None:
            raise InvalidRequestError("must be the id of an LLM connection", field="connectionId")
    budget = None if body.budget is None else body.budget.model_dump(by_alias=True, exclude_none=True)
    return RuleDraft(
        name=body.name,
        enabled=body.enabled,
        condition=condition,
        conditions=body.conditions,
        scope=RuleScope(body.scope),
        connection_id=connection_id,
        evaluator_name=body.evaluator_name,
        spec=_read_spec(body),
        sampling=body.sampling,
        budget=budget or None,
        review=body.review,
    )


def _read_spec(body: RuleBody) -> EvaluatorSpec:
    if body.evaluator is not None:
        if body.criteria is not None or body.threshold is not None:
            raise InvalidRequestError(
                "must be left out beside criteria and threshold; its own are in its params",
                field="evaluator",
            )
        return EvaluatorSpec(type=body.evaluator.type, params=rename_params(body.evaluator.params))
    if body.connection_id is None:
        raise InvalidRequestError("must not be null", field="connectionId")
    if not (body.criteria or "").strip():
        raise InvalidRequestError("must not be blank", field="criteria")
    if not body.min_score < body.max_score:
        raise InvalidRequestError("must be less than maxScore", field="minScore")
    return EvaluatorSpec.of_criteria(
        CriteriaJudge(
            criteria=body.criteria or "",
            evaluation_params=_SHOWN,
            min_score=body.min_score,
            max_score=body.max_score,
            threshold=body.threshold,
        )
    )
