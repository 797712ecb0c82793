"""Rescoring lets others use the event loop, however many items quick evaluators score."""

import asyncio

from dokimos import Example, ExperimentResult, ItemResult, RunResult
from dokimos.evaluators import ExactMatch
from dokimos.experiment._rescoring import rescore_async


async def test_quick_evaluators_do_not_keep_the_event_loop_for_themselves():
    items = tuple(ItemResult(n, Example.of("q", "a"), actual_outputs={"output": "a"}) for n in range(200))
    result = ExperimentResult(name="large", runs=(RunResult(item_results=items),))
    rescoring = asyncio.create_task(rescore_async(result, [ExactMatch()], parallelism=1))
    turns = 0
    while not rescoring.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await rescoring).pass_rate == 1.0
    assert turns > 100
