"""Documents as text."""

import io
import zipfile

import pypdf
import pytest
from lxml import etree
from pptx import Presentation
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from dokimos.errors import DocumentError, MissingExtraError
from dokimos.suites._retrieval.text_extraction import to_text

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
FORMULA = """
<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
    xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"
    xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"
    xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"
    xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">
  <mc:Choice Requires="a14"><p:sp><p:txBody><a:p><a:r><a:t>Area: </a:t></a:r>
    <a14:m><m:oMath><m:r><m:t>a=b*c</m:t></m:r></m:oMath></a14:m></a:p></p:txBody></p:sp></mc:Choice>
  <mc:Fallback><p:sp><p:txBody><a:p><a:r><a:t>A picture</a:t></a:r></a:p></p:txBody></p:sp></mc:Fallback>
</mc:AlternateContent>
"""
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def pdf(*pages, password=None):
    """Return a PDF whose pages say something."""
    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(width=300, height=300)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password is not None:
        writer.encrypt(password, algorithm="AES-256")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def archive(**parts):
    """Return a ZIP archive; `__` in a name stands for a slash, and a single `_` at its start for one too."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return written.getvalue()


def docx(body):
    types = (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>'
    )
    relations = (
        f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/officeDocument" Target="word/document.xml"/></Relationships>'
    )
    document = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return archive(**{"[Content_Types].xml": types, "_rels/.rels": relations, "word/document.xml": document})


def paragraph(text, style=""):
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def deck(*slides, order=None):
    """Return a presentation of slides of some lines each, shown in `order` where it is given."""
    presentation = Presentation()
    for lines in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        slide.shapes.add_textbox(0, 0, 1, 1).text_frame.text = "\n".join(lines)
    listed = presentation.slides._sldIdLst
    listed[:] = [listed[number - 1] for number in order or range(1, len(slides) + 1)]
    return presentation


def bytes_of(presentation):
    written = io.BytesIO()
    presentation.save(written)
    return written.getvalue()


def pptx(*slides, order=None):
    return bytes_of(deck(*slides, order=order))


def with_part(content, name, change):
    """Return an archive in which a part is changed."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for each in old.namelist():
            new.writestr(each, change(old.read(each)) if each == name else old.read(each))
    return written.getvalue()


def read_text_file(library, name, content, **how):
    return to_text(library.write(name, content), **how)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Grüße\r\nan alle\r", "Grüße\nan alle\n"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("Grüße".encode("utf-16"), "Grüße"),
        ("Grüße".encode("cp1252"), "Grüße"),
        ("日本".encode("utf-32"), "日本"),
        ("", ""),
    ],
)
def test_text_is_read_in_the_encodings_that_there_are(library, content, text):
    assert read_text_file(library, "a.txt", content) == text


@pytest.mark.parametrize("name", ["a.md", "a.json", "a.csv", "a.jsonl", "a.unknown", "README"])
def test_text_files_are_taken_as_they_are(library, name):
    assert read_text_file(library, name, "# a,b\n1") == "# a,b\n1"


def test_html_becomes_markdown_without_scripts(library):
    page = (
        "<html><head><title>T</title><style>p {}</style></head><body><h1>Guide</h1>"
        "<script>alert(1)</script><p>Some <b>bold</b> text &amp; more.</p>"
        "<ul><li>one</li><li>two</li></ul><table><tr><th>a</th></tr><tr><td>1</td></tr></table></body></html>"
    )

    text = read_text_file(library, "a.html", page)

    assert text.startswith("# Guide\n\nSome **bold** text & more.\n\n- one\n- two")
    assert "| a |" in text
    assert "alert" not in text


def test_the_pages_of_a_pdf_are_read_in_the_order_that_is_asked_for(library):
    path = library.write("a.pdf", pdf("First page.", "Second page.", "Third page."))

    assert to_text(path) == "First page.\n\nSecond page.\n\nThird page."
    assert to_text(path, pages=[3, 1]) == "Third page.\n\nFirst page."


