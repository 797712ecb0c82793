"""Datasets in a browser: making one, uploading, editing beside others, and comparing versions."""

import pytest
from tests.e2e.conftest import visits

HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>\u202ereversed'
NAME = 'a/b % "<i>'
PATH = "/datasets/a%2Fb%20%25%20%22%3Ci%3E"


@pytest.fixture(scope="module")
def server(start_server):
    process = start_server()
    items = [
        {"inputs": {"question": f"case {number}"}, "expectedOutputs": {"a": "x"}} for number in range(450)
    ]
    process.call("POST", "/datasets", {"name": NAME, "description": HOSTILE})
    process.call("POST", f"{PATH}/versions", {"items": [{"inputs": {"question": HOSTILE}}, *items]})
    changes = [{"op": "add", "inputs": {"question": HOSTILE, "number": 1}}]
    process.call("POST", f"{PATH}/versions/latest/edits", {"changes": changes, "description": HOSTILE})
    return process


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server.address, "status of 40") as open_page:
        yield open_page


def test_each_page_shows_hostile_data_as_text_and_has_no_barriers(visit, server, find_barriers):
    page = visit("/datasets", width=360, scheme="dark")
    assert find_barriers(page) == []
    page.get_by_role("link", name="a/b").last.click()
    page.locator(".row.case").first.wait_for()
    assert page.locator(".row.case").count() < 60  # of 452: only those in sight are in the page
    assert "⟨U+202E⟩" in page.locator(".row.case").first.inner_text()
    assert find_barriers(page) == []
    page.get_by_label("Search items").fill("case 449")
    page.get_by_text("1 found").wait_for()

    page.get_by_role("link", name="to version 1").click()

    page.get_by_text("0 items changed, 1 added, 0 removed").wait_for()
    assert "⟨U+202E⟩" in page.locator(".cases article").inner_text()
    assert find_barriers(page) == []


def test_a_file_becomes_a_version_and_a_wrong_one_is_told_by_its_line(visit, server):
    page = visit("/datasets")
    page.get_by_role("button", name="New dataset").click()
    page.get_by_label("Name").fill("uploads")
    page.keyboard.press("Enter")
    form = page.get_by_role("form", name="Upload a version")
    choose = form.get_by_label("File")

    choose.set_input_files([{"name": "a.json", "mimeType": "", "buffer": b'[\n{"inputs": {}},\noops]'}])
    form.get_by_role("button", name="Upload", exact=True).click()
    form.get_by_role("alert").get_by_text("line 3").wait_for()
    choose.set_input_files([{"name": "a.jsonl", "mimeType": "", "buffer": b'{"inputs": {"q": 1}}\n[]\n'}])
    form.get_by_role("button", name="Upload", exact=True).click()
    form.get_by_role("alert").get_by_text("line 2").wait_for()
    table = b"id,inputs.question\none,What?\ntwo,Where?\n"
    choose.set_input_files([{"name": "a.csv", "mimeType": "", "buffer": table}])
    form.get_by_role("button", name="Upload", exact=True).click()

    page.get_by_text("Version 1 has 2 items").wait_for()
    page.locator(".row.case").get_by_text("Where?").wait_for()
    assert server.call("GET", "/datasets/uploads")[1]["latestVersion"] == 1


def test_edits_become_a_version_unless_another_one_came_meanwhile(visit, server):
    page = visit(PATH)
    page.locator(".row.case").get_by_text("case 3", exact=True).click()
    drawer = page.get_by_role("form", name="Dataset item")
    drawer.get_by_label("Metadata (JSON)").fill("{")
    drawer.get_by_role("button", name="Keep the change").click()
    drawer.get_by_role("alert").get_by_text("not JSON").wait_for()
    drawer.get_by_label("Metadata (JSON)").fill("")
    drawer.get_by_label("Expected outputs").fill("better")
    drawer.get_by_role("button", name="Keep the change").click()
    edits = page.get_by_role("form", name="Changes that are not saved")
    changes = [{"op": "add", "inputs": {"question": "of somebody else"}}]
    server.call("POST", f"{PATH}/versions/latest/edits", {"changes": changes})

    edits.get_by_role("button", name="Save as a new version").click()
    edits.get_by_text("Version 3 came in the meantime").wait_for()
    edits.get_by_role("link", name="See what it changed").click()
    page.get_by_text("0 items changed, 1 added, 0 removed").wait_for()
    page.go_back()
    edits.get_by_text("1 changed, not saved.").wait_for()
    edits.get_by_role("button", name="Save mine on top of it").click()

    page.get_by_text("Saved as version 4").wait_for()
    summary = server.call("GET", f"{PATH}/diff?from=2&to=4")[1]["summary"]
    assert (summary["changed"], summary["added"], summary["removed"]) == (1, 1, 0)
