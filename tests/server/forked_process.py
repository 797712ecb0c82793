"""A process of Python that is forked rather than started, with what tests need of `subprocess.Popen`."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

IS_POSSIBLE = hasattr(os, "fork") and not any(name.startswith("COVERAGE_PROCESS") for name in os.environ)
"""Coverage measures processes that are started."""
_ONE_REQUEST = threading.Lock()


class ForkedProcess:
    """Code that runs in a process in which the server has been imported."""

    def __init__(self, code, *arguments):
        request = {
            "code": code,
            "arguments": arguments,
            "environment": dict(os.environ),
            "folder": os.getcwd(),
        }
        (out, sent_out), (errors, sent_errors), (status, sent_status) = os.pipe(), os.pipe(), os.pipe()
        content = json.dumps(request).encode() + b"\n"
        with _ONE_REQUEST:
            requests = _start_forking()
            sent = socket.send_fds(requests, [content], [sent_out, sent_errors, sent_status])
            requests.sendall(content[sent:])
        for each in (sent_out, sent_errors, sent_status):
            os.close(each)
        self.stdout, self.stderr = (os.fdopen(each, encoding="utf-8") for each in (out, errors))
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = int(self._read_status())
        self.returncode = None

    def _read_status(self):
        line = b""
        while not line.endswith(b"\n"):
            content = self._status.read(1)
            assert content, "the process that forks has ended"
            line += content
        return line

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self.returncode = int(self._read_status())
            self._status.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """Read what it writes until it ends; return both texts, which are empty the second time."""
        if self.stdout.closed:
            return "", ""
        readers = ThreadPoolExecutor(2)
        texts = [readers.submit(pipe.read) for pipe in (self.stdout, self.stderr)]
        self.wait(timeout)
        readers.shutdown()
        found = tuple(text.result() for text in texts)
        self.stdout.close()
        self.stderr.close()
        return found


@cache
def _start_forking():
    """Start the process that forks; return the socket that takes requests."""
    requests, theirs = socket.socketpair()
    program = Path(__file__).parent / "forking.py"
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", program, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
    atexit.register(process.wait)
    atexit.register(requests.close)  # which ends it; what was registered last runs first
    return requests
