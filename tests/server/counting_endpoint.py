"""A model that counts what it is asked, and stops who asks in the middle of it."""

import json
import os
import signal
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class CountingEndpoint:
    """Counts the prompts that it is sent, and kills or freezes the process that sends them after so many."""

    def __init__(self, content="yes", name_prompt=str):
        self.content = content
        self._name_prompt = name_prompt
        self.counts = Counter()
        self._process = None
        self._left = None
        """How many requests are taken until the process gets a signal; None for any number."""
        self._signal = signal.SIGKILL
        self.signalled = threading.Event()
        self._mutex = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.count(body["messages"][-1]["content"])
                message = {"role": "assistant", "content": endpoint.content}
                answer = {
                    "model": "scripted",
                    "choices": [{"message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
                }
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # of those that were killed
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def send_signal_after(self, process, requests, what=signal.SIGKILL):
        """Signal a process once it has sent so many requests; None for never."""
        with self._mutex:
            self._process, self._left, self._signal = process, requests, what
            self.signalled.clear()

    def count(self, prompt):
        with self._mutex:
            self.counts[self._name_prompt(prompt)] += 1
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    os.kill(self._process.pid, self._signal)
                    self.signalled.set()
