"""The course of a search, on an application made of numbers."""

import asyncio
import random

import pytest

from dokimos.errors import BudgetExceededError, RunError
from dokimos.optimizer._objective import Measured, Objective
from dokimos.optimizer._search import Search
from dokimos.optimizer._space import NumericSpace
from dokimos.optimizer._trial import Candidate, Rewrite
from dokimos.suites._optimizer_schema import OptimizerBlock

OBJECTIVE = Objective(weights={"score": 1.0}, parts={}, planned={})
HEAT = {"path": "heat", "type": "float", "range": [0, 1]}
START = Candidate(numbers={"heat": 0.9}, texts={"prompt": "text 0", "other": "text 0"})


class FakeBench:
    """Scores candidates by a function; knows what was run."""

    def __init__(self, score, *, cases=20, **measured):
        self.score = score
        self.cases = cases
        self.measured = measured
        self.ran = []
        self.at_once = self.most_at_once = 0

    async def run(self, trial, candidate, split, *, at_once=1):
        self.ran.append((split, trial))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        score = self.score(candidate, split)
        if isinstance(score, Measured):
            return score
        if isinstance(score, Exception):
            raise score
        values = score if isinstance(score, list) else [score] * self.cases
        scores = {f"{split} {number}": {"score": [value]} for number, value in enumerate(values)}
        return Measured(scores=scores, loss=OBJECTIVE.loss(scores), cases=len(scores), **self.measured)


class FakeWriter:
    def __init__(self):
        self.asked = []

    async def rewrite(self, trial, axis, source, attempts, *, at_once=1):
        self.asked.append((trial, axis, source.id, len(attempts)))
        if trial % 4 == 0:
            return Rewrite(error="no JSON")
        return Rewrite(text=f"text {trial}", summary=f"edit {trial}")


def block(numeric=(HEAT,), textual=(), **settings):
    axes = {"numeric": list(numeric), "textual": [{"path": path} for path in textual]}
    return OptimizerBlock.model_validate({"loss": {"score": 1}, "axes": axes, **settings})


def searched(bench, block, writer=None, events=None):
    search = Search(
        block,
        OBJECTIVE,
        bench,
        space=NumericSpace(block.axes.numeric, seed=block.seed) if block.axes.numeric else None,
        writer=writer,
        emit=lambda event, **told: None if events is None else events.append((event, told)),
    )
    return asyncio.run(search.run(START))


def cooler(candidate, split):
    return 0.9 - 0.5 * candidate.numbers["heat"]


def test_what_the_suite_has_is_tried_first_and_never_again():
    bench = FakeBench(cooler)

    found = searched(bench, block())

    assert bench.ran[0] == ("train", 0)
    assert bench.ran.count(("train", 0)) == 1
    points = [trial.candidate.numbers["heat"] for trial in found.trials]
    assert len({0.9, *points}) == len(points) + 1


def test_an_improvement_that_held_out_cases_confirm_is_accepted():
    found = searched(FakeBench(cooler), block())

    assert found.has_improved
    assert found.best.candidate.numbers["heat"] < 0.9
    assert found.best.decision.accepted
    assert found.trials[found.best.id - 1].is_accepted


def test_an_improvement_on_the_training_cases_alone_is_not_accepted():
    bench = FakeBench(lambda candidate, split: cooler(candidate, split) if split == "train" else 0.5)

    found = searched(bench, block())

    assert not found.has_improved
    assert found.stopped == "cycle 0 accepted nothing"
    assert [split for split, _ in bench.ran].count("holdout") == 2


def test_one_candidate_of_a_phase_is_put_to_the_test_and_it_is_the_best_one():
    found = searched(FakeBench(cooler), block(max_cycles=1))

    tested = [trial for trial in found.trials if trial.decision is not None]
    assert [trial.loss for trial in tested] == [min(trial.loss for trial in found.trials)]


def test_held_out_cases_are_not_run_where_no_candidate_is_better():
    bench = FakeBench(lambda candidate, split: 0.5)

    found = searched(bench, block())

    assert {split for split, _ in bench.ran} == {"train"}
    assert len(found.trials) == 5


def test_a_phase_ends_after_its_trials_or_when_patience_is_lost():
    many = searched(FakeBench(lambda c, s: 0.5), block(numeric_phase={"max_trials": 3, "patience": 9}))
    impatient = searched(FakeBench(lambda c, s: 0.5), block(numeric_phase={"max_trials": 9, "patience": 2}))

    assert (len(many.trials), len(impatient.trials)) == (3, 2)


def test_an_improvement_of_no_more_than_min_delta_is_none():
    found = searched(FakeBench(cooler), block(min_delta=0.6))

    assert not found.has_improved
    assert all(trial.decision is None for trial in found.trials)


def test_a_space_without_new_points_ends_the_phase():
    events = []
    axis = {"path": "heat", "type": "categorical", "range": [0.9, 0.1]}

    found = searched(FakeBench(cooler), block([axis], max_cycles=2), events=events)

    reasons = [told["reason"] for event, told in events if event == "phase_completed"]
    assert len(found.trials) == 1
    assert reasons == ["every point was tried"] * 2


def test_a_cycle_has_a_numeric_and_a_textual_phase_and_goes_on_from_what_was_accepted():
    def score(candidate, split):
        return cooler(candidate, split) / 2 + (0.3 if candidate.texts["prompt"] != "text 0" else 0)

    writer = FakeWriter()
    found = searched(FakeBench(score), block(textual=["prompt"], max_cycles=1), writer)

    phases = [trial.phase for trial in found.trials]
    assert phases == sorted(phases)
    assert found.best.phase == "textual"
    assert found.best.candidate.numbers["heat"] < 0.9
    assert found.best.candidate.texts["prompt"] != "text 0"


