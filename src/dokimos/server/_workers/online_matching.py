"""The worker that holds rules against the spans that have come in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row

from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.audit.audited_database import CURRENT_WORK
from dokimos.server._services.online.back_fills import next_back_fill, note_progress, try_rule
from dokimos.server._services.online.enabled_rules import (
    EvalRule,
    find_missing,
    make_rule,
    read_enabled_rules,
    read_rule,
)
from dokimos.server._services.online.matched_spans import CLOCK_SLACK, find_due_traces, find_quiet_traces
from dokimos.server._services.online.rule_reviews import raise_reviews
from dokimos.server._services.online.span_matching import (
    TraceMatches,
    find_waited_for,
    match_traces,
    store_matches,
)
from dokimos.server._services.online.trace_jobs import (
    StoredJobs,
    clear_match_due,
    list_rules_with_jobs,
    remove_jobs_of_rule,
    set_quiet_due,
)
from dokimos.server._services.traces.span_pages import batch_traces
from dokimos.server._workers.periodic import is_asked_to_end

_LOGGER: Final = logging.getLogger("dokimos.server")
_TRACES_AT_ONCE: Final = 50
_REMOVED_AT_ONCE: Final = 500


class OnlineMatching:
    """Makes jobs of the spans that rules match; one server at a time, of all that share the traces."""

    def __init__(
        self,
        database: Database,
        traces: Database,
        settings: OnlineSettings,
        score_soon: Callable[[], None],
    ) -> None:
        self._database = database
        self._traces = traces
        self._settings = settings
        self._score_soon = score_soon
        """Tells this server's scorer that there are new jobs."""
        self._wake = asyncio.Event()
        self._is_clean = False
        """Whether no job is left of a rule that was removed."""

    def wake_for_spans(self) -> None:
        """Look at once: spans have come."""
        self._wake.set()

    def wake_for_rules(self) -> None:
        """Look at once: rules have changed, or are gone."""
        self._is_clean = False
        self._wake.set()

    async def run(self) -> None:
        """Match what comes, again and again, until cancelled."""
        CURRENT_WORK.set("Matching traces")
        while not is_asked_to_end():
            self._wake.clear()
            try:
                has_more = await self.match()
            except (DatabaseUnavailable, ReadTooSlow) as error:
                _LOGGER.warning("Matching traces waits: the database is not available: %s", error)
                has_more = False
            except Exception:
                _LOGGER.exception("Matching traces failed; it is tried again")
                has_more = False
            if not has_more and not is_asked_to_end():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._settings.poll_seconds)

    async def match(self) -> bool:
        """Match some traces that are due; say whether there were any."""
        # What two servers did at once would be done once, and cost twice.
        async with self._traces.claim("matching traces") as is_ours:
            if not is_ours:
                return False
            if not self._is_clean:
                await self._remove_orphans()
            count = await self._match_due() + await self._match_quiet() + await self._back_fill()
        if count:
            self._score_soon()
        return count > 0

    async def _match_due(self) -> int:
        """Hold rules against new spans, those that wait excepted."""
        due = await self._traces.read(partial(find_due_traces, most=_TRACES_AT_ONCE), Lane.WORK)
        rules = await self._read_rules(due)
        for batch in batch_traces(due):
            match = partial(match_traces, traces=batch, rules=rules, only_new=True)
            matched = await self._traces.read(match, Lane.WORK)
            look = partial(find_waited_for, traces=batch, rules=rules)
            waited_for = await self._traces.read(look, Lane.WORK)
            for matches in matched:
                waits = matches.trace.id in waited_for
                store = partial(self._store_new, matches=matches, waits=waits)
                await self._raise_reviews(await self._traces.write(store))
        return len(due)

    def _store_new(self, connection: Connection, matches: TraceMatches, waits: bool) -> StoredJobs:
        quiet_at = now() + int(self._settings.quiet_seconds * SECOND) if waits else None
        stored = store_matches(connection, [matches])
        clear_match_due(connection, matches.trace, quiet_at)
        return stored

    async def _raise_reviews(self, stored: StoredJobs) -> None:
        """Raise the probabilities in the review queue of what has a higher one now, which is seldom."""
        if stored.raised:
            await self._database.write(partial(raise_reviews, jobs=stored.raised))

    async def _match_quiet(self) -> int:
        """Hold the rules that wait against traces for which nothing more has come."""
        wait = int(self._settings.quiet_seconds * SECOND)
        find = partial(find_quiet_traces, most=_TRACES_AT_ONCE, quiet=wait)
        quiet = await self._traces.read(find, Lane.WORK)
        waiting = [rule for rule in await self._read_rules(quiet) if rule.waits]
        still = []
        for trace in quiet:
            later, moment = trace.updated_at + wait, now()
            # One from the future, before the clock was set back, would not be quiet for as long.
            if moment < later <= moment + wait + CLOCK_SLACK:
                await self._traces.write(partial(set_quiet_due, trace=trace, quiet_due_at=later))
            else:
                still.append(trace)
        for batch in batch_traces(still):
            match = partial(match_traces, traces=batch, rules=waiting)
            for matches in await self._traces.read(match, Lane.WORK):
                await self._raise_reviews(await self._traces.write(partial(_store_quiet, matches=matches)))
        return len(quiet)

    async def _back_fill(self) -> int:
        """Hold a rule against some of the stored traces that it is to score after all."""
        fill = await self._database.read(next_back_fill, Lane.WORK)
        if fill is None:
            return 0
        row = await self._database.read(partial(read_rule, rule_id=fill.rule_id), Lane.WORK)
        if row is None:
            return 0
        times, rule = (fill.from_at, fill.to_at), make_rule(row)
        step = await self._traces.read(partial(try_rule, rule=rule, times=times, after=fill.after), Lane.WORK)
        stored = await self._traces.write(partial(store_matches, matches=step.matches))
        await self._raise_reviews(stored)
        # After the jobs: what a server that is killed in between did is done again, and adds nothing.
        await self._database.write(
            partial(note_progress, fill_id=fill.id, after=step.last, traces=step.traces, jobs=stored.new)
        )
        return step.traces + step.others

    async def _read_rules(self, traces: Sequence[Row[Any]]) -> Sequence[EvalRule]:
        """Return all enabled rules: a trace may have spans of several projects."""
        return await self._database.read(read_enabled_rules, Lane.WORK) if traces else ()

    async def _remove_orphans(self) -> None:
        """Remove the jobs of rules that are gone."""
        self._is_clean = True  # before it looks: a rule that is deleted meanwhile has it look once more
        try:
            rules = await self._traces.read(list_rules_with_jobs, Lane.WORK)
            missing = await self._database.read(partial(find_missing, rule_ids=rules), Lane.WORK)
            for rule_id in missing:
                remove = partial(remove_jobs_of_rule, rule_id=rule_id, most=_REMOVED_AT_ONCE)
                while await self._traces.write(remove):
                    pass
        except BaseException:
            self._is_clean = False
            raise


def _store_quiet(connection: Connection, matches: TraceMatches) -> StoredJobs:
    stored = store_matches(connection, [matches])
    set_quiet_due(connection, matches.trace, None)
    return stored
