"""The pictures of the README: they are there, small, and made by their script from the demo."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = re.findall(r'(?:src|srcset)="([^"]+)"', README)
LARGEST = 200_000


def test_the_readme_shows_pictures_that_are_small_and_ask_nobody() -> None:
    assert len(PICTURES) >= 3
    for name in PICTURES:
        content = (ROOT / name).read_bytes()
        assert len(content) < LARGEST
        if name.endswith(".svg"):
            assert b"url(http" not in content
            assert b"Eval gate FAILED" in content.replace(b"&#160;", b" ")


def test_the_readme_is_one_screen_of_text_and_its_links_lead_somewhere() -> None:
    prose = re.sub(r"```.*?```|^\|.*\|$|<[^>]+>", "", README, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) < 300
    for link in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / link).is_file()


@pytest.mark.browser
def test_the_script_makes_them(chromium: object, tmp_path: Path) -> None:
    chromium.close()  # type: ignore[attr-defined] # one browser at a time
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "pictures.py"), str(tmp_path)], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert {path.name for path in tmp_path.iterdir()} == {Path(name).name for name in PICTURES}
    assert (tmp_path / "gate.svg").read_text() == (ROOT / "docs" / "images" / "gate.svg").read_text()
