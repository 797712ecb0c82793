"""Ports for servers of tests that have to be told one before they start, and may start again on it."""

import contextlib
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_ENOUGH = 1000
"""Ports to draw from."""


def find_port():
    """A port of this machine on which nobody listens.

    It is below those that the system gives to whoever asks for any, such as each client and each server of
    the tests beside this one: of those, one that is free now may be taken before a server has started. Where
    the system gives nearly all of them, it is any that is free now.
    """
    first_given = 32_001
    with contextlib.suppress(OSError, ValueError):
        first_given = min(first_given, int(_RANGE.read_text().split()[0]))
    draw = random.SystemRandom()  # each process of tests seeds the usual one alike
    for _ in range(1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = draw.randrange(_LOWEST, first_given) if first_given - _LOWEST >= _ENOUGH else 0
            probe.bind(("127.0.0.1", port))
            return probe.getsockname()[1]
    raise AssertionError("no port is free")
