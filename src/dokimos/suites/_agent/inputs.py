"""The files of a turn as the model takes them: images and PDF as they are, everything else as text."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from dokimos._core.extras import require
from dokimos._runtime.concurrency import call_in_thread
from dokimos.errors import AgentError
from dokimos.suites._agent.models import EXTRA

FILE_SECONDS: Final = 30.0
DOWNLOAD_SECONDS: Final = 30.0
LARGEST: Final = 50 * 2**20
"""The most bytes of a file that is downloaded."""
PDF: Final = "application/pdf"
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """How files are read and fetched for one agent."""

    reads_pdf: bool = True
    """Whether the model takes PDF as it is."""
    file_timeout: float = FILE_SECONDS
    download_timeout: float = DOWNLOAD_SECONDS
    cache_dir: Path | None = None
    """Where downloads are kept; None keeps none."""

    async def content(self, text: str, files: Sequence[Mapping[str, Any]]) -> Any:
        """Return what the agent is asked: the input, with the files before it.

        Raises:
            AgentError: where a file cannot be fetched or read.
        """
        if not files:
            return text
        # The question last: providers advise to put long material before what is asked about it.
        return [*[await self._part(file) for file in files], text]

    async def _part(self, file: Mapping[str, Any]) -> Any:
        label = file.get("url") or Path(file["path"]).name
        try:
            with tempfile.TemporaryDirectory(prefix="dokimos-") as folder:
                path = Path(file["path"]) if "path" in file else await self._fetch_to_file(file, Path(folder))
                async with asyncio.timeout(self.file_timeout):
                    return await call_in_thread(self._read, path, file, label)
        except TimeoutError:
            raise AgentError(f"the file {label} could not be read within {self.file_timeout:g} s") from None
        except AgentError:
            raise
        except Exception as error:  # converters raise what they like about damaged files
            raise AgentError(f"the file {label} cannot be read: {error}") from None

    def _read(self, path: Path, file: Mapping[str, Any], label: str) -> Any:
        messages: Any = require("pydantic_ai.messages", EXTRA)
        if file["type"] == "image":
            return messages.BinaryContent(path.read_bytes(), media_type=detect_image_type(path))
        if file["type"] == "pdf" and self.reads_pdf:
            return messages.BinaryContent(extract_pages(path, file.get("pages")), media_type=PDF)
        text = _text_of(path, file)
        description = f" ({file['description']})" if file.get("description") else ""
        return f"File: {label}{description}\n\n{text}"

    async def _fetch_to_file(self, file: Mapping[str, Any], folder: Path) -> Path:
        """Fetch a file into a folder, or take it from an earlier download."""
        url = str(file["url"])
        if self.cache_dir is not None and file.get("cache") is not False:
            folder = self.cache_dir / "files"
        ending = Path(urlsplit(url).path).suffix
        target = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}{ending}"
        if not target.exists():
            data = await download(url, self.download_timeout)
            folder.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
            partial.write_bytes(data)
            # In one step: another case or process may be looking for the same file.
            partial.replace(target)
        return target


def _text_of(path: Path, file: Mapping[str, Any]) -> str:
    from dokimos.suites._retrieval.text_extraction import to_text

    part = {name: file.get(name) for name in ("pages", "sheet", "range")}
    return to_text(path, kind=file["type"], **part)


async def download(url: str, seconds: float) -> bytes:
    """Download a file. Raises `AgentError` where that fails, takes too long or yields too much."""
    import aiohttp

    from dokimos._http.offline import is_offline, refuse_when_offline

    refuse_when_offline(url, "a file of a case", AgentError)
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        # Offline, what is fetched from this machine may not lead to another one.
        follows = not is_offline(os.environ)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=follows) as response,
        ):
            if response.status != 200:
                raise AgentError(f"the file {url} cannot be fetched: status {response.status}")
            # read(n) returns what has arrived, which may be less; one byte over the limit refuses it.
            data = await response.content.read(LARGEST + 1)
            while not response.content.at_eof() and len(data) <= LARGEST:
                data += await response.content.read(LARGEST + 1 - len(data))
    except TimeoutError:
        raise AgentError(f"the file {url} was not downloaded within {seconds:g} s") from None
    except aiohttp.ClientError as error:
        raise AgentError(f"the file {url} cannot be fetched: {error}") from None
    if len(data) > LARGEST:
        raise AgentError(f"the file {url} has more than {LARGEST:,} bytes")
    return data


def detect_image_type(path: Path) -> str:
    """Return the media type of an image, by its first bytes where they tell."""
    start = path.read_bytes()[:16]
    for mark, found in ((b"\x89PNG", _IMAGES[0]), (b"\xff\xd8", _IMAGES[1]), (b"GIF8", _IMAGES[2])):
        if start.startswith(mark):
            return found
    # Between the two are four bytes with the size; other RIFF files are sound and video.
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return _IMAGES[3]
    named = mimetypes.guess_type(path.name)[0] or ""
    if not named.startswith("image/"):
        raise AgentError(f"{path.name} is not an image")
    return named


def extract_pages(path: Path, pages: Sequence[int] | None) -> bytes:
    """Return a PDF, or only some of its pages. Raises `AgentError` for one that is not there."""
    if pages is None:
        return path.read_bytes()
    import io

    pypdf: Any = require("pypdf", "retrieval")
    whole = pypdf.PdfReader(path)
    part = pypdf.PdfWriter()
    for number in pages:
        if number > len(whole.pages):
            raise AgentError(f"{path.name} has {len(whole.pages)} pages; there is no page {number}")
        part.add_page(whole.pages[number - 1])
    written = io.BytesIO()
    part.write(written)
    return written.getvalue()
