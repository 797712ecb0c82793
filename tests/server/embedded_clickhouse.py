"""ClickHouse's HTTP interface on the engine that is embedded in `chdb`, for tests without a server.

Runs in a process of its own, with an interpreter that has `chdb`; it needs nothing of this repository:

    python embedded_clickhouse.py FOLDER

Prints its port. What it leaves out of the interface, the server does not use.
"""

import email.parser
import email.policy
import gzip
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import MagicMock
from urllib.parse import parse_qsl, urlsplit

USER, PASSWORD = "default", "secret%word"
# What the engine has no use for: it answers at once, and has no queue of inserts.
IGNORED = {
    "wait_end_of_query",
    "enable_http_compression",
    "default_format",
    "async_insert",
    "wait_for_async_insert",
}


def load_engine(folder):
    """Return a connection of the engine; for what it imports beside it, a placeholder does."""
    sys.modules.setdefault("pyarrow", MagicMock())
    from chdb import _chdb

    return _chdb.connect(f"{folder}/data")


class Engine:
    """Runs one statement at a time."""

    def __init__(self, folder):
        self.folder = folder
        self.connection = load_engine(folder)
        self.lock = threading.Lock()
        self.database = None
        self.settings = {}

    def run(self, fields, data):
        """Return what a statement answers."""
        parameters = {
            name.removeprefix("param_"): text for name, text in fields.items() if name.startswith("param_")
        }
        settings = {
            name: text
            for name, text in fields.items()
            if name not in IGNORED | {"query", "database"} and not name.startswith("param_")
        }
        with self.lock:
            self._prepare(fields.get("database", "default"), settings)
            query = fields["query"]
            if data is not None:
                with tempfile.NamedTemporaryFile(dir=self.folder) as file:
                    file.write(data)
                    file.flush()
                    query = re.sub(r" FORMAT (\w+)$", rf" FROM INFILE '{file.name}' FORMAT \1", query)
                    return self._query(query)
            return self._query(query, fields.get("default_format", "TabSeparated"), parameters)

    def _prepare(self, database, settings):
        """Let the next statement run with a database and settings, which a connection keeps."""
        if database != self.database:
            self._query(f"USE `{database}`")
            self.database = database
        for name in set(self.settings) - set(settings):
            self._query(f"SET {name} = DEFAULT")
        for name, text in settings.items():
            if self.settings.get(name) != text:
                self._query(f"SET {name} = '{text}'")
        self.settings = settings

    def _query(self, text, form="TabSeparated", parameters=None):
        if parameters:
            result = self.connection.query(text, form, params=parameters)
        else:
            result = self.connection.query(text, form)
        return b"" if result is None else bytes(result.bytes())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body would wait 40 ms behind its headers
    engine = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if (self.headers["X-ClickHouse-User"], self.headers["X-ClickHouse-Key"]) != (USER, PASSWORD):
            self._answer(403, b"Code: 516. DB::Exception: default: (AUTHENTICATION_FAILED)", "516")
            return
        fields = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        kind = self.headers["Content-Type"]
        data = None
        if kind.startswith("multipart/form-data"):
            fields |= read_form(kind, body)
        else:
            data = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
        try:
            self._answer(200, self.engine.run(fields, data))
        except Exception as error:
            code = re.search(r"Code: (\d+)", str(error))
            self._answer(500, str(error).encode(), code[1] if code else "")

    def _answer(self, status, content, code=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def read_form(kind, body):
    """Return the fields of a form."""
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    return {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True).decode()
        for part in form.iter_parts()
    }


def main(folder):
    Handler.engine = Engine(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