def test_a_word_document_becomes_markdown_with_its_headings(library):
    body = paragraph("Guide", "Heading1") + paragraph("Some text.") + paragraph("Install", "Heading2")

    text = read_text_file(library, "a.docx", docx(body + paragraph("Run it.")))

    assert text == "# Guide\n\nSome text.\n\n## Install\n\nRun it."


def test_slides_come_in_the_order_in_which_they_are_shown(library):
    path = library.write("a.pptx", pptx(["One"], ["Two"], ["Three"], order=[3, 1]))

    assert to_text(path) == "## Slide 1\n\nThree\n\n## Slide 2\n\nOne"


def test_slides_become_text(library):
    path = library.write("a.pptx", pptx(["Title", "A point"], ["Another"]))

    assert to_text(path) == "## Slide 1\n\nTitle\nA point\n\n## Slide 2\n\nAnother"
    assert to_text(path, pages=[2]) == "## Slide 2\n\nAnother"


def test_all_the_text_of_a_slide_is_read(library):
    presentation = Presentation()
    shapes = presentation.slides.add_slide(presentation.slide_layouts[5]).shapes
    shapes.title.text = "Prices & rooms"
    table = shapes.add_table(2, 2, 0, 0, 9, 9).table
    for row, column, text in [(0, 0, "Room"), (0, 1, "Price"), (1, 0, "Double"), (1, 1, "140 €")]:
        table.cell(row, column).text = text
    inner = shapes.add_group_shape().shapes.add_group_shape().shapes.add_textbox(0, 0, 1, 1).text_frame
    for text in ("Two", " ", "runs"):
        inner.paragraphs[0].add_run().text = text
    inner.add_paragraph().text = "First\vsecond line"
    inner.add_paragraph().text = " "
    shapes._spTree.append(etree.fromstring(FORMULA))

    path = library.write("a.pptx", bytes_of(presentation))

    assert to_text(path) == (
        "## Slide 1\n\nPrices & rooms\nRoom\nPrice\nDouble\n140 €\nTwo runs\nFirst\nsecond line\nArea: a=b*c"
    )


@pytest.mark.parametrize("kind", ["slideshow", "template"])
def test_slide_shows_and_templates_are_read_too(library, kind):
    content = with_part(
        pptx(["Hello"]),
        "[Content_Types].xml",
        lambda xml: xml.replace(b"presentation.main+xml", f"{kind}.main+xml".encode()),
    )

    assert read_text_file(library, "a.pptx", content) == "## Slide 1\n\nHello"


def test_slides_of_a_presentation_without_any(library):
    assert read_text_file(library, "a.pptx", pptx()) == ""


def with_entity(declared):
    """Return slides in which an entity stands, as which some declarations define it."""
    return with_part(
        pptx(["Safe.", "It says: ENTITY"]),
        "ppt/slides/slide1.xml",
        lambda xml: xml.replace(b"<p:sld ", b"<!DOCTYPE d [" + declared + b"]><p:sld ", 1).replace(
            b"ENTITY</", b"&a;</"
        ),
    )


LAUGHS = b"<!ENTITY h 'ha'>" + b"".join(
    b"<!ENTITY %c '%s'>" % (char, b"&%c;" % (char + 1) * 50) for char in b"abcdefg"
)


def test_entities_in_slides_bring_in_no_other_file(library):
    secret = library.write("secret.txt", "the secret")
    declared = f"<!ENTITY a SYSTEM '{secret.as_uri()}'>".encode()

    text = read_text_file(library, "a.pptx", with_entity(declared))

    assert text == "## Slide 1\n\nSafe.\nIt says: "


def test_slides_whose_pictures_unpack_to_far_too_much_are_refused(library):
    content = pptx(["x"])
    written = io.BytesIO(content)
    with (
        zipfile.ZipFile(written, "a", zipfile.ZIP_DEFLATED) as file,
        file.open("ppt/media/a.png", "w") as part,
    ):
        for _ in range(201):
            part.write(bytes(1_000_000))

    with pytest.raises(DocumentError, match="it is too large when it is unpacked"):
        read_text_file(library, "a.pptx", written.getvalue())


