"""Work that goes on until the server stops."""

import asyncio

from dokimos.server._workers.periodic import end_task


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
