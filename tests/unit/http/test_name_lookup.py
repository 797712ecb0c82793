"""Names whose name servers answer late, never, or with an error."""

import asyncio
import socket
import subprocess
import sys
import threading

import pytest

from dokimos._http.name_lookup import NameLookup

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]


class Names:
    """A name server that answers once it is allowed to."""

    def __init__(self, monkeypatch, error=None):
        self.asked = []
        self.is_open = threading.Event()
        self.error = error
        monkeypatch.setattr(socket, "getaddrinfo", self.resolve)

    def resolve(self, host, *_, **__):
        self.asked.append(host)
        self.is_open.wait(60)
        if self.error is not None:
            raise self.error
        return FOUND


def ask(lookup, host="hook.example"):
    return asyncio.create_task(lookup.look_up(host, 443, socket.AF_UNSPEC))


def test_those_who_ask_for_one_name_share_a_lookup_and_one_who_leaves_ends_it_for_none(monkeypatch):
    names = Names(monkeypatch)

    async def main():
        lookup = NameLookup(1)
        first, second, third = (ask(lookup) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        names.is_open.set()
        return await asyncio.gather(second, third)

    assert asyncio.run(main()) == [FOUND, FOUND]
    assert names.asked == ["hook.example"]


def test_a_name_is_asked_for_again_after_an_error(monkeypatch):
    names = Names(monkeypatch, socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"))
    names.is_open.set()

    async def main():
        lookup = NameLookup(1)
        with pytest.raises(socket.gaierror, match="Temporary"):
            await ask(lookup)
        names.error = None
        return await ask(lookup)

    assert asyncio.run(main()) == FOUND


def test_too_many_names_at_once_fail_at_once(monkeypatch):
    names = Names(monkeypatch)

    async def main():
        lookup = NameLookup(2)
        hanging = [ask(lookup, f"h{number}.example") for number in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(OSError, match="2 names are being looked up already"):
            await ask(lookup)
        names.is_open.set()
        await asyncio.gather(*hanging)
        return await ask(lookup)

    assert asyncio.run(main()) == FOUND


def test_a_lookup_that_gets_no_thread_fails_and_leaves_its_place(monkeypatch):
    def refuse(_):
        raise RuntimeError("no thread")

    async def main():
        lookup = NameLookup(1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(OSError, match="no thread"):
                    await lookup.look_up("hook.example", 443, 0)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: FOUND)
        return await lookup.look_up("hook.example", 443, 0)

    assert asyncio.run(main()) == FOUND


HANG = """
import asyncio, socket, threading
from dokimos._http.name_lookup import NameLookup
asked = threading.Event()
def resolve(*_, **__):
    asked.set()
    threading.Event().wait()
socket.getaddrinfo = resolve
async def main():
    task = asyncio.create_task(NameLookup(1).look_up("hook.example", 443, 0))
    await asyncio.to_thread(asked.wait)
    task.cancel()
asyncio.run(main())
"""


def test_a_process_ends_though_a_name_server_never_answers():
    assert subprocess.run([sys.executable, "-c", HANG], timeout=60, check=False).returncode == 0
