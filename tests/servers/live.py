"""A dokimos server in a thread of the tests, on a free port of this machine."""

import contextlib
import threading

import uvicorn

from dokimos.server import ServerSettings, create_app


@contextlib.contextmanager
def serving(**settings):
    """Start a server with these settings and yield its address."""
    settings = ServerSettings(**{"host": "127.0.0.1", "port": 0, "read_timeout": 600.0, **settings})
    with serving_app(create_app(settings)) as address:
        yield address


@contextlib.contextmanager
def serving_app(app, lifespan="auto"):
    """Serve an application and yield its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, ws="none", lifespan=lifespan)
    server = _Server(config)
    thread = threading.Thread(target=server.run, name="live-server", daemon=True)
    thread.start()
    try:
        assert server.has_started.wait(60), "the server did not start in time"
        assert server.servers, "the server could not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop in time"


class _Server(uvicorn.Server):
    def __init__(self, config):
        super().__init__(config)
        self.has_started = threading.Event()

    async def startup(self, sockets=None):
        try:
            await super().startup(sockets)
        finally:
            self.has_started.set()

    def run(self, sockets=None):
        try:
            super().run(sockets)
        finally:
            self.has_started.set()
