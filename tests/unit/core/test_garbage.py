"""What holding back the collection of garbage does, and what it leaves alone."""

import gc

import pytest

from dokimos.core.garbage import collection_held_back


@pytest.fixture(autouse=True)
def _as_it_was():
    was_on = gc.isenabled()
    gc.enable()
    yield
    gc.unfreeze()
    (gc.enable if was_on else gc.disable)()


def test_nothing_is_collected_until_the_end():
    with collection_held_back():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(KeyError), collection_held_back():
        raise KeyError("x")
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_old_and_still_collected():
    with collection_held_back():
        made = [object()]
    assert any(each is made for each in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0


def test_a_process_without_collection_stays_without():
    gc.disable()
    with collection_held_back():
        pass
    assert not gc.isenabled()


def test_the_first_of_several_to_end_lets_it_go_on():
    first, second = collection_held_back(), collection_held_back()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    with collection_held_back():
        pass
    assert gc.get_freeze_count() > 0
