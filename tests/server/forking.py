"""A process that has imported the server and forks: importing it takes longer than most tests of a server."""

import json
import os
import signal
import socket
import sys

_WARM = {"type": "http", "method": "GET", "path": "/", "headers": []}


def run():
    """Fork for each request that comes by the socket; return the code that a fork has to execute."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    _import_server()
    while True:
        content, descriptors, _, _ = socket.recv_fds(requests, 65536, 3)
        if not content:
            sys.exit()
        while not content.endswith(b"\n"):
            content += requests.recv(65536)
        _reap()
        if os.fork() == 0:
            requests.close()
            return _become_server(json.loads(content), descriptors)
        for each in descriptors:
            os.close(each)


def _import_server():
    from dokimos.server import _serve  # noqa: F401 (imported once, for all that are forked)
    from dokimos.server._app import _include_routers

    for route in _include_routers():
        route.matches(dict(_WARM))  # with the first match, the framework analyzes parameters


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become_server(request, descriptors):
    """Fork once more: the parent says which process the server is and how it has ended."""
    out, errors, status = descriptors
    pid = os.fork()
    if pid:
        os.close(out)
        os.close(errors)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(status, f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, f"{code}\n".encode())
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    for each in descriptors:
        os.close(each)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["-c", *request["arguments"]]
    return request["code"]


if __name__ == "__main__":
    try:
        to_execute = run()
    except KeyboardInterrupt:
        sys.exit()
    exec(to_execute, {"__name__": "__main__"})
