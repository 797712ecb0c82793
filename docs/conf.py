"""Configuration of the documentation site."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from dokimos._version import __version__  # noqa: E402 - after the path is set

project = "dokimos"
author = "The dokimos developers"
copyright = "The dokimos developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "evaluator_table", "suite_reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated"]
root_doc = "index"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # a block in a language without a lexer is shown plain

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": False}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
default_role = "code"
add_module_names = False

html_theme = "furo"
html_title = f"dokimos {__version__}"
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def setup(app):
    app.connect("autodoc-process-docstring", as_restructured_text)


def as_restructured_text(app, what, name, obj, options, lines):
    """Escape in docstrings what reStructuredText would read as markup, but not in `code` and examples."""
    text_and_examples = re.split(
        r"(^ *>>>.*?(?:\n *\n|\Z))", "\n".join(lines), flags=re.MULTILINE | re.DOTALL
    )
    text_and_examples[::2] = [_escape_markup(text) for text in text_and_examples[::2]]
    lines[:] = "".join(text_and_examples).split("\n")


def _escape_markup(text):
    outside_of_code = re.split(r"(`[^`]*`)", text)
    outside_of_code[::2] = [re.sub(r"([*|])", r"\\\1", piece) for piece in outside_of_code[::2]]
    return re.sub(r"(`[^`]+`)(?=\w)", r"\1\\ ", "".join(outside_of_code))
