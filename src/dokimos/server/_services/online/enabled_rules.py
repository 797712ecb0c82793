"""The rules that hold at the moment, as the workers need them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Connection, Row, exists, select, true

from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_RULES
from dokimos.server._services.online.rule_conditions import (
    AllOf,
    AnyCondition,
    Condition,
    MatchType,
    SpanFacts,
    parse_conditions,
)
from dokimos.server._services.online.rule_sampling import Sampling, parse_sampling

_RULE: Final = TRACE_EVAL_RULES.c


@dataclass(frozen=True, slots=True)
class EvalRule:
    """A rule as it is held against spans."""

    id: str
    project_id: str
    tenant: str | None
    scope: str
    condition: AnyCondition
    sampling: Sampling
    evaluator_name: str
    config: str
    """JSON that its jobs copy: which model is asked, and what."""

    @property
    def waits(self) -> bool:
        """Whether it is held against a trace only when nothing more comes for it."""
        return self.scope != "span"

    @property
    def needs_attributes(self) -> bool:
        """Whether the names of spans are not enough."""
        return self.condition.needs_attributes or self.sampling.needs_attributes

    def concerns(self, project_id: str | None, tenant: str | None) -> bool:
        """Say whether it may score what a tenant sent to a project.

        A rule of a tenant scores what is that tenant's; a shared one, everything in its project.
        """
        return project_id == self.project_id and self.tenant in (None, tenant)

    def matches(self, span: SpanFacts) -> bool:
        """Say whether a span is one of those that it scores."""
        return self.condition.holds(span)


def has_rules(connection: Connection, project_id: str) -> bool:
    """Say whether a project has enabled rules."""
    is_enabled = (_RULE.project_id == project_id, _RULE.enabled.is_(true()))
    return bool(connection.execute(select(exists().where(*is_enabled))).scalar())


def read_enabled_rules(connection: Connection) -> list[EvalRule]:
    """Return the enabled rules of all projects."""
    query = (
        select(TRACE_EVAL_RULES)
        .join(PROJECTS, PROJECTS.c.id == _RULE.project_id)
        .where(_RULE.enabled.is_(true()), PROJECTS.c.deleted_at.is_(None))
        .order_by(_RULE.id)
    )
    return [make_rule(row) for row in connection.execute(query)]


def read_rule(connection: Connection, rule_id: str) -> Row[Any] | None:
    """Return the row of a rule whose project is there; None where it is gone."""
    query = (
        select(TRACE_EVAL_RULES)
        .join(PROJECTS, PROJECTS.c.id == _RULE.project_id)
        .where(_RULE.id == rule_id, PROJECTS.c.deleted_at.is_(None))
    )
    return connection.execute(query).first()


def find_missing(connection: Connection, rule_ids: Sequence[str]) -> list[str]:
    """Return which of some rules are not there any more."""
    query = select(_RULE.id).where(_RULE.id.in_(rule_ids))
    present = set(connection.execute(query).scalars())
    return [rule_id for rule_id in rule_ids if rule_id not in present]


def make_rule(row: Row[Any]) -> EvalRule:
    """Return the rule of a row, or of anything with its columns."""
    condition: AnyCondition = Condition(MatchType(row.match_type), row.match_value, row.match_key)
    if row.conditions is not None:
        condition = AllOf((condition, _parse(row.conditions)))
    sampling = Sampling() if row.sampling is None else parse_sampling(json.loads(row.sampling))
    return EvalRule(
        row.id,
        row.project_id,
        row.tenant_id,
        row.scope,
        condition,
        sampling,
        row.evaluator_name,
        json.dumps(
            {"connectionId": row.connection_id, "evaluator": row.evaluator, "scope": row.scope},
            separators=(",", ":"),
        ),
    )


def config_id(config: str) -> int:
    """Return the id of the row of what jobs copy: a hash, so that finding it needs no query."""
    return int.from_bytes(blake2b(config.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1


@lru_cache(maxsize=512)
def _parse(conditions: str) -> AnyCondition:
    return parse_conditions(json.loads(conditions), "conditions")
