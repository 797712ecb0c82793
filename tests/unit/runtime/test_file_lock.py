"""Locks on files."""

import asyncio
import errno
import os
import sys
import threading

import pytest

from dokimos._runtime.file_lock import (
    NO_LOCKS_HERE,
    hold_exclusively,
    hold_lock,
    hold_lock_async,
    lock_file,
    unlock_file,
)
from dokimos.errors import ConfigurationError
from dokimos.experiment._run_lock import RunLock


def test_a_lock_keeps_others_out_until_it_is_freed(tmp_path):
    path = tmp_path / "lock"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    try:
        lock_file(first, wait=False)
        with pytest.raises(OSError, match=r"unavailable|denied"):
            lock_file(second, wait=False)
        unlock_file(first)
        lock_file(second, wait=False)
    finally:
        os.close(first)
        os.close(second)


def test_threads_take_turns_and_leave_no_file(tmp_path):
    path, inside, most = tmp_path / "lock", [], []

    def work():
        for _ in range(50):
            with hold_lock(path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(most), max(most)) == (200, 1)
    assert sys.platform == "win32" or not path.exists()


def test_tasks_take_turns_and_threads_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr("dokimos._runtime.file_lock.POLL_SECONDS", 0.001)
    path, inside, most = tmp_path / "lock", [], []

    async def work():
        async with hold_lock_async(path):
            inside.append(1)
            await asyncio.sleep(0.001)
            most.append(len(inside))
            inside.pop()

    async def tasks():
        await asyncio.gather(*(work() for _ in range(10)))

    def sync():
        with hold_lock(path):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=sync) for _ in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(tasks())
    for thread in threads:
        thread.join()

    assert (len(most), max(most)) == (14, 1)
    assert sys.platform == "win32" or not path.exists()


def test_what_a_killed_process_left_behind_keeps_nobody_out(tmp_path):
    path = tmp_path / "lock"
    path.touch()

    with hold_lock(path):
        assert path.exists()


def test_the_lock_is_freed_when_the_block_fails(tmp_path):
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), hold_lock(path):
        raise ZeroDivisionError

    with hold_lock(path):
        assert path.exists()


def failing_once_with(code):
    """What locks a file, but the first time fails."""
    errors = [OSError(code, os.strerror(code))]

    def lock(file, *, wait):
        if errors:
            raise errors.pop()
        lock_file(file, wait=wait)

    return lock


async def hold(path):
    async with hold_lock_async(path):
        pass


def test_a_disk_that_fails_is_an_error_and_not_waited_for(tmp_path, monkeypatch):
    for takes_turn in (
        lambda: hold_lock(tmp_path / "lock").__enter__(),
        lambda: asyncio.run(hold(tmp_path / "lock")),
    ):
        monkeypatch.setattr("dokimos._runtime.file_lock.lock_file", failing_once_with(errno.EIO))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            takes_turn()


def test_whoever_has_a_lock_for_long_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("dokimos._runtime.file_lock.lock_file", failing_once_with(errno.EDEADLK))
    with hold_lock(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()


@pytest.mark.parametrize("code", NO_LOCKS_HERE)
def test_a_file_system_without_locks_is_worked_on_without_one(tmp_path, monkeypatch, code):
    monkeypatch.setattr("dokimos._runtime.file_lock.lock_file", failing_once_with(code))
    with hold_lock(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()
    monkeypatch.setattr("dokimos._runtime.file_lock.lock_file", failing_once_with(code))
    RunLock(tmp_path).release()
    monkeypatch.setattr("dokimos._runtime.file_lock.lock_file", failing_once_with(code))
    with hold_exclusively(tmp_path / "replies", error=ConfigurationError):
        assert (tmp_path / "replies").exists()


def test_a_lock_that_is_released_twice_leaves_the_files_of_others_open(tmp_path):
    lock = RunLock(tmp_path)
    lock.release()
    with (tmp_path / "other").open("w") as other:  # which has the descriptor now
        lock.release()
        other.write("written")
    assert (tmp_path / "other").read_text() == "written"


def test_a_file_is_held_by_one_and_free_afterwards(tmp_path):
    path = tmp_path / "replies"
    with hold_exclusively(path, error=ConfigurationError):
        path.write_text("kept")
        with (
            pytest.raises(ConfigurationError, match="Another process is writing to"),
            hold_exclusively(path, error=ConfigurationError),
        ):
            pass
    with hold_exclusively(path, error=ConfigurationError):
        assert path.read_text() == "kept"
