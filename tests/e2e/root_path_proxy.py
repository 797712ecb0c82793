"""A proxy before a server that is below a path of its site, as small as one can be."""

import http.client
import threading
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RootPathProxy:
    """Removes the root path from requests, and answers all others itself; `strays` are their paths."""

    def __init__(self, root_path):
        self.root_path = root_path
        self.target = None
        self.strays = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.site = f"http://127.0.0.1:{self._server.server_port}"
        self.address = self.site + root_path
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _make_handler(proxy):  # the handler is of a class of its own
        class Handler(BaseHTTPRequestHandler):
            def pass_on(self):
                if not f"{self.path}/".startswith(f"{proxy.root_path}/"):
                    proxy.strays.append(self.path)
                    self.send_error(404)
                    return
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = "/" + self.path.removeprefix(proxy.root_path).lstrip("/")
                upstream = http.client.HTTPConnection("127.0.0.1", proxy.target, timeout=60)
                upstream.request(self.command, path, content or None, dict(self.headers.items()))
                answer = upstream.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.end_headers()
                # The browser or the server may hang up in the middle, such as of events.
                with closing(upstream), suppress(OSError):
                    while part := answer.read1(65536):
                        self.wfile.write(part)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # as the base class asks for them

            def log_message(self, *args):
                """Say nothing."""

        return Handler
