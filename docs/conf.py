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

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "agent_pages",
    "command_reference",
    "evaluator_catalogue",
    "evaluator_table",
    "http_reference",
    "search_index",
    "sizing_tables",
    "suite_reference",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated", "skills"]
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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_search_scorer = str(HERE / "search_scorer.js")
pygments_style = "friendly"
pygments_dark_style = "monokai"

# What people type that the title of the page does not say.
search_words = {
    "guide/agents": ("tool calls", "function calling", "agent"),
    "guide/calibration": ("human labels", "judge accuracy"),
    "guide/cassettes": ("cache",),
    "guide/coming-from-deepeval": ("golden", "LLMTestCase"),
    "guide/coming-from-dokimos-jvm": ("Java", "Kotlin", "JUnit", "Spring", "Maven", "migration"),
    "guide/coming-from-langfuse": ("dataset items", "trace export"),
    "guide/coming-from-phoenix": ("Arize", "OpenInference"),
    "guide/coming-from-ragas": ("SingleTurnSample", "answer relevancy"),
    "guide/coding-agents": ("coding agent", "coding assistant", "Claude Code", "Cursor", "Copilot"),
    "guide/command-reference": ("command line options", "flags"),
    "guide/comparing-runs": ("A/B test", "diff"),
    "guide/conversations": ("chatbot", "dialogue"),
    "guide/cost": ("cost", "latency", "price", "budget", "tokens"),
    "guide/datasets": ("dataset", "golden set"),
    "guide/evaluators": ("custom metric", "metric", "assertion"),
    "guide/first-evaluation": ("getting started", "tutorial"),
    "guide/how-it-works": ("architecture",),
    "guide/http-api": ("REST API", "OpenAPI", "Swagger", "endpoint"),
    "guide/judged-evaluators": ("LLM judge", "LLM as a judge", "hallucination", "G-Eval", "rubric"),
    "guide/judges": ("Ollama", "vLLM", "rate limit", "provider"),
    "guide/notebooks": ("DataFrame", "pandas", "Colab"),
    "guide/rag": ("RAG", "faithfulness", "precision at k", "recall at k", "context relevance"),
    "guide/regression-gate": ("flaky", "quality gate"),
    "guide/server-deployment": ("Docker", "docker compose", "Kubernetes", "Helm", "reverse proxy"),
    "guide/server-operation": ("Prometheus", "health check"),
    "guide/server-review": ("annotation", "human feedback"),
    "guide/server-traces": ("observability", "monitoring"),
    "guide/server-web": ("dashboard",),
    "guide/simulation": ("synthetic user",),
    "guide/statistics": ("p value", "sample size", "confidence interval"),
    "guide/threat-model": ("security", "privacy"),
}


def setup(app):
    if "sphinx.ext.autodoc" in app.extensions:  # builds of the search index alone leave it out
        app.connect("autodoc-process-docstring", as_restructured_text)


SECTIONS = {"Args:": "Parameters", "Raises:": "Raises", "Returns:": "Returns"}


def as_restructured_text(app, what, name, obj, options, lines):
    """Turn a docstring into reStructuredText: sections as lists, and what only looks like markup escaped."""
    text_and_examples = re.split(
        r"(^ *>>>.*?(?:\n *\n|\Z))", "\n".join(lines), flags=re.MULTILINE | re.DOTALL
    )
    text_and_examples[::2] = [_escape_markup(text) for text in text_and_examples[::2]]
    lines[:] = _with_lists("".join(text_and_examples).split("\n"))


def _escape_markup(text):
    # Text and `code` in turn.
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [re.sub(r"([*|])", r"\\\1", piece) for piece in pieces[::2]]
    # A letter right after code, such as the plural in `Score`s, needs a separator that does not show.
    pieces[2::2] = [re.sub(r"\A(?=\w)", r"\\ ", piece) for piece in pieces[2::2]]
    return "".join(pieces)


def _with_lists(lines):
    """Write each section of parameters or exceptions as a list, one entry for each."""
    written, inside = [], False
    for line in lines:
        if line in SECTIONS:
            inside = True
            written.append(f":{SECTIONS[line]}:")
        elif not inside or (line and not line.startswith(" ")):
            inside = False
            written.append(line)
        elif entry := re.match(r" {4}(\S.*?): (?=\S)", line):
            written.append(f"   - **{entry[1]}**: {line[entry.end() :]}")
        elif line.strip():
            # The rest of an entry, or a sentence that names nothing.
            written.append(f"     {line.strip()}" if written[-1].startswith("   ") else f"   {line.strip()}")
        else:
            written.append(line)
    return written
