"""What a worker process prints, without a process: sent in whole lines, and to the file where that fails."""

import io
import itertools
import os
import sys
import threading

import pytest

from dokimos.experiment._worker_messages import decode
from dokimos.experiment._worker_output import SharedConnection, print_output, send_output


class KeepingConnection:
    """Keeps what is sent; it can also be closed."""

    def __init__(self):
        self.sent = []
        self.is_closed = False

    def send_bytes(self, data):
        if self.is_closed:
            raise BrokenPipeError
        kind, *content = decode(data)
        assert kind == "printed"
        self.sent.append(tuple(content))


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Let what this test prints from now on be sent; the files of its streams are `stdout` and `stderr`."""
    streams = {
        name: (tmp_path / name).open("w", encoding="utf-8", errors=errors)
        for name, errors in (("stdout", "strict"), ("stderr", "backslashreplace"))
    }

    def start():
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
            monkeypatch.setattr(sys, f"__{name}__", stream)
        connection = KeepingConnection()
        send_output(connection)
        return connection

    yield start
    monkeypatch.undo()
    for stream in streams.values():
        stream.close()


def test_a_line_is_sent_in_one_piece(start, tmp_path):
    connection = start()
    print("a", 1, "é")
    print("problem", file=sys.stderr)
    assert connection.sent == [("stdout", "a 1 é\n"), ("stderr", "problem\n")]
    assert (tmp_path / "stdout").read_text() == ""


def test_a_long_line_is_sent_in_one_piece(start):
    connection = start()
    print("long" * 50_000)
    assert [text[-1] for _, text in connection.sent] == ["\n"]


def test_a_part_of_a_line_waits_until_it_is_flushed(start):
    connection = start()
    print("50 %", end="")
    assert connection.sent == []
    sys.stdout.flush()
    assert connection.sent == [("stdout", "50 %")]


def test_bytes_are_sent_as_text_and_a_character_is_not_cut(start):
    connection = start()
    first, second = "é\n".encode()[:1], "é\n".encode()[1:]
    for part in (first, second):
        sys.stdout.buffer.write(part)
        sys.stdout.flush()
    assert connection.sent == [("stdout", "é\n")]


def test_what_cannot_be_printed_raises_where_it_is_printed(start):
    connection = start()
    with pytest.raises(UnicodeEncodeError):
        print("\ud800")
    print("\ud800", file=sys.stderr)
    assert connection.sent == [("stderr", "\\ud800\n")]


def test_for_what_wants_a_file_a_stream_is_still_that_of_the_process(start, tmp_path):
    start()
    os.write(sys.stdout.fileno(), b"of a library\n")
    assert (tmp_path / "stdout").read_text() == "of a library\n"
    assert not sys.stdout.isatty()
    assert sys.stdout.name == "<stdout>"


def test_what_is_printed_when_the_process_of_the_run_has_gone_is_not_lost(start, tmp_path):
    connection = start()
    connection.is_closed = True
    print("late")
    assert (tmp_path / "stdout").read_text() == "late\n"


def test_a_copy_of_the_process_sends_nothing(start, tmp_path, monkeypatch):
    connection = start()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    print("from a copy")
    assert connection.sent == []
    assert (tmp_path / "stdout").read_text() == "from a copy\n"


def test_a_stream_that_the_script_has_replaced_stays(monkeypatch):
    own = io.StringIO()
    monkeypatch.setattr(sys, "stdout", own)
    monkeypatch.setattr(sys, "stderr", None)
    send_output(KeepingConnection())
    assert sys.stdout is own
    assert sys.stderr is None


def test_what_prints_while_a_message_is_sent_does_not_get_into_it():
    sent = []

    class CollectingConnection:
        """Sends in two pieces, and between them collects an object that prints."""

        def send_bytes(self, data):
            sent.append(data[:1])
            if data == b"message":
                shared.send_bytes(b"printed")
            sent.append(data[1:])

    shared = SharedConnection(CollectingConnection())
    shared.send_bytes(b"message")
    shared.send_bytes(b"next")
    assert sent == [b"m", b"essage", b"p", b"rinted", b"n", b"ext"]


@pytest.mark.parametrize("step", range(12))
def test_what_prints_between_any_two_steps_of_sending_waits_for_nothing(step):
    sent = []
    steps = itertools.count()
    connection = KeepingConnection()
    connection.send_bytes = sent.append
    shared = SharedConnection(connection)

    def print_at_step(frame, event, arg):
        if frame.f_code is SharedConnection.send_bytes.__code__ and next(steps) == step:
            shared.send_bytes(b"printed")
        return print_at_step

    def send():
        sys.settrace(print_at_step)
        shared.send_bytes(b"message")

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(60)  # it is through at once, or never
    assert not sending.is_alive()
    assert sorted(sent) == [b"message", b"printed"][: 1 + (next(steps) > step)]


def test_a_connection_that_has_failed_once_can_be_used_by_all_threads():
    connection = KeepingConnection()
    connection.is_closed = True
    shared = SharedConnection(connection)
    for _ in range(2):
        with pytest.raises(BrokenPipeError):
            shared.send_bytes(b"")


def test_what_a_worker_printed_is_printed_here(capsys):
    print_output("stdout", "a line\n")
    print_output("stderr", "part of one")
    assert capsys.readouterr() == ("a line\n", "part of one")


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_that_nobody_reads_it_ends_no_run(monkeypatch, stream):
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stdout", stream)
    print_output("stdout", "lost\n")
    assert sys.stdout is stream
