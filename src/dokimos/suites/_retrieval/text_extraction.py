"""Documents as text: plain text, Markdown, HTML, CSV, JSON, PDF, and the files of office programs."""

from __future__ import annotations

import codecs
import logging
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from dokimos._core.extras import require
from dokimos._core.text import error_text
from dokimos.errors import DocumentError, DokimosError

EXTRA: Final = "retrieval"
LARGEST_BYTES: Final = 100_000_000
LARGEST_PART: Final = 200_000_000
"""Bytes that a text in an office file, or a whole file of slides, may have when it is unpacked."""

Kind = Literal["text", "html", "csv", "pdf", "word", "excel", "powerpoint", "image"]

KIND_OF: Final[dict[str, Kind]] = {
    **dict.fromkeys((".txt", ".text", ".md", ".markdown", ".rst", ".log", ".json", ".jsonl", ".ndjson",
                     ".yaml", ".yml", ".xml"), "text"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"), "image"),
    ".pdf": "pdf",
    ".docx": "word",
    ".pptx": "powerpoint",
}  # fmt: skip
"""What kind of document the ending of a file's name means."""
_OLD_OFFICE: Final = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
_OLE: Final = b"\xd0\xcf\x11\xe0"
"""The start of office files in the old format, and of the new ones where a password encrypts them."""


def to_text(
    path: str | Path,
    kind: str | None = None,
    pages: Sequence[int] | None = None,
    sheet: str | None = None,
    range: str | None = None,
) -> str:
    """Return the text of a document; headings, lists and tables become Markdown.

    Args:
        path: The file.
        kind: What it is (`text`, `html`, `csv`, `pdf`, `word`, `excel`, `powerpoint`); its ending says so
            unless given.
        pages: The pages of a PDF, or slides, counted from 1; all of them unless given.
        sheet: The sheet of a workbook; all of them unless given.
        range: The cells of a sheet, such as `A1:C10`.

    Raises:
        DocumentError: naming the file, when it cannot be read.
        MissingExtraError: when the package that reads it is not installed.
    """
    path = Path(path)
    detected = kind_of(path, kind)
    data = read_content(path)
    try:
        match detected:
            case "pdf":
                return _pdf(path, pages)
            case "word":
                return _word(path, data)
            case "excel" | "powerpoint":
                return _office(path, data, detected, pages, sheet, range)
            case "html":
                return _html(path, decode_text(path, data))
            case _:
                return decode_text(path, data)
    except DokimosError:
        raise
    except Exception as error:  # readers of damaged files fail in every way there is
        raise DocumentError(
            f"it cannot be read as {detected} and may be damaged: {error_text(error)}", path=path
        ) from error


def kind_of(path: Path, kind: str | None = None) -> Kind:
    """Return what kind of document a file is. Raises `DocumentError` for one that has no text."""
    found = kind or KIND_OF.get(path.suffix.lower())
    if path.suffix.lower() in _OLD_OFFICE and (kind is None or kind in ("word", "excel", "powerpoint")):
        newer = _OLD_OFFICE[path.suffix.lower()]
        raise DocumentError(f"files of this old format cannot be read; save it as {newer}.", path=path)
    if found == "image":
        raise DocumentError("an image has no text.", path=path)
    if found is not None and found not in get_args(Kind):
        known = ", ".join(get_args(Kind)[:-1])
        raise DocumentError(f"{found!r} is not a kind of document; there are {known}.", path=path)
    return cast("Kind", found or "text")


def decode_text(path: Path, data: bytes) -> str:
    """Return the text of a file: UTF-8, UTF-16 or -32 with a mark at the start, else Windows-1252."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _lines(data.decode(encoding, "replace"))
    if b"\0" in data[:8192]:
        raise DocumentError("it is not text.", path=path)
    try:
        return _lines(data.decode("utf-8"))
    except UnicodeDecodeError:
        return _lines(data.decode("cp1252", "replace"))


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_content(path: Path) -> bytes:
    """Return the bytes of a file. Raises `DocumentError` where it cannot be read or is too large."""
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise DocumentError(f"it has {size:,} bytes; at most {LARGEST_BYTES:,} are read.", path=path)
        return path.read_bytes()
    except FileNotFoundError:
        raise DocumentError("there is no such file.", path=path) from None
    except OSError as error:
        raise DocumentError(f"it cannot be read ({error.strerror or error}).", path=path) from None


def _html(path: Path, text: str) -> str:
    soup = require("bs4", extra=EXTRA).BeautifulSoup(text, "html.parser")
    for hidden in soup(["script", "style", "noscript", "template", "head"]):
        hidden.decompose()
    return _markdown(str(soup))


def _markdown(html: str) -> str:
    convert: Callable[..., str] = require("markdownify", extra=EXTRA).markdownify
    text = convert(html, heading_style="ATX", bullets="-", strip=["img"])
    lines = [line.rstrip() for line in text.splitlines()]
    collapsed = [line for index, line in enumerate(lines) if line or (index and lines[index - 1])]
    return "\n".join(collapsed).strip()


def _pdf(path: Path, pages: Sequence[int] | None) -> str:
    pypdf: Any = require("pypdf", extra=EXTRA)
    log = logging.getLogger("pypdf")
    if log.level == logging.NOTSET:
        log.setLevel(logging.ERROR)  # it complains about every second file there is
    with path.open("rb") as file:
        try:
            reader = pypdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise DocumentError("it is encrypted with a password.", path=path)
        except pypdf.errors.DependencyError as error:
            raise DocumentError(f"it is encrypted: {error}", path=path) from error
        count = len(reader.pages)
        texts = [
            reader.pages[number - 1].extract_text() for number in select_pages(path, pages, count, "page")
        ]
    if not any(map(str.strip, texts)):
        raise DocumentError("its pages have no text; it may be a scan.", path=path)
    return "\n\n".join(text.strip() for text in texts)


def select_pages(path: Path, pages: Sequence[int] | None, count: int, noun: str) -> Sequence[int]:
    """Return the numbers of the pages to read. Raises `DocumentError` for one that is not there."""
    if pages is None:
        return range(1, count + 1)
    for number in pages:
        if not 1 <= number <= count:
            raise DocumentError(f"there is no {noun} {number}; it has {count}.", path=path)
    return pages


def _word(path: Path, data: bytes) -> str:
    _check_archive(path, data)
    mammoth: Any = require("mammoth", extra=EXTRA)
    with path.open("rb") as file:
        nothing = mammoth.images.img_element(lambda image: {"src": ""})
        html = mammoth.convert_to_html(file, convert_image=nothing).value
    return _markdown(html)


def _office(
    path: Path, data: bytes, kind: str, pages: Sequence[int] | None, sheet: str | None, cells: str | None
) -> str:
    from dokimos.suites._retrieval.office import slides_text, workbook_text

    _check_archive(path, data, reads_all=kind == "powerpoint")
    return workbook_text(path, sheet, cells) if kind == "excel" else slides_text(path, pages)


def _check_archive(path: Path, data: bytes, *, reads_all: bool = False) -> None:
    """Refuse what is not an office file, or too large; `reads_all` where the reader takes pictures too."""
    if data.startswith(_OLE):
        raise DocumentError("it is encrypted with a password, or of an old format.", path=path)
    if not data.startswith(b"PK"):
        raise DocumentError("it is damaged: an office file must be a ZIP archive.", path=path)
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if reads_all and sum(part.file_size for part in parts) > LARGEST_PART:
            raise DocumentError("it is too large when it is unpacked.", path=path)
        for part in parts:
            if part.filename.endswith((".xml", ".rels")) and part.file_size > LARGEST_PART:
                raise DocumentError(f"its part {part.filename} is too large when it is unpacked.", path=path)