@pytest.mark.parametrize(
    ("name", "content", "how", "message"),
    [
        ("a.pdf", b"%PDF-1.7 nonsense", {}, "cannot be read as pdf and may be damaged"),
        ("a.pdf", pdf("x")[:300], {}, "damaged|cannot be read"),
        ("a.pdf", pdf("x", password="secret"), {}, "it is encrypted with a password"),
        ("a.pdf", pdf(""), {}, "no text; it may be a scan"),
        ("a.pdf", pdf("x"), {"pages": [2]}, "there is no page 2; it has 1"),
        ("a.docx", b"nonsense", {}, "must be a ZIP archive"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1", {}, "encrypted with a password, or of an old format"),
        ("a.docx", archive(x="y"), {}, "cannot be read as word and may be damaged"),
        ("a.docx", docx("x")[:150], {}, "cannot be read as word and may be damaged"),
        ("a.pptx", b"nonsense", {}, "must be a ZIP archive"),
        ("a.pptx", b"\xd0\xcf\x11\xe0\xa1\xb1", {}, "encrypted with a password, or of an old format"),
        ("a.pptx", with_entity(LAUGHS), {}, "cannot be read as powerpoint"),
        ("a.pptx", archive(x="y"), {}, "cannot be read as powerpoint and may be damaged"),
        ("a.pptx", docx(paragraph("x")), {}, "cannot be read as powerpoint and may be damaged"),
        ("a.pptx", pptx(["x"])[:-2000], {}, "cannot be read as powerpoint and may be damaged"),
        (
            "a.pptx",
            with_part(pptx(["x"]), "ppt/slides/slide1.xml", lambda xml: xml[:-9]),
            {},
            "cannot be read as powerpoint and may be damaged",
        ),
        ("a.pptx", pptx(["x"]), {"pages": [0]}, "there is no slide 0; it has 1"),
        ("a.doc", b"x", {}, "old format cannot be read; save it as .docx"),
        ("a.png", b"x", {}, "an image has no text"),
        ("a.txt", b"a\0b", {}, "it is not text"),
        ("a.txt", "x", {"kind": "poem"}, "'poem' is not a kind of document"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_file(library, name, content, how, message):
    path = library.write(name, content)

    with pytest.raises(DocumentError, match=message) as caught:
        to_text(path, **how)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DocumentError, match="there is no such file"):
        to_text(tmp_path / "a.txt")
    with pytest.raises(DocumentError, match="cannot be read"):
        to_text(tmp_path)


def test_the_kind_may_be_said_where_the_ending_does_not(library):
    assert read_text_file(library, "download", pdf("From the net."), kind="pdf") == "From the net."
    assert read_text_file(library, "a.html", "<b>x</b>", kind="text") == "<b>x</b>"


@pytest.mark.parametrize(
    ("name", "content", "module"),
    [("a.docx", docx(paragraph("x")), "mammoth"), ("a.pptx", pptx(["x"]), "pptx.package")],
)
def test_a_missing_package_says_what_to_install(library, monkeypatch, name, content, module):
    monkeypatch.setitem(__import__("sys").modules, module, None)

    with pytest.raises(MissingExtraError, match=r'pip install "dokimos\[retrieval\]"'):
        read_text_file(library, name, content)


def test_an_office_file_that_unpacks_to_far_too_much_is_refused(library, monkeypatch):
    monkeypatch.setattr("dokimos.suites._retrieval.text_extraction.LARGEST_PART", 10)

    with pytest.raises(DocumentError, match=r"its part .*xml is too large when it is unpacked"):
        read_text_file(library, "a.docx", docx(paragraph("x")))


def test_files_that_are_far_too_large_are_refused(library, monkeypatch):
    monkeypatch.setattr("dokimos.suites._retrieval.text_extraction.LARGEST_BYTES", 10)

    with pytest.raises(DocumentError, match="it has 11 bytes; at most 10 are read"):
        read_text_file(library, "a.txt", "x" * 11)
