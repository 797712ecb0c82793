"""Workbooks as text."""

import io
import zipfile
from datetime import date, datetime, time, timedelta

import pytest

from dokimos.errors import DocumentError
from dokimos.suites._retrieval.text_extraction import to_text

openpyxl = pytest.importorskip("openpyxl")


def workbook(*sheets, epoch=openpyxl.utils.datetime.CALENDAR_WINDOWS_1900):
    """Return a workbook of sheets, each with its name and its cells by their place."""
    book = openpyxl.Workbook()
    book.epoch = epoch
    book.remove(book.active)
    for name, cells in sheets:
        sheet = book.create_sheet(name)
        for place, value in cells.items():
            sheet[place] = value
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def xlsx():
    return workbook(
        ("Sales", {
            "A1": "Region", "B1": "Day", "C1": "Sum | net",
            "A2": "North", "B2": date(2023, 3, 15), "C2": 7.5,
            "B4": datetime(2023, 3, 15, 12), "C4": True,
        }),
        ("Notes", {"B2": 1}),
    )  # fmt: skip


def read(library, content):
    return to_text(library.write("a.xlsx", content))


def test_a_workbook_becomes_tables(library):
    path = library.write("a.xlsx", xlsx())

    assert to_text(path) == (
        "## Sales\n\n"
        "| Region | Day | Sum \\| net |\n| --- | --- | --- |\n"
        "| North | 2023-03-15 | 7.5 |\n|  | 2023-03-15 12:00:00 | TRUE |\n\n"
        "## Notes\n\n| 1 |\n| --- |"
    )
    assert to_text(path, sheet="Notes") == "| 1 |\n| --- |"
    assert to_text(path, range="B1:$C$2") == "| Day | Sum \\| net |\n| --- | --- |\n| 2023-03-15 | 7.5 |"


def test_cells_are_written_as_people_read_them(library):
    cells = {"A1": 3, "B1": 0.1, "C1": date(2024, 2, 29), "D1": time(3, 4), "E1": "#N/A", "F1": "a\nb"}

    text = read(library, workbook(("Odd", cells)))

    assert text.splitlines()[0] == "| 3 | 0.1 | 2024-02-29 | 03:04:00 | #N/A | a b |"


def test_dates_of_a_workbook_that_counts_from_1904_are_right(library):
    made = workbook(
        ("A", {"A1": date(2024, 2, 29), "A2": timedelta(hours=30)}),
        epoch=openpyxl.utils.datetime.CALENDAR_MAC_1904,
    )

    text = read(library, made)

    assert text == "| 2024-02-29 |\n| --- |\n| 1 day, 6:00:00 |"


def test_cells_in_far_corners_are_a_small_table(library):
    text = read(library, workbook(("A", {"A1": "here", "XFD1048576": "there"})))

    assert text == "| here |  |\n| --- | --- |\n|  | there |"


def test_a_range_may_begin_at_any_of_its_corners(library):
    path = library.write("a.xlsx", xlsx())

    assert to_text(path, range="c2:b1") == to_text(path, range="B1:C2")
    assert to_text(path, range="A9") == ""


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sheet": "Sale"}, "no sheet 'Sale'; there are 'Sales', 'Notes'"),
        ({"range": "1:2"}, "'1:2' is not a range"),
    ],
)
def test_a_part_that_is_not_there_is_an_error_that_names_the_file(library, how, message):
    path = library.write("a.xlsx", xlsx())

    with pytest.raises(DocumentError, match=message) as caught:
        to_text(path, **how)
    assert str(caught.value).startswith(f"{path}: ")


def test_an_archive_that_is_not_a_workbook_is_an_error_that_names_the_file(library):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr("x", "y")

    with pytest.raises(DocumentError, match=r"a\.xlsx: .*cannot be read as excel and may be damaged"):
        read(library, written.getvalue())
