import gc
import weakref

import pytest

from dokimos._runtime.start_collector import StartCollector


class Node:
    def __init__(self):
        self.itself = self


@pytest.fixture
def collector():
    yield StartCollector()
    gc.enable()
    gc.unfreeze()


def test_a_program_that_uses_the_library_keeps_its_collector(collector):
    frozen = gc.get_freeze_count()

    with collector.pause():
        assert gc.isenabled()
    collector.resume()

    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_a_command_collects_nothing_until_it_resumes(collector):
    with collector.manage():
        assert not gc.isenabled()
        kept = [[] for _ in range(10)]
        collector.resume()

        assert gc.isenabled()
        assert gc.get_freeze_count() > len(kept)
        assert not any(each is kept for each in gc.get_objects())


def test_later_imports_pause_it_again_and_are_left_out_too(collector):
    with collector.manage():
        collector.resume()
        with collector.pause():
            assert not gc.isenabled()
            imported = [[]]

        assert gc.isenabled()
        assert not any(each is imported for each in gc.get_objects())


def test_what_the_run_has_made_is_not_left_out_by_a_second_start_of_the_framework(collector):
    with collector.manage():
        collector.resume()
        with collector.pause():
            pass
        made = [[]]
        with collector.pause():
            assert gc.isenabled()

        assert any(each is made for each in gc.get_objects())


def test_what_ran_between_imports_leaves_no_garbage_that_is_never_collected(collector):
    with collector.manage():
        collector.resume()
        node = Node()
        reference = weakref.ref(node)
        del node
        with collector.pause():
            assert reference() is None


def test_garbage_of_the_run_is_collected(collector):
    with collector.manage():
        collector.resume()
        node = Node()
        reference = weakref.ref(node)
        del node
        gc.collect()

        assert reference() is None


def test_what_runs_while_it_is_enabled_is_not_left_out(collector):
    with collector.manage():
        collector.resume()
        made = [[]]
        collector.resume()

        assert any(each is made for each in gc.get_objects())


def test_the_collector_is_as_before_afterwards(collector):
    @collector.manage()
    def fail():
        collector.resume()
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()

    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_an_import_that_outlives_its_command_leaves_the_collector_enabled(collector):
    with collector.manage():
        importing = collector.pause()
        importing.__enter__()
    importing.__exit__(None, None, None)

    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_collector_that_is_disabled_stays_so(collector):
    gc.disable()

    with collector.manage():
        collector.resume()
        with collector.pause():
            pass
        assert not gc.isenabled()

    assert not gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_module_of_the_user_may_disable_the_collector_for_good(collector):
    with collector.manage():
        collector.before_user_code()
        gc.disable()  # as the module does
        frozen = gc.get_freeze_count()
        collector.resume()
        with collector.pause():
            pass

        assert not gc.isenabled()
        assert gc.get_freeze_count() == frozen

    assert gc.isenabled()
