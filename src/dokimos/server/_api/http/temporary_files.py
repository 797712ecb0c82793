"""Files that live as long as one request."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._settings import ServerSettings


@contextmanager
def open_temporary_file(settings: ServerSettings, purpose: str) -> Iterator[IO[bytes]]:
    """Open a file for the context to fill; it stays open afterwards, unless the context fails.

    It is beside the database of SQLite, whose disk has room for what is stored, while the system's folder of
    temporary files may be small or in memory. It has no name, so that the system removes it with the
    process, however that ends.

    Args:
        settings: They name the database.
        purpose: What the file is for, such as "the upload".

    Raises:
        DatabaseUnavailable: The disk is full, or nothing can be written there.
    """
    folder = settings.data_dir if settings.database_url is None else None
    file: IO[bytes] | None = None
    try:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 # the caller closes it
        yield file
    except BaseException as error:
        if file is not None:
            with suppress(OSError):  # what is left in its buffer does not fit on the disk either
                file.close()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise DatabaseUnavailable(f"{purpose} could not be written to disk: {reason}") from error
        raise
