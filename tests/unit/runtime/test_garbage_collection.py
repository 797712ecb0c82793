"""What holding back the collection of garbage does, and what it leaves alone."""

import gc

import pytest

from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.runtime.garbage_collection import ALLOCATIONS, CollectingSeldom, pause_gc

USUAL = (500, 11, 12)


@pytest.fixture(autouse=True)
def _as_it_was():
    was_on, threshold = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(*USUAL)
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    (gc.enable if was_on else gc.disable)()


def collections():
    return sum(generation["collections"] for generation in gc.get_stats())


def test_nothing_is_collected_until_the_end():
    gc.collect()  # so that no collection is due already
    before = collections()
    with pause_gc():
        made = [[] for _ in range(10 * USUAL[0])]
        assert collections() == before
    more = [[] for _ in range(10 * USUAL[0])]
    assert collections() > before
    assert len(made) == len(more)


def test_it_goes_on_as_before_after_an_error():
    with pytest.raises(KeyError), pause_gc():
        raise KeyError("x")
    assert gc.get_threshold() == USUAL


def test_what_was_made_meanwhile_is_old_and_still_collected():
    with pause_gc():
        made = [object()]
    assert any(each is made for each in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("inside", [True, False])
def test_who_switches_collection_off_has_it_off(inside):
    if not inside:
        gc.disable()
    with pause_gc():
        gc.disable()
    assert not gc.isenabled()


def test_a_threshold_that_was_set_meanwhile_stays():
    with pause_gc():
        gc.set_threshold(9000, 13, 14)
    assert gc.get_threshold() == (9000, 13, 14)


def test_the_first_of_several_to_end_lets_it_go_on():
    first, second = pause_gc(), pause_gc()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == USUAL
    second.__exit__(None, None, None)
    assert gc.get_threshold() == USUAL


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    with pause_gc():
        pass
    assert gc.get_freeze_count() > 0


def test_a_run_lets_garbage_be_looked_for_less_often():
    seen = []

    def task(example):
        seen.append(gc.get_threshold())
        return "yes"

    Experiment(name="seldom", dataset=Dataset([Example.of("a")]), task=task, evaluators=[ExactMatch()]).run(
        journal=False
    )

    assert seen == [(ALLOCATIONS, *USUAL[1:])]
    assert gc.get_threshold() == USUAL


def test_the_usual_threshold_is_back_when_the_last_of_several_runs_ends():
    seldom = CollectingSeldom()
    with seldom:
        with seldom:
            pass
        assert gc.get_threshold()[0] == ALLOCATIONS
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("first", [0, 50_000])
def test_a_threshold_that_is_higher_or_off_stays(first):
    gc.set_threshold(first, *USUAL[1:])
    with CollectingSeldom():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first


def test_a_threshold_that_is_set_during_a_run_stays():
    with CollectingSeldom():
        gc.set_threshold(1234, 5, 5)
    assert gc.get_threshold() == (1234, 5, 5)
