"""Fill the tables of a server as years of use would: projects, experiments, runs, items, scores.

The rows go to the tables directly; over HTTP five million items would take an hour. The store must have its
tables already, and no server may be running on it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from uuid import UUID

PROJECTS: Final = 10
EXPERIMENTS: Final = 10
"""Of each project."""
LARGE_RUN: Final = 100_000
"""Items of the one large run."""
SMALL_RUN: Final = 1000
"""Items of every other run."""
SHORT_RUNS: Final = 1000
"""Runs of one experiment, of ten items each, as a pipeline leaves them."""
SHORT_RUN: Final = 10
METRICS: Final = ("faithfulness", "relevance", "exact match")
_START: Final = 1_700_000_000_000_000
_MINUTE: Final = 60_000_000

Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Filled:
    """What is in the store, for requests to name."""

    project: str = "project 0"
    busy_experiment: UUID = field(default_factory=lambda: UUID(int=0))
    large_run: UUID = field(default_factory=lambda: UUID(int=0))
    small_run: UUID = field(default_factory=lambda: UUID(int=0))
    items: int = 0


class Filling:
    """Makes the rows, a run at a time."""

    def __init__(self, items: int) -> None:
        self.filled = Filled()
        self._wanted = items
        self._ids = 0
        self._random = Random(items)

    def rows(self) -> Iterator[Rows]:
        """Yield rows by table, those that others refer to first."""
        experiments = [
            {"id": self._id(), "project": project, "name": f"experiment {number}"}
            for project in range(PROJECTS)
            for number in range(EXPERIMENTS)
        ]
        sizes = [LARGE_RUN, *[SHORT_RUN] * SHORT_RUNS]
        small = max(1, (self._wanted - sum(sizes)) // SMALL_RUN)
        sizes += [SMALL_RUN] * small
        # The experiment 0 has the large run, 1 the many short ones, all others share the rest.
        homes = [0, *[1] * SHORT_RUNS, *(2 + number % (len(experiments) - 2) for number in range(small))]
        runs = [self._id() for _ in sizes]
        latest = {home: run for home, run in zip(homes, runs, strict=True)}
        yield self._heads(experiments, homes, latest)
        self.filled.busy_experiment = experiments[1]["id"]
        self.filled.large_run, self.filled.small_run = runs[0], runs[-1]
        for number, (run, home, size) in enumerate(zip(runs, homes, sizes, strict=True)):
            for part in range(0, size, SMALL_RUN):
                rows = self._items(run, part, min(SMALL_RUN, size - part), _START + number * _MINUTE)
                if part == 0:
                    rows = self._run(run, experiments[home]["id"], self._project, number, size) | rows
                yield rows
            self.filled.items += size

    def _id(self) -> UUID:
        """A UUID of version 7 in the order in which they are asked for; its end is random, as usual."""
        self._ids += 1
        end = self._random.getrandbits(62)
        return UUID(int=(_START // 1000 + self._ids) << 80 | 7 << 76 | 2 << 62 | end)

    def _heads(self, experiments: list[dict[str, Any]], homes: list[int], latest: dict[int, UUID]) -> Rows:
        projects = [self._id() for _ in range(PROJECTS)]
        self._project = projects[0]
        return {
            "projects": [
                {
                    "id": each,
                    "name": f"project {number}",
                    "created_at": _START + number,
                    "experiment_count": EXPERIMENTS,
                    "run_count": len(homes) // PROJECTS,
                    "last_activity_at": _START,
                }
                for number, each in enumerate(projects)
            ],
            "experiments": [
                {
                    "id": each["id"],
                    "project_id": projects[each["project"]],
                    "name": each["name"],
                    "created_at": _START + number,
                    "run_count": homes.count(number),
                    "latest_run_id": latest.get(number),
                }
                for number, each in enumerate(experiments)
            ],
        }

    def _run(self, run: UUID, experiment: UUID, project: UUID, number: int, size: int) -> Rows:
        started = _START + number * _MINUTE
        return {
            "runs": [
                {
                    "id": run,
                    "experiment_id": experiment,
                    "project_id": project,
                    "status": "SUCCESS",
                    "config": json.dumps({"model": "a model", "temperature": 0.2}),
                    "name": f"run {number}",
                    "git_sha": f"{number:040x}",
                    "git_branch": "main" if number % 3 else f"feature-{number}",
                    "created_by": "system",
                    "started_at": started,
                    "completed_at": started + _MINUTE,
                    "last_activity_at": started + _MINUTE,
                    "idempotency_scope": "",
                    "next_ordinal": size,
                    "item_count": size,
                    "passed_count": size - size // 10,
                    "judged_count": size,
                    "errored_count": 0,
                    **dict.fromkeys(("tokens_in", "tokens_in_count", "tokens_out", "tokens_out_count"), 0),
                    "cost_usd": 0.0,
                    "cost_count": 0,
                    "latency_ms": 12 * size,
                    "latency_count": size,
                }
            ],
            "run_evaluators": [
                {
                    "run_id": run,
                    "name": name,
                    "position": position,
                    "score_count": size,
                    "score_sum": size * 0.75,
                    "success_count": size - size // 10,
                    "nearest": 0.25,
                    "nearest_count": size,
                    "nearest_sum": size * 0.75,
                }
                for position, name in enumerate(METRICS)
            ],
        }

    def _items(self, run: UUID, first: int, count: int, moment: int) -> Rows:
        items, scores = [], []
        for ordinal in range(first, first + count):
            item = self._id()
            passed = ordinal % 10 != 0
            items.append(
                {
                    "id": item,
                    "run_id": run,
                    "ordinal": ordinal,
                    "repetition": 0,
                    "ordinal_assigned": True,
                    "input": f'{{"question":"The capital of country {ordinal}? {"More of it. " * 8}"}}',
                    "expected_output": '{"answer":"Paris"}',
                    "actual_output": f'{{"answer":"{"Paris is the capital. " * 8}"}}',
                    "latency_ms": 12,
                    "passed": passed,
                    "judged": True,
                    "created_at": moment + ordinal,
                }
            )
            for position, name in enumerate(METRICS):
                scores.append(
                    {
                        "item_id": item,
                        "position": position,
                        "evaluator": name,
                        "score": 0.75,
                        "threshold": 0.5,
                        "success": passed or position > 0,
                        "reason": '"The answer names the capital."',
                    }
                )
        return {"items": items, "evaluations": scores}


def fill_sqlite(path: str, items: int) -> Filled:
    """Fill the tables of a SQLite file; return what is there."""
    filling = Filling(items)
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in ("synchronous=OFF", "cache_size=-200000", "foreign_keys=OFF"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("BEGIN")
    for rows in filling.rows():
        for table, records in rows.items():
            names = list(records[0])
            marks = ", ".join("?" * len(names))
            values = [[_bytes(value) for value in record.values()] for record in records]
            connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", values)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return filling.filled


def _bytes(value: object) -> object:
    return value.bytes if isinstance(value, UUID) else value


async def fill_postgres(url: str, items: int) -> Filled:
    """Fill the tables of a PostgreSQL database; return what is there."""
    import asyncpg

    filling = Filling(items)
    connection = await asyncpg.connect(url)
    for rows in filling.rows():
        for table, records in rows.items():
            await connection.copy_records_to_table(
                table, records=[tuple(record.values()) for record in records], columns=list(records[0])
            )
    await connection.execute("ANALYZE")
    await connection.close()
    return filling.filled
