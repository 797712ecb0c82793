"""A client that watches the events of a server."""

import http.client
import json
from urllib.parse import quote, urlencode, urlsplit


class Watcher:
    """A client of `GET /api/v1/events`."""

    def __init__(self, address, headers=None, **query):
        host = urlsplit(address)
        self.connection = http.client.HTTPConnection(host.hostname, host.port, timeout=30)
        path = "/api/v1/events"
        if query:
            path += "?" + urlencode(query, quote_via=quote)
        self.connection.request("GET", path, headers=headers or {})
        self.answer = self.connection.getresponse()
        self.last_id = None

    def read_lines(self):
        """The lines of the next block; None at the end of the stream."""
        lines = []
        while line := self.answer.readline():
            if line == b"\n":
                return lines
            lines.append(line.decode().rstrip("\n"))
        return None

    def read(self):
        """The name and the data of the next event; None at the end of the stream."""
        while (lines := self.read_lines()) is not None:
            fields = dict(line.split(": ", 1) for line in lines)
            if "event" in fields:
                self.last_id = fields["id"]
                return fields["event"], json.loads(fields["data"])
        return None

    def read_until(self, name):
        """The events up to the first one of this name."""
        events = []
        while True:
            event = self.read()
            assert event is not None, events
            events.append(event)
            if event[0] == name:
                return events

    def close(self):
        self.answer.close()
        self.connection.close()
