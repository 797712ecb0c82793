"""Ports for servers of tests that have to be told one before they start, and may start again on it."""

import contextlib
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def find_port():
    """A port of this machine on which nobody listens.

    It is below those that the system gives to whoever asks for any, such as each client and each server of
    the tests beside this one: of those, one that is free now may be taken before a server has started.
    """
    highest = 32_000
    with contextlib.suppress(OSError, ValueError):
        highest = min(highest, int(_RANGE.read_text().split()[0]) - 1)
    draw = random.SystemRandom()  # each process of tests seeds the usual one alike
    for _ in range(1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = draw.randint(min(10_000, highest), highest)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
