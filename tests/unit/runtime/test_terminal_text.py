"""Foreign text is shown, and does nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._runtime.terminal_text import escape_control_characters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[32m100 % passed", "\\u001b[2J\\u001b[32m100 % passed"),
        ("\x9b2J\x85", "\\u009b2J\\u0085"),
        ("NUL \x00, BEL \x07, BS \x08, DEL \x7f", "NUL \\u0000, BEL \\u0007, BS \\u0008, DEL \\u007f"),
        ("99 % failed\r100 % passed", "99 % failed\\u000d100 % passed"),
        ("\u202egnp.exe\u2066\u2069", "\\u202egnp.exe\\u2066\\u2069"),
        ("a\u200bb\ufeffc\u2060d\u00ade", "a\\u200bb\\ufeffc\\u2060d\\u00ade"),
        ("line\u2028line\u2029", "line\\u2028line\\u2029"),
        ("tag \U000e0041", "tag \\udb40\\udc41"),
        ("lone \ud800", "lone \\ud800"),
        ("pass\u200ded\u200c", "pass\\u200ded\\u200c"),
        ("\u200d\u200d\u200d", "\\u200d\\u200d\\u200d"),
    ],
)
def test_what_acts_or_hides_is_written_as_an_escape(text, shown):
    assert escape_control_characters(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\nof two lines\r\n",
        "👩\u200d👩\u200d👧 🏳️\u200d🌈 🧑🏽\u200d💻",
        "می\u200cخواهم",
        "क्\u200dष and श्री\u200c",
        "Grüße, 東京, שלום, ✓",
    ],
)
def test_what_people_write_stays_as_it_is(text):
    assert escape_control_characters(text) == text


@given(st.text(st.characters(categories=("L", "N", "P", "C", "Z"))))
def test_to_be_visible_is_to_stay_so_and_escapes_are_those_of_json(text):
    shown = escape_control_characters(text)
    assert escape_control_characters(shown) == shown
    assert not set(shown) & set(map(chr, [0, 0x1B, *range(0x7F, 0xA0), 0x200B, *range(0x202A, 0x202F)]))
    written = json.dumps(text, ensure_ascii=False)
    assert json.loads(escape_control_characters(written)) == json.loads(written)