def test_one_text_is_rewritten_from_the_last_attempt_even_if_that_was_worse():
    writer = FakeWriter()
    searched(
        FakeBench(lambda c, s: 0.5),
        block((), ["prompt"], textual_phase={"max_trials": 6, "patience": 6}),
        writer,
    )

    assert [source for _, _, source, _ in writer.asked] == [0, 1, 2, 3, 3, 5]
    assert [seen for *_, seen in writer.asked] == [0, 1, 2, 3, 3, 3]


def test_several_texts_take_turns_and_start_from_the_best():
    writer = FakeWriter()
    better = {"text 1": 0.3}

    def score(candidate, split):
        return 0.5 + better.get(candidate.texts["prompt"], 0)

    searched(FakeBench(score), block((), ["prompt", "other"], max_cycles=1), writer)

    assert [(axis, source) for _, axis, source, _ in writer.asked] == [
        ("prompt", 0), ("other", 1), ("prompt", 1), ("other", 1)
    ]  # fmt: skip


def test_a_proposal_of_no_use_is_a_trial_that_counts_for_patience():
    class Useless(FakeWriter):
        async def rewrite(self, trial, axis, source, attempts, *, at_once=1):
            return Rewrite(error="no JSON")

    bench = FakeBench(lambda c, s: 0.5)
    found = searched(bench, block((), ["prompt"]), Useless())

    assert [trial.error for trial in found.trials] == ["no JSON"] * 3
    assert bench.ran == [("train", 0)]


def test_a_trial_that_could_not_be_measured_is_told_and_never_preferred():
    def score(candidate, split):
        return Measured(error="down") if candidate.numbers["heat"] < 0.6 else cooler(candidate, split)

    found = searched(FakeBench(score), block(numeric_phase={"max_trials": 10, "patience": 10}))

    assert "down" in [trial.error for trial in found.trials]
    assert found.best.candidate.numbers["heat"] >= 0.6


def test_a_suite_that_cannot_be_measured_as_it_is_ends_the_search():
    with pytest.raises(RunError, match="cannot be measured: down"):
        searched(FakeBench(lambda c, s: Measured(error="down")), block())


@pytest.mark.parametrize(
    ("settings", "measured", "why"),
    [
        ({"max_cost_usd": 0.01}, {"case_cost_usd": 0.02}, "max_cost_usd is 0.01"),
        ({"max_latency_ms": 100}, {"latency_ms": 250.0}, "max_latency_ms is 100"),
    ],
)
def test_a_candidate_over_a_ceiling_is_not_accepted_however_good_it_is(settings, measured, why):
    found = searched(FakeBench(cooler, **measured), block(**settings))

    assert not found.has_improved
    assert all(why in trial.infeasible for trial in found.trials)


def test_a_ceiling_on_a_cost_that_nobody_tells_is_an_error():
    with pytest.raises(RunError, match="the cost of a case is not known"):
        searched(FakeBench(cooler), block(max_cost_usd=1))


def test_a_budget_that_ends_ends_the_search_with_what_was_accepted():
    def score(candidate, split):
        runs.append(split)
        return BudgetExceededError("the budget is used up") if len(runs) > 20 else cooler(candidate, split)

    runs = []
    found = searched(FakeBench(score), block(max_cycles=9, min_delta=0))

    assert found.stopped == "the budget is used up"
    assert found.has_improved


def test_several_trials_run_at_once_and_give_the_same_as_one_after_the_other_would_with_them():
    bench = FakeBench(cooler)

    first = searched(bench, block(parallel_trials=4))
    again = searched(FakeBench(cooler), block(parallel_trials=4))

    assert bench.most_at_once == 4
    assert [trial.candidate for trial in first.trials] == [trial.candidate for trial in again.trials]


def test_without_held_out_cases_the_training_cases_decide():
    bench = FakeBench(cooler)

    found = searched(bench, block(holdout=0))

    assert found.has_improved
    assert {split for split, _ in bench.ran} == {"train"}


def test_the_events_are_told_in_their_order():
    events = []
    searched(
        FakeBench(cooler), block(max_cycles=1, numeric_phase={"max_trials": 2, "patience": 2}), events=events
    )

    assert [event for event, _ in events] == [
        "baseline", "cycle_started", "phase_started", "trial_started", "trial", "trial_started", "trial",
        "phase_completed", "cycle_completed",
    ]  # fmt: skip


def test_the_next_cycle_is_tested_at_the_level_that_was_handed_on():
    found = searched(FakeBench(cooler), block(textual=["prompt"], min_delta=0, max_cycles=3), FakeWriter())

    levels = [trial.decision.level for trial in found.trials if trial.decision is not None]
    assert levels[0] == pytest.approx(0.025)
    assert all(level <= 0.0125 for level in levels[1:])


@pytest.mark.slow
def test_where_nothing_is_better_hardly_any_search_accepts_anything():
    accepted = 0
    for seed in range(40):
        draw = random.Random(seed)

        def by_chance(candidate, split, draw=draw):
            return [float(draw.random() < 0.7) for _ in range(25)]

        settings = block(textual=["prompt"], seed=seed, textual_phase={"max_trials": 3, "patience": 3})
        accepted += searched(FakeBench(by_chance), settings, FakeWriter()).has_improved

    assert accepted <= 6  # of 40, at 5 % each, more are seen once in a hundred times
