"""Messages of a worker on Ray arrive once and in order, whichever answers are lost on the way."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from dokimos.experiment import _ray_worker
from dokimos.experiment._ray_worker import RayWorker


class SilentWorker(RayWorker):
    """One that says nothing by itself."""

    def _serve(self):
        return


@given(st.lists(st.sampled_from(["send", "flush", "take", "lose the answer"]), max_size=40))
def test_messages_arrive_once_and_in_order_though_answers_are_lost(steps):
    with (
        mock.patch.object(_ray_worker, "TAKE_SECONDS", 0.0),
        mock.patch.object(_ray_worker, "GATHER_SECONDS", 0.0),
    ):
        worker = SilentWorker(None, [], None)
        sent, received = [], []
        for step in [*steps, "take", "take"]:
            if step == "send":
                sent.append(str(len(sent)).encode())
                worker.send_bytes(sent[-1])
            elif step == "flush":
                worker.flush()
            else:
                answer = worker.take(len(received))
                if step == "take":
                    received += answer
        assert received == sent
