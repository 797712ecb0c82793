"""Work that goes on until the server stops."""

import asyncio

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._workers.leased_work import LeasedWork
from dokimos.server._workers.periodic import end_task, run_periodically


async def test_a_task_that_takes_its_cancellation_for_an_error_is_cancelled_again():
    goes_on = asyncio.Event()
    cancellations = []

    async def work():
        while True:
            try:
                await goes_on.wait()
            except asyncio.CancelledError:
                cancellations.append(len(cancellations))
                if len(cancellations) == 3:
                    raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end_task(task, patience=0.01)

    assert task.cancelled()
    assert cancellations == [0, 1, 2]


class Swallowed:
    """A driver that raises an error of its own in place of the first cancellation."""

    def __init__(self):
        self.is_waiting = asyncio.Event()

    async def wait(self, *arguments):
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise DatabaseUnavailable("the connection was lost") from None


async def ends_after_one_cancellation(task, driver):
    await driver.is_waiting.wait()
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    return task.done()  # else it goes on as if nobody had asked it to end


async def test_work_ends_at_the_first_cancellation_although_an_error_took_its_place():
    driver = Swallowed()
    async with run_periodically("Some work", driver.wait, 3600.0):
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "dokimos Some work")
        assert await ends_after_one_cancellation(task, driver)


async def test_a_worker_under_leases_ends_at_the_first_cancellation_although_an_error_took_its_place():
    driver = Swallowed()
    work = LeasedWork(
        "Jobs",
        begin=driver.wait,
        renew=driver.wait,
        review=driver.wait,
        drain=driver.wait,
        poll_seconds=3600.0,
        lease_seconds=60.0,
    )
    assert await ends_after_one_cancellation(asyncio.create_task(work.run()), driver)
