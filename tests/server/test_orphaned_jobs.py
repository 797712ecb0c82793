"""The results of a deleted rule go with it, whenever it is deleted."""

from contextlib import asynccontextmanager

import pytest

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._workers import online_matching
from dokimos.server._workers.online_matching import OnlineMatching


class EmptyDatabase:
    """One without anything, of which only the functions that query it know."""

    async def read(self, query, lane):
        return query(None)

    async def write(self, change):
        return change(None)

    @asynccontextmanager
    async def claim(self, name):
        yield True


@pytest.fixture
def rules(monkeypatch):
    """What is asked about rules: those that are missing, at each look, and those whose jobs were removed."""
    rules = {"missing": [], "removed": []}

    def remove(connection, rule_id, most):
        rules["removed"].append(rule_id)
        return 0

    monkeypatch.setattr(online_matching, "list_rules_with_jobs", lambda connection: ["rule"])
    monkeypatch.setattr(
        online_matching, "find_missing", lambda connection, rule_ids: rules["missing"].pop(0)()
    )
    monkeypatch.setattr(online_matching, "remove_jobs_of_rule", remove)
    monkeypatch.setattr(online_matching, "next_back_fill", lambda connection: None)
    for name in ("find_due_traces", "find_quiet_traces"):
        monkeypatch.setattr(online_matching, name, lambda connection, **options: [])
    return rules


@pytest.fixture
def matching():
    return OnlineMatching(EmptyDatabase(), EmptyDatabase(), OnlineSettings(), lambda: None)


async def test_a_rule_that_is_deleted_while_those_of_others_are_removed_is_found_by_the_next_look(
    rules, matching
):
    def look_too_early():
        matching.wake_for_rules()  # it is deleted now
        return []

    rules["missing"] = [look_too_early, lambda: ["rule"]]

    for _ in range(3):
        await matching.match()

    assert rules == {"missing": [], "removed": ["rule"]}


async def test_a_look_that_failed_is_repeated(rules, matching):
    def fail():
        raise DatabaseUnavailable("away")

    rules["missing"] = [fail, lambda: ["rule"]]

    with pytest.raises(DatabaseUnavailable):
        await matching.match()
    for _ in range(2):
        await matching.match()

    assert rules == {"missing": [], "removed": ["rule"]}
