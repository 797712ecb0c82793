"""Readers find each page in one of a few groups."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TREE = re.compile(r'```\{toctree\}\n:hidden:\n:caption: "([^"]+)"\n\n(.*?)```', re.DOTALL)


def test_each_page_is_in_one_of_at_most_eight_groups():
    groups = TREE.findall((DOCS / "index.md").read_text(encoding="utf-8"))
    listed = [name for _, names in groups for name in names.split()]
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for folder in ("", "guide", "validity")
        for path in (DOCS / folder).glob("*.md")
    }

    assert len(groups) <= 8
    assert max(len(names.split()) for _, names in groups) <= 15
    assert sorted(listed) == sorted(pages - {"index"} | {"api/index"})
