"""Fill the tables of traces as a month of use would, through the store of the server and without HTTP.

Some traces are parsed; each of the others is a copy of one of them with ids and times of its own. They are
stored by the code that stores what exporters send, so that all indexes and hourly counts are as they would
be. The spans as they were sent are those of the original. SQLite alone; no server may run on the folder.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from _trace_exports import TraceMaker

from dokimos.server import ServerSettings
from dokimos.server._db import ids
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.database import open_database, open_trace_database
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.projects.projects import find_or_create_project
from dokimos.server._services.traces import span_store
from dokimos.server._services.traces.new_spans import NewSpan, digest_record
from dokimos.server._services.traces.placements import PlacedSpan, Placement
from dokimos.server._services.traces.span_store import SpanStore
from dokimos.server._workers.trace_rollups import roll_up_days
from dokimos.traces._otlp_records import iterate_records

PROJECTS: Final = tuple(f"project {number}" for number in range(10))
DAYS: Final = 30
_TEMPLATES: Final = 300
_AT_ONCE: Final = 100
"""Traces of one transaction."""


def fill(folder: Path, traces: int) -> int:
    """Store traces, and return how many spans they have."""
    return asyncio.run(_fill(ServerSettings(data_dir=folder), traces))


async def _fill(settings: ServerSettings, traces: int) -> int:
    server, database = open_database(settings), open_trace_database(settings)
    await server.open()
    await database.open()
    spans = 0
    try:
        projects = await server.write(
            lambda connection: [find_or_create_project(connection, SYSTEM, name).id for name in PROJECTS]
        )
        copies, store, started_at = _copies(projects), SpanStore(), now() - DAYS * DAY
        for first in range(0, traces, _AT_ONCE):
            moment = started_at + DAYS * DAY * first // traces
            _set_clock(moment)
            count = min(_AT_ONCE, traces - first)
            part = [
                PlacedSpan(_shift(span, moment * 1000), placement)
                for trace, placement in itertools.islice(copies, count)
                for span in trace
            ]
            store.remember(await database.write(partial(store.store, spans=part)))
            spans += len(part)
        _set_clock(started_at + DAYS * DAY)
        await roll_up_days(database)  # as a server does while it runs
    finally:
        await database.close()
        await server.close()
    return spans


def _set_clock(moment: int) -> None:
    """Let the store hear of spans at a time: the days of traces are of it, and their ids sort by it."""
    for module in (span_store, ids):
        module.now = partial(int, moment)  # type: ignore[attr-defined] # both modules import it


def _copies(projects: list[str]) -> Iterator[tuple[list[NewSpan], Placement]]:
    """Yield copies of some traces for ever, with ids of their own."""
    maker, pick = TraceMaker(seed=7), random.Random(7)
    templates = []
    for _ in range(_TEMPLATES):
        body = maker.make_trace(0x1000000).SerializeToString()
        records = (each for each in iterate_records(body, "protobuf") if not isinstance(each, str))
        templates.append([digest_record(each) for each in records])
    for number in itertools.count():
        trace_id = f"{pick.getrandbits(128):032x}"
        placement = Placement(None, projects[number % len(projects)], retention_days=-1)
        session = f"session {number // 3}"
        yield (
            [
                span._replace(trace_id=trace_id, session_id=session if span.session_id else None)
                for span in templates[pick.randrange(_TEMPLATES)]
            ],
            placement,
        )


def _shift(span: NewSpan, by: int) -> NewSpan:
    return span._replace(start_ns=(span.start_ns or 0) + by, end_ns=(span.end_ns or 0) + by)
