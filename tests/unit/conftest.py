"""Unit tests reach no network, whatever they call."""

import socket

import pytest


@pytest.fixture(autouse=True)
def _no_connections(monkeypatch):
    def refuse(self, address):
        raise AssertionError(f"a unit test tried to connect to {address!r}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
