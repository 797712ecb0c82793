"""Whoever types words of their own into the search of the documentation finds the page at the top."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Names of the API count less than pages, so its slow pages are left out of the index here.
EXTENSIONS = "myst_parser,command_reference,evaluator_catalogue,evaluator_table,search_index,suite_reference"
SCRIPTS = ("base-stemmer.js", "english-stemmer.js", "language_data.js", "searchtools.js")
WITHOUT_A_PAGE = "const SPHINX_HIGHLIGHT_ENABLED = false; const _ready = () => {}; const _ = text => text;"
SEARCH = """query => {
    const found = Search._performSearch(...Search._parseQuery(query)).reverse().map(result => result[0]);
    return [...new Set(found)].slice(0, 3);
}"""
PAGES = {
    "rag": "guide/rag",
    "quickstart": "guide/first-evaluation",
    "getting started": "guide/first-evaluation",
    "tutorial": "guide/first-evaluation",
    "pip install": "install",
    "dataframe": "guide/notebooks",
    "pandas": "guide/notebooks",
    "notebook": "guide/notebooks",
    "jupyter": "guide/notebooks",
    "progress bar": "guide/notebooks",
    "csv": "guide/datasets",
    "jsonl": "guide/datasets",
    "dataset": "guide/datasets",
    "llm judge": "guide/judged-evaluators",
    "llm as a judge": "guide/judged-evaluators",
    "hallucination": "guide/judged-evaluators",
    "faithfulness": "guide/rag",
    "precision at k": "guide/rag",
    "bleu": "guide/text-metrics",
    "tool calls": "guide/agents",
    "multi-turn": "guide/conversations",
    "chatbot": "guide/conversations",
    "langchain": "guide/frameworks/langchain",
    "openai": "guide/frameworks/openai",
    "ollama": "guide/judges",
    "retry": "guide/judges",
    "rate limit": "guide/judges",
    "cache": "guide/cassettes",
    "cost": "guide/cost",
    "latency": "guide/cost",
    "pytest": "guide/pytest",
    "github actions": "guide/ci",
    "gitlab": "guide/ci",
    "flaky": "guide/regression-gate",
    "regression": "guide/regression-gate",
    "a/b test": "guide/comparing-runs",
    "confidence interval": "guide/statistics",
    "sample size": "guide/statistics",
    "human labels": "guide/calibration",
    "custom metric": "guide/evaluators",
    "docker compose": "guide/server-deployment",
    "kubernetes": "guide/server-deployment",
    "helm": "guide/server-deployment",
    "yaml": "guide/suites",
    "exit code": "guide/cli",
    "prompt injection": "guide/judge-integrity",
    "promptfoo": "guide/coming-from-promptfoo",
    "ragas": "guide/migrating",
    "opentelemetry": "guide/opentelemetry",
    "dashboard": "guide/server-web",
    "prometheus": "guide/server-operation",
    "api key": "guide/server-access",
    "postgresql": "guide/server-configuration",
    "slack": "guide/server-alerts",
    "annotation": "guide/server-review",
    "rest api": "guide/http-api",
    "command line options": "guide/command-reference",
    "coding agent": "guide/coding-agents",
    "recipes": "guide/cookbook",
    "invalid or missing api key": "guide/error-messages",
    "malformed request body": "guide/error-messages",
    "security": "guide/threat-model",
    "architecture": "guide/how-it-works",
}


@pytest.fixture(scope="module")
def search(chromium, tmp_path_factory):
    """A function that asks Sphinx's own search, and returns the first three pages."""
    built = tmp_path_factory.mktemp("docs")
    options = ["-b", "search", "-D", f"extensions={EXTENSIONS}", "-D", "html_theme=basic"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", *options, "-d", built / "doctrees", DOCS, built],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = chromium.new_page()
    page.set_content("<div id='search-progress'></div>")
    page.add_script_tag(content=WITHOUT_A_PAGE)
    for path in [*(built / "_static" / name for name in SCRIPTS), built / "searchindex.js"]:
        page.add_script_tag(content=path.read_text(encoding="utf-8"))
    yield lambda query: page.evaluate(SEARCH, query)
    page.close()


def test_each_query_finds_its_page_among_the_first_three(search):
    found = {query: search(query) for query in PAGES}
    missed = {query: (page, found[query]) for query, page in PAGES.items() if page not in found[query]}
    assert missed == {}
