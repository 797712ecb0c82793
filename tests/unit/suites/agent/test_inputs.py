"""Files of a turn: images and PDF as they are, everything else as text, downloads kept."""

import asyncio
import base64
import io

import pypdf
import pytest
from pydantic_ai.messages import BinaryContent
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from dokimos.errors import AgentError
from dokimos.suites._agent import inputs
from dokimos.suites._agent.inputs import Files, detect_image_type, extract_pages

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def content(files, **settings):
    return asyncio.run(Files(**settings).content("question", files))


@pytest.fixture
def pdf(tmp_path):
    written = pypdf.PdfWriter()
    for width in (100, 200, 300):
        written.add_blank_page(width, 100)
    path = tmp_path / "pages.pdf"
    with path.open("wb") as file:
        written.write(file)
    return path


def widths(data):
    return [float(page.mediabox.width) for page in pypdf.PdfReader(io.BytesIO(data)).pages]


def test_without_files_the_input_is_all():
    assert content([]) == "question"


def test_an_image_goes_as_it_is_before_the_input(tmp_path):
    (tmp_path / "dot.jpg").write_bytes(PNG)

    image, text = content([{"path": str(tmp_path / "dot.jpg"), "type": "image"}])

    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (PNG, "image/png")  # the bytes know better than the name
    assert text == "question"


@pytest.mark.parametrize(
    ("start", "name", "found"),
    [
        (b"\xff\xd8\xff", "a", "image/jpeg"),
        (b"GIF89a", "a", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "a", "image/webp"),
        (b"<svg", "a.svg", "image/svg+xml"),
    ],
)
def test_the_type_of_an_image_is_told_by_its_bytes_else_its_name(tmp_path, start, name, found):
    (tmp_path / name).write_bytes(start + b"x" * 20)

    assert detect_image_type(tmp_path / name) == found


def test_what_is_no_image_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("text")

    with pytest.raises(AgentError, match=r"a\.txt is not an image"):
        content([{"path": str(tmp_path / "a.txt"), "type": "image"}])


def test_a_pdf_goes_as_it_is_or_only_some_of_its_pages(pdf):
    (whole, _) = content([{"path": str(pdf), "type": "pdf"}])
    (part, _) = content([{"path": str(pdf), "type": "pdf", "pages": [3, 1]}])

    assert whole.data == pdf.read_bytes()
    assert widths(part.data) == [300, 100]


def test_a_page_that_is_not_there_is_an_error(pdf):
    with pytest.raises(AgentError, match="has 3 pages; there is no page 4"):
        extract_pages(pdf, [4])


def test_a_model_that_takes_no_pdf_gets_its_text(tmp_path):
    written = pypdf.PdfWriter()
    page = written.add_blank_page(100, 100)
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    named = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    fonts = DictionaryObject({NameObject("/F"): named})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = DecodedStreamObject()
    stream.set_data(b"BT /F 12 Tf 10 10 Td (the price is 60.94) Tj ET")
    page[NameObject("/Contents")] = stream
    with (tmp_path / "price.pdf").open("wb") as file:
        written.write(file)

    (told, _) = content([{"path": str(tmp_path / "price.pdf"), "type": "pdf"}], reads_pdf=False)

    assert told.startswith("File: price.pdf")
    assert "the price is 60.94" in told


def test_a_table_is_told_as_text_with_its_description(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")

    (told, _) = content([{"path": str(tmp_path / "t.csv"), "type": "csv", "description": "figures"}])

    assert told == "File: t.csv (figures)\n\na,b\n1,2\n"


def test_a_damaged_file_is_an_error_that_names_it(tmp_path):
    (tmp_path / "t.docx").write_bytes(b"PK\x03\x04 nothing")

    with pytest.raises(AgentError, match=r"the file t\.docx cannot be read"):
        content([{"path": str(tmp_path / "t.docx"), "type": "word"}])


def test_reading_has_a_limit_in_time(tmp_path, monkeypatch, wait_until):
    (tmp_path / "t.txt").write_text("x")
    ended = []

    def slow(*args, **kwargs):
        wait_until(lambda: ended)
        return "x"

    monkeypatch.setattr(inputs, "_text_of", slow)
    with pytest.raises(AgentError, match=r"could not be read within 0\.05 s"):
        content([{"path": str(tmp_path / "t.txt"), "type": "text"}], file_timeout=0.05)
    ended.append(True)


@pytest.fixture
def downloads(monkeypatch):
    asked = []

    async def download(url, seconds):
        asked.append(url)
        return PNG

    monkeypatch.setattr(inputs, "download", download)
    return asked


def test_a_download_is_kept(downloads, tmp_path):
    file = {"url": "https://h/dot.png?size=1", "type": "image"}
    for _ in range(2):
        (image, _) = content([file], cache_dir=tmp_path)

    assert image.data == PNG
    assert len(downloads) == 1


@pytest.mark.parametrize("settings", [{"cache_dir": None}, {"cache": False}])
def test_a_download_is_not_kept_where_nobody_wants_it(downloads, tmp_path, settings):
    file = {"url": "https://h/dot.png", "type": "image"}
    folder = {"cache_dir": tmp_path}
    for name, value in settings.items():
        (folder if name == "cache_dir" else file)[name] = value
    for _ in range(2):
        content([file], **folder)

    assert len(downloads) == 2
    assert not list(tmp_path.iterdir())
