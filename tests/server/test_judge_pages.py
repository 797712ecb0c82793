"""Results of a judge job are stored in pages: a transaction for a few takes as long as one for many."""

import asyncio
import json
from types import SimpleNamespace

from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.judging.judge_results import ItemScore
from dokimos.server._workers import judge_run
from dokimos.server._workers.judge_run import JudgeRun


def score(number):
    return ItemScore(item_id=str(number), score=1.0, threshold=None, success=True)


def test_results_that_come_while_a_page_is_stored_wait_for_a_full_page(monkeypatch):
    monkeypatch.setattr(judge_run, "_FLUSH_SECONDS", 3600)
    evaluator = json.dumps({"type": "exact-match", "params": {}})
    job = SimpleNamespace(id="job", lease="lease", evaluator=evaluator, scored_count=0)
    pages = []

    async def store() -> None:
        run = JudgeRun(None, JudgeSettings(page_size=4), None, job, asyncio.Semaphore(1))

        class Database:
            async def write(self, change):
                pages.append(len(change.keywords["outcomes"]))
                run._outcomes.extend(score(100 * len(pages) + n) for n in range(5 if len(pages) == 1 else 0))
                return job

        run._database = Database()
        run._outcomes.extend(map(score, range(4)))
        run._has_outcomes.set()
        flushing = asyncio.create_task(run._flush_again_and_again())
        while len(pages) < 2:
            await asyncio.sleep(0)
        for _ in range(20):  # as long as it would take to store the last one
            await asyncio.sleep(0)
        assert pages == [4, 4]
        assert len(run._outcomes) == 1
        flushing.cancel()

    asyncio.run(store())
