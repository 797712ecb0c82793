"""The numeric axes: what is proposed, once each, also after a search was cut off."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos.optimizer._search_journal import SearchJournal
from dokimos.optimizer._space import STUDY_FILE, NumericSpace
from dokimos.suites._optimizer_schema import NumericAxis

KINDS = [
    NumericAxis(path="kind", type="categorical", range=["a", True, 1, None, ["x"]]),
    NumericAxis(path="top_k", type="int", range=[1, 3]),
]
HEAT = NumericAxis(path="heat", type="float", range=[0, 2])


def proposals(space, count, loss=lambda point: 0.5):
    found = []
    for number in range(1, count + 1):
        proposal = space.propose(number)
        if proposal is None:
            break
        found.append(dict(proposal.point))
        space.tell(proposal, loss(proposal.point))
    return found


def test_every_point_of_a_space_that_can_be_counted_is_proposed_once():
    space = NumericSpace(KINDS, seed=1)
    space.start({"kind": "a", "top_k": 1}, 0.5)

    found = proposals(space, 100)

    assert len(found) == 14
    assert len({repr(point) for point in found}) == 14
    assert {"kind": "a", "top_k": 1} not in found
    assert {repr(point["kind"]) for point in found} == {"'a'", "True", "1", "None", "['x']"}


def test_values_stay_within_their_range_and_are_rounded_to_what_can_be_read():
    found = proposals(NumericSpace([HEAT, KINDS[1]], seed=3), 20)

    assert all(0 <= point["heat"] <= 2 and point["top_k"] in (1, 2, 3) for point in found)
    assert all(len(repr(point["heat"])) <= 5 for point in found)


def test_the_search_goes_to_where_the_loss_is_small():
    space = NumericSpace([HEAT], seed=5)
    space.start({"heat": 2.0}, 1.0)

    found = proposals(space, 40, loss=lambda point: abs(point["heat"] - 0.5))

    late = [abs(point["heat"] - 0.5) for point in found[20:]]
    assert sum(late) / len(late) < 0.3


def test_equal_seeds_propose_the_same_and_others_something_else():
    assert proposals(NumericSpace([HEAT], seed=5), 6) == proposals(NumericSpace([HEAT], seed=5), 6)
    assert proposals(NumericSpace([HEAT], seed=5), 6) != proposals(NumericSpace([HEAT], seed=6), 6)


def test_a_current_value_out_of_range_is_no_obstacle():
    space = NumericSpace([HEAT], seed=5)
    space.start({"heat": 7}, 0.5)
    space.start({"heat": None}, 0.5)

    assert len(proposals(space, 3)) == 3


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 12), st.integers(0, 5))
def test_a_search_that_was_cut_off_proposes_what_it_would_have_proposed(tmp_path_factory, cut, seed):
    folder = tmp_path_factory.mktemp("search")

    def course(count):
        journal = SearchJournal(folder)
        space = NumericSpace([HEAT, *KINDS], seed=seed, folder=folder, journal=journal)
        space.start({"heat": 1.0, "kind": "a", "top_k": 1}, 0.5)
        found = proposals(space, count, loss=lambda point: point["heat"] / 2)
        journal.close()
        return found

    uncut = proposals_of_a_new_search(seed)
    course(cut)

    assert course(12) == uncut


def proposals_of_a_new_search(seed):
    space = NumericSpace([HEAT, *KINDS], seed=seed)
    space.start({"heat": 1.0, "kind": "a", "top_k": 1}, 0.5)
    return proposals(space, 12, loss=lambda point: point["heat"] / 2)


def test_the_study_is_kept_in_a_file_that_optuna_reads(tmp_path):
    import optuna

    space = NumericSpace([HEAT], seed=5, folder=tmp_path)
    space.start({"heat": 1.0}, 0.5)
    proposals(space, 3)

    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / STUDY_FILE))
    study = optuna.load_study(study_name="dokimos", storage=optuna.storages.JournalStorage(backend))
    assert next(trial.params["heat"] for trial in study.trials) == 1.0
    assert len([trial for trial in study.trials if trial.value is not None]) == 4


def test_the_lock_of_a_process_that_was_killed_does_not_hold_the_next_one_up(tmp_path):
    (tmp_path / f"{STUDY_FILE}.lock").symlink_to(tmp_path / STUDY_FILE)
    (tmp_path / STUDY_FILE).write_text('{"half a li')

    assert len(proposals(NumericSpace([HEAT], seed=5, folder=tmp_path), 2)) == 2


def test_a_proposal_without_a_result_counts_as_the_worst():
    space = NumericSpace([HEAT], seed=5)
    proposal = space.propose(1)
    space.tell(proposal, None)

    assert [trial.value for trial in space._study.trials] == [1.0]


@pytest.mark.parametrize("gain", [0.1, -0.1])
def test_what_a_new_text_has_gained_is_left_out_of_what_the_study_is_told(gain):
    space = NumericSpace([HEAT], seed=5)
    space.shift(gain)
    space.tell(space.propose(1), 0.4)

    assert space._study.trials[0].value == pytest.approx(0.4 + gain)
