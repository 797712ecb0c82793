"""The redaction rules of projects, applied to what comes in, and how often each has replaced something."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, func, select

from dokimos.errors import TraceError
from dokimos.server._db.clock import now
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import TRACE_REDACTIONS
from dokimos.server._redaction_rules import RedactionRule, parse_rules
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import ForbiddenError
from dokimos.server._services.projects.project_settings import change_settings
from dokimos.server._services.projects.projects import find_project
from dokimos.server._services.traces.redaction import RedactionError, Redactor, make_redactor
from dokimos.traces._log_records import SentLog
from dokimos.traces._otlp_records import RecordOrigin, SpanRecord

if TYPE_CHECKING:
    from dokimos.server._services.traces.placements import Placement

TOO_SLOW: Final = "texts that the redaction rules take too long for"
UNREADABLE: Final = "content that the redaction rules cannot look into"
"""Such as values that are nested deeper than protobuf reads."""
_MOST_FAILURES: Final = 3
"""Spans of one export for which the rules may take too long, before the others are rejected at once."""
_MOST_TOGETHER: Final = 64
_MOST_BYTES_TOGETHER: Final = 256 * 1024
"""Which take twenty rules about a fifth of a second."""
_SHARDS: Final = 16
_SETTING: Final = "redaction_rules"
RuleCounts = Mapping[tuple[str, str], int]
"""By the id of a project (empty for none) and the name of a rule."""


def rules_of(project: Row[Any]) -> tuple[RedactionRule, ...]:
    """Return the rules of a project's own."""
    if project.settings is None or _SETTING not in project.settings:
        return ()
    return parse_rules(json.loads(project.settings).get(_SETTING, []))


def set_rules(
    connection: Connection, principal: Principal, name: str, rules: Sequence[RedactionRule]
) -> None:
    """Set the rules of a project; they count for what comes from then on.

    Raises:
        NotFoundError: There is no project of that name.
        ForbiddenError: The caller is not an ADMIN of it, or it is shared with other tenants.
    """
    project = find_project(connection, principal, name)
    principal.check_role(project.id, Role.ADMIN)
    if principal.is_restricted and project.tenant_id is None:
        raise ForbiddenError(
            f"The project '{name}' is shared and may get traces of other tenants: only a key without a "
            "tenant sets what is replaced in them."
        )
    stored = [rule.describe() for rule in rules]
    change_settings(connection, principal, name, {_SETTING: stored or None})


class Redactions:
    """Applies the rules of placements to the spans or logs of one export."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._failures = 0
        self._origins: set[tuple[str | None, RecordOrigin]] = set()
        """Those whose replacements were counted, each with the project that it was for."""

    def redact_spans(self, records: Sequence[SpanRecord], placement: Placement) -> Iterator[SpanRecord | str]:
        """Yield each span as it may be stored, or why it may not."""
        redactor = make_redactor(placement.redaction)
        if redactor is None:
            yield from records
            return
        for chunk in _chunk(records):
            # Together, since each call of the process that replaces costs as much as the rules of a span.
            is_together = len(chunk) > 1 and not redactor.is_slow
            redacted = self._redact_together(redactor, chunk, placement) if is_together else None
            if redacted is None:
                yield from (self._redact_span(redactor, record, placement) for record in chunk)
            else:
                yield from redacted

    def _redact_together(
        self, redactor: Redactor, records: Sequence[SpanRecord], placement: Placement
    ) -> list[SpanRecord] | None:
        """Return spans as they may be stored; None where that is not true of each."""
        counts: Counter[str] = Counter()
        try:
            redacted = redactor.redact_spans(records, counts)
            for record in records:
                self._count_origin(redactor, record.origin, placement)
        except (RedactionError, TraceError):
            return None
        self._count(placement, counts)
        return redacted

    def _redact_span(self, redactor: Redactor, record: SpanRecord, placement: Placement) -> SpanRecord | str:
        counts: Counter[str] = Counter()
        try:
            self._check_failures()
            redacted = redactor.redact_span(record, counts)
            self._count_origin(redactor, record.origin, placement)
        except RedactionError:
            self._failures += 1
            return TOO_SLOW
        except TraceError:
            return UNREADABLE
        self._count(placement, counts)
        return redacted

    def redact_log(self, log: SentLog, placement: Placement | str) -> SentLog | str:
        """Return a log record as it may be stored, or why it may not."""
        redactor = None if isinstance(placement, str) else make_redactor(placement.redaction)
        if redactor is None or isinstance(placement, str):
            return log
        counts: Counter[str] = Counter()
        try:
            self._check_failures()
            redacted = redactor.redact_log(log, counts)
            self._count_origin(redactor, log.origin, placement)
        except RedactionError:
            self._failures += 1
            return TOO_SLOW
        except TraceError:
            return UNREADABLE
        self._count(placement, counts)
        return redacted

    def _check_failures(self) -> None:
        if self._failures >= _MOST_FAILURES:
            raise RedactionError("too many spans took too long")

    def _count_origin(self, redactor: Redactor, origin: RecordOrigin, placement: Placement) -> None:
        """Count what was replaced in a resource and scope: once, however many spans share them."""
        key = (placement.project, origin)
        if key not in self._origins:
            self._origins.add(key)
            self._count(placement, redactor.count_in_origin(origin))

    def _count(self, placement: Placement, counts: Mapping[str, int]) -> None:
        for rule, number in counts.items():
            if number:
                self.counts[placement.project or "", rule] += number


def _chunk(records: Sequence[SpanRecord]) -> Iterator[list[SpanRecord]]:
    """Yield spans in lists that are short enough for the time that the rules of one may take."""
    chunk: list[SpanRecord] = []
    size = 0
    for record in records:
        if chunk and (len(chunk) == _MOST_TOGETHER or size + len(record.body) > _MOST_BYTES_TOGETHER):
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += len(record.body)
    if chunk:
        yield chunk


def count_redactions(connection: Connection, counts: RuleCounts) -> None:
    """Add to how often rules have replaced something."""
    shard = os.getpid() % _SHARDS
    for (project, rule), number in sorted(counts.items()):
        insert = INSERTS[connection.dialect.name](TRACE_REDACTIONS).values(
            project_key=project, rule=rule, shard=shard, replaced_count=number, changed_at=now()
        )
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=list(TRACE_REDACTIONS.primary_key),
                set_={
                    "replaced_count": TRACE_REDACTIONS.c.replaced_count + insert.excluded.replaced_count,
                    "changed_at": insert.excluded.changed_at,
                },
            )
        )


def read_redactions(connection: Connection, project_id: str) -> dict[str, int]:
    """Return how often each rule has replaced something in the spans of a project, by its name."""
    columns = TRACE_REDACTIONS.c
    query = (
        select(columns.rule, func.sum(columns.replaced_count))
        .where(columns.project_key == project_id)
        .group_by(columns.rule)
    )
    return {rule: int(count) for rule, count in connection.execute(query)}
