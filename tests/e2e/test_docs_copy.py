"""The button on a block of code copies what a reader would type; prompts for agents name the site."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "_static" / "copy.js"
BLOCKS = {
    "x = 1\nprint(x)\n": "x = 1\nprint(x)",
    "$ dokimos run \\\n    data.csv\n5 items\n$ dokimos view\n": "dokimos run \\\n    data.csv\ndokimos view",
    ">>> for x in y:\n...     f(x)\n...\n3\n": "for x in y:\n    f(x)\n",
    "Read DOKIMOS_DOCS/llms.txt.\n": "Read http://docs.test/llms.txt.",
}


@pytest.fixture
def page(chromium):
    page = chromium.new_page()
    yield page
    page.close()


def test_a_click_copies_the_code_without_prompts_and_output(page):
    # A page from a file may not use the clipboard of the machine, and no test should.
    page.add_init_script("window.copied = []")
    page.goto("about:blank")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => copied.push(text)}})"
    )
    page.evaluate("document.documentElement.dataset.content_root = 'http://docs.test/'")
    page.evaluate(
        """texts => {
            for (const text of texts) {
                const block = document.createElement("div");
                block.className = "highlight";
                block.append(document.createElement("pre"));
                block.firstChild.textContent = text;
                document.body.append(block);
            }
        }""",
        list(BLOCKS),
    )
    page.add_script_tag(content=SCRIPT.read_text(encoding="utf-8"))
    page.evaluate("document.dispatchEvent(new Event('DOMContentLoaded'))")
    for button in page.get_by_role("button").all():
        button.click()
        assert button.text_content() == "Copied"

    assert page.evaluate("copied") == list(BLOCKS.values())
