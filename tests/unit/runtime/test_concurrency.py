import asyncio
import contextvars
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from dokimos._runtime.concurrency import DaemonThreads, call_in_thread, post_to_loop, run_sync
from dokimos.judges._run_scope import RunScope, current_scope, enter_scope

PATIENCE = 60.0
"""Seconds for what takes milliseconds, however busy the machine is."""

colour = contextvars.ContextVar("colour", default="none")


async def answer(value=42, seconds=0.0):
    await asyncio.sleep(seconds)
    return value


def run_script(code, *, interrupt_after=None, timeout=PATIENCE):
    """Run a program of its own; with `interrupt_after`, press Ctrl-C that long after it printed "ready"."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            head = ""
            if interrupt_after is not None:
                head = program.stdout.readline()
                time.sleep(interrupt_after)  # by then it waits, which it cannot say
                program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=timeout)
        finally:
            program.kill()
    return program.returncode, head + out, err


def test_a_coroutine_runs_to_its_end():
    assert run_sync(answer(7)) == 7


async def test_it_also_runs_where_a_loop_is_running():
    assert run_sync(answer(7)) == 7
    assert await answer(8) == 8


async def test_a_nested_call_has_a_loop_of_its_own():
    outer = asyncio.get_running_loop()

    async def which():
        return asyncio.get_running_loop()

    assert run_sync(which()) is not outer


def test_several_threads_can_run_at_once():
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(run_sync(answer(n, 0.05)))) for n in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == list(range(8))


def raising(error):
    async def main():
        raise error

    return main()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_what_it_raises_is_raised(error):
    with pytest.raises(type(error)):
        run_sync(raising(error))


async def test_what_it_raises_is_raised_through_a_running_loop():
    with pytest.raises(ValueError, match="no"):
        run_sync(raising(ValueError("no")))


def test_a_coroutine_that_cancels_itself_is_not_taken_for_an_interrupt():
    with pytest.raises(asyncio.CancelledError):
        run_sync(raising(asyncio.CancelledError()))


def test_context_variables_reach_the_coroutine_and_its_threads():
    colour.set("red")

    async def main():
        return colour.get(), await call_in_thread(colour.get)

    assert run_sync(main()) == ("red", "red")


async def test_context_variables_reach_a_nested_call():
    colour.set("green")

    async def main():
        return colour.get()

    assert run_sync(main()) == "green"


async def test_the_run_scope_reaches_threads_and_stays_where_it_was_set():
    async def inside(index):
        enter_scope(RunScope(run_index=index, seed=5))
        return (await call_in_thread(current_scope)).run_index

    assert await asyncio.gather(*(asyncio.create_task(inside(n)) for n in range(3))) == [0, 1, 2]
    assert current_scope() == RunScope(memo=None)


def test_a_task_left_behind_is_cancelled():
    cancelled = []

    async def forever():
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(True)

    async def main():
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        return task

    run_sync(main())

    assert cancelled == [True]


def test_a_task_that_swallows_its_cancellation_does_not_keep_the_program():
    code, out, _ = run_script(
        """
        import asyncio
        from dokimos._runtime.concurrency import run_sync

        async def stubborn():
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

        async def main():
            asyncio.create_task(stubborn())
            await asyncio.sleep(0)
            return "done"

        print(run_sync(main()))
        """
    )

    assert (code, out) == (0, "done\n")


def test_a_hung_thread_does_not_keep_the_program():
    code, out, _ = run_script(
        """
        import asyncio, threading
        from dokimos._runtime.concurrency import call_in_thread, run_sync

        async def main():
            try:
                await asyncio.wait_for(call_in_thread(threading.Event().wait), 0.1)
            except TimeoutError:
                return "abandoned"

        print(run_sync(main()))
        """
    )

    assert (code, out) == (0, "abandoned\n")


def test_a_hung_call_in_the_default_executor_does_not_keep_the_program():
    code, out, _ = run_script(
        """
        import asyncio, threading
        from dokimos._runtime.concurrency import run_sync

        async def main():
            try:
                await asyncio.wait_for(asyncio.to_thread(threading.Event().wait), 0.1)
            except TimeoutError:
                return "abandoned"

        print(run_sync(main()))
        """
    )

    assert (code, out) == (0, "abandoned\n")


INTERRUPTED = """
    import asyncio, time
    from dokimos._runtime.concurrency import call_in_thread, run_sync

    async def main():
        print("ready", flush=True)
        try:
            {body}
        finally:
            print("cleaned up", flush=True)

    {call}
