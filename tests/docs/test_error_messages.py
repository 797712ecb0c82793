"""The page on error messages quotes what the code says, so that people find it by the text of theirs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "error-messages.md"
JOINT = re.compile(r"[\"']\n\s+f?[\"']")
"""Between two parts of one text in the source."""


def test_each_quoted_message_is_one_of_the_code():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "dokimos").rglob("*.py"))
    source = JOINT.sub("", source)
    quoted = re.findall(r"^### `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    pieces = {message: [part.strip() for part in message.split("...")] for message in quoted}

    assert len(quoted) > 40
    lost = {
        message: part
        for message, parts in pieces.items()
        for part in parts
        if part and part not in source and part.replace("'", '"') not in source
    }
    assert lost == {}
