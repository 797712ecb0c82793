"""Requests to the HTTP interface of ClickHouse.

Transactions run on threads of SQLite and in greenlets of PostgreSQL. So requests have an event loop of their
own, on a thread of its own: a thread waits for the answer, and a greenlet lets the loop of the server go on.
"""

from __future__ import annotations

import asyncio
import gzip
import math
import re
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

from sqlalchemy import Connection
from sqlalchemy.util import await_only

from dokimos._http.answer import Answer, NoAnswer, Oversized, Unsendable
from dokimos._http.session import Session
from dokimos.server._clickhouse_address import ClickHouseAddress
from dokimos.server._db.clickhouse_parameters import Statement
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._db.row_binary import read_rows

T = TypeVar("T")
_GOOD: Final = 200
_MOST_BYTES: Final = 1 << 30
"""Of one answer; what reads spans asks for a part of them at a time."""
_COMPRESSED_FROM: Final = 4096
_LEVEL: Final = 1
"""Of gzip: the higher ones take several times as long for a little less."""
_SLACK_SECONDS: Final = 2.0
"""How much longer than ClickHouse itself its answer may take."""
_READ_SETTINGS: Final = {
    # What a row became by its latest version, also where parts were not merged yet.
    "final": "1",
    "do_not_merge_across_partitions_select_final": "1",
    # A column that is selected in part keeps its name, and conditions mean the column.
    "prefer_column_name_to_alias": "1",
    "wait_end_of_query": "1",  # so that an error is never in the middle of an answer
    "enable_http_compression": "1",
    "default_format": "RowBinaryWithNamesAndTypes",
}
_CODE: Final = re.compile(r"Code: (\d+)")
_NAME: Final = re.compile(r"\(([A-Z][A-Z_]+)\)")
_TOO_SLOW: Final = ("159", "160")
_REMEDIES: Final = {
    "81": "create the database",
    "194": "check the user and the password",
    "192": "check the user and the password",
    "516": "check the user and the password",
    "497": "grant its user SELECT, INSERT, CREATE TABLE and ALTER on the database",
    "243": "its disk is full",
}


class TookTooLong(DatabaseUnavailable):
    """ClickHouse took longer than it was given."""


class ClickHouseClient:
    """Sends statements to one ClickHouse; what it raises names neither values nor the password."""

    def __init__(self, address: ClickHouseAddress) -> None:
        self.address: Final = address
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._session: Session | None = None

    def wait(self, connection: Connection, request: Coroutine[Any, Any, T]) -> T:
        """Return what a request answers, within the transaction of a connection."""
        future = self.submit(request)
        if connection.dialect.is_async:
            result: T = await_only(asyncio.wrap_future(future))
            return result
        return future.result()

    def submit(self, request: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a request in the loop of this client."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="dokimos-clickhouse", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(request, self._loop)

    def close(self) -> None:
        """Close the connections; blocks until they are."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close_session(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def read(self, statement: Statement, *, seconds: float) -> list[tuple[Any, ...]]:
        """Return the rows of a query; texts are bytes.

        Raises:
            DatabaseUnavailable: ClickHouse does not answer, or cannot do it.
            TookTooLong: It took longer than `seconds`.
        """
        return read_rows(await self._send_form(statement, _READ_SETTINGS, seconds))

    async def execute(
        self, statement: Statement, *, seconds: float, settings: Mapping[str, str] | None = None
    ) -> None:
        """Run a statement that answers nothing, and raise likewise."""
        await self._send_form(statement, {"wait_end_of_query": "1", **(settings or {})}, seconds)

    async def insert(self, text: str, rows: bytes, settings: Mapping[str, str], *, seconds: float) -> None:
        """Insert rows in the format that the statement names, and raise likewise."""
        headers = {"Content-Type": "application/octet-stream"}
        if len(rows) >= _COMPRESSED_FROM:
            rows, headers["Content-Encoding"] = gzip.compress(rows, _LEVEL, mtime=0), "gzip"
        await self._send({"query": text, "wait_end_of_query": "1", **settings}, rows, headers, seconds)

    async def _send_form(self, statement: Statement, settings: Mapping[str, str], seconds: float) -> bytes:
        # In the body, which has no limit: parameters in an address do not fit through many a proxy.
        fields = {"query": statement.text}
        fields |= {f"param_{name}": value for name, value in statement.parameters.items()}
        boundary = f"dokimos-{uuid4().hex}"
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return await self._send(settings, _write_form(fields, boundary), headers, seconds)

    async def _send(
        self, parameters: Mapping[str, str], body: bytes, headers: Mapping[str, str], seconds: float
    ) -> bytes:
        limit = {} if math.isinf(seconds) else {"max_execution_time": str(math.ceil(seconds))}
        query = urlencode({"database": self.address.database, **limit, **parameters})
        url = f"{self.address.url}/?{query}"
        own = {"X-ClickHouse-User": self.address.user, "X-ClickHouse-Key": self.address.password}
        patience = 86_400.0 if math.isinf(seconds) else seconds + _SLACK_SECONDS
        for is_last in (False, True):
            try:
                answer = await self._session_of_loop().send(
                    "POST", url, body, {**own, **headers}, patience, most=_MOST_BYTES
                )
            except NoAnswer as error:
                if error.timed_out:
                    raise TookTooLong(f"{self.address} did not answer within {patience:g} seconds.") from None
                # Such as a connection that was closed while it was idle. All that is sent may be repeated.
                if is_last:
                    raise DatabaseUnavailable(f"{self.address} does not answer: {error}") from None
            except (Oversized, Unsendable) as error:
                reason = str(error) or "its answer is too large"
                raise DatabaseUnavailable(f"{self.address} cannot be used: {reason}") from None
            else:
                if answer.status != _GOOD:
                    raise self._explain(answer)
                return answer.content
        raise AssertionError("unreachable")

    def _session_of_loop(self) -> Session:
        if self._session is None:
            self._session = Session(self.address.url)
        return self._session

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _explain(self, answer: Answer) -> DatabaseUnavailable:
        """Return what went wrong: of what ClickHouse writes, which repeats values, the code and its name."""
        text = answer.content.decode("utf-8", "replace")
        code = answer.headers.get("X-ClickHouse-Exception-Code") or (_CODE.findall(text) or [""])[0]
        name = (_NAME.findall(text) or [""])[-1]
        if code in _TOO_SLOW:
            return TookTooLong(f"{self.address} was too slow ({name}).")
        what = f"error {code} {name}".strip() if code else f"HTTP status {answer.status}"
        remedy = f": {_REMEDIES[code]}" if code in _REMEDIES else ""
        return DatabaseUnavailable(f"{self.address} refuses a statement with {what}{remedy}.")


def _write_form(fields: Mapping[str, str], boundary: str) -> bytes:
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return "".join((*parts, f"--{boundary}--\r\n")).encode()