"""
PLAIN = "run_sync(main())"


@pytest.mark.parametrize("body", ["await asyncio.sleep(600)", "await call_in_thread(time.sleep, 600)"])
def test_ctrl_c_cancels_and_lets_it_clean_up(body):
    code, out, err = run_script(INTERRUPTED.format(body=body, call=PLAIN), interrupt_after=0.1)

    assert out == "ready\ncleaned up\n"
    assert "KeyboardInterrupt" in err
    assert code != 0


def test_ctrl_c_reaches_a_call_made_inside_a_running_loop():
    call = """
    async def outer():
        run_sync(main())

    asyncio.run(outer())
    """

    code, out, err = run_script(
        INTERRUPTED.format(body="await asyncio.sleep(600)", call=call.strip()), interrupt_after=0.2
    )

    assert out == "ready\ncleaned up\n"
    assert "KeyboardInterrupt" in err
    assert code != 0


def test_a_loop_in_a_thread_may_make_a_call_while_another_runs_in_the_main_thread():
    code, out, err = run_script(
        """
        import asyncio
        from dokimos._runtime.concurrency import run_sync

        async def in_thread():
            return run_sync(asyncio.sleep(0, "fine"))

        async def main():
            print(await asyncio.to_thread(asyncio.run, in_thread()))

        asyncio.run(main())
        """
    )

    assert (code, out) == (0, "fine\n"), err


def test_a_coroutine_that_handles_the_interrupt_may_still_return():
    code, out, _ = run_script(
        """
        import asyncio
        from dokimos._runtime.concurrency import run_sync

        async def main():
            print("ready", flush=True)
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                return "partial result"

        print(run_sync(main()))
        """,
        interrupt_after=0.1,
    )

    assert (code, out) == (0, "ready\npartial result\n")


def test_the_handler_for_ctrl_c_is_put_back():
    code, out, _ = run_script(
        """
        import asyncio, signal
        from dokimos._runtime.concurrency import run_sync

        run_sync(asyncio.sleep(0))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

        mine = lambda number, frame: None
        signal.signal(signal.SIGINT, mine)
        run_sync(asyncio.sleep(0))
        assert signal.getsignal(signal.SIGINT) is mine
        print("fine")
        """
    )

    assert (code, out) == (0, "fine\n")


async def test_a_call_in_a_thread_does_not_block_the_loop():
    has_ticked = threading.Event()

    async def tick():
        for _ in range(4):
            await asyncio.sleep(0.001)
        has_ticked.set()

    ticking = asyncio.create_task(tick())
    assert await call_in_thread(has_ticked.wait, PATIENCE)
    await ticking


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), asyncio.CancelledError()])
async def test_a_call_in_a_thread_raises_what_the_function_raised(error):
    def fail():
        raise error

    with pytest.raises(type(error)):
        await asyncio.wait_for(call_in_thread(fail), PATIENCE)


async def test_a_stop_iteration_in_a_thread_does_not_hang():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(call_in_thread(next, iter(())), PATIENCE)


def test_an_idle_thread_is_used_again():
    executor = DaemonThreads("again")

    first = executor.submit(threading.get_ident).result(PATIENCE)
    second = executor.submit(threading.get_ident).result(PATIENCE)

    assert first == second
    executor.shutdown()


def test_as_many_threads_as_calls_run_at_once():
    executor = DaemonThreads("many")
    together = threading.Barrier(20, timeout=PATIENCE)

    futures = [executor.submit(together.wait) for _ in range(20)]

    assert sorted(future.result(PATIENCE) for future in futures) == list(range(20))
    executor.shutdown()


def names_alive(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_idle_threads_end_with_their_executor(wait_until):
    executor = DaemonThreads("ending")
    executor.submit(int).result(PATIENCE)
    assert len(names_alive("ending")) == 1

    executor.shutdown()

    wait_until(lambda: not names_alive("ending"))


def test_a_busy_thread_ends_with_its_call_after_its_executor_was_shut_down(wait_until):
    executor = DaemonThreads("busy")
    release = threading.Event()
    future = executor.submit(release.wait)

    executor.shutdown()
    release.set()

    assert future.result(PATIENCE) is True
    wait_until(lambda: not names_alive("busy"))


def test_nothing_can_be_submitted_after_the_shutdown():
    executor = DaemonThreads("closed")
    executor.shutdown()

    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(int)


def test_runs_leave_no_threads_behind(wait_until):
    async def main():
        return await asyncio.to_thread(int)

    before = threading.active_count()
    for _ in range(5):
        run_sync(main())

    wait_until(lambda: threading.active_count() <= before)
    assert threading.active_count() <= before


async def test_what_is_not_urgent_is_called_before_what_is():
    loop = asyncio.get_running_loop()
    called = []
    post_to_loop(loop, lambda: called.append("first"), is_urgent=False)
    for _ in range(10):
        await asyncio.sleep(0)
    assert called == [], "the loop was not woken for it"
    post_to_loop(loop, lambda: called.append("second"))
    while not called:
        await asyncio.sleep(0)
    assert called == ["first", "second"]
