"""What importing and installing dokimos costs, asserted on what is loaded rather than on time."""

import ast
import importlib
import json
import runpy
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import dokimos
import dokimos.evaluators

ROOT = Path(__file__).parents[2]
HEAVY = {"pydantic", "aiohttp", "asyncio", "click", "rich", "yaml", "jsonschema_rs", "sacrebleu", "nltk"}
CORE_PACKAGES = 24
FRAMEWORKS = {"pydantic_ai", "openai", "anthropic", "httpx", "httpx2", "numpy", "optuna"}
UNASKED = {
    "dokimos.comparison", "dokimos.exporters._html", "dokimos.gate", "dokimos.judges._anthropic",
    "dokimos.judges._cache", "dokimos.judges._embeddings", "dokimos.judges._ollama", "dokimos.simulation",
    "dokimos.suites._argument_matchers", "dokimos._dashboard",
    "dokimos.optimizer._search", "dokimos.importers._promptfoo", "dokimos.suites._retrieval.collection",
    "dokimos.suites._tools", "dokimos.testing", "dokimos.traces", "rich", "sqlite3",
}  # fmt: skip
"""What a suite needs only where it says so, or not at all."""
AGENT = """
def agent(text):
    return text
"""
CASES = """
evaluations: {metrics: [{type: standard, metric: contains, values: [verdict]}]}
test_cases: [{input: verdict}, {input: the verdict}]
"""


def modules_after(statement, folder=None):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    return set(json.loads(outcome.stdout.splitlines()[-1]))


def modules_of(folder, *arguments):
    """Return what a command loads that ends well."""
    return modules_after(
        f"from dokimos._cli.main import run_command\nassert run_command({arguments}) == 0", folder
    )


def within(modules, packages):
    """Return those of some modules that are in packages, or are them."""
    return {name for name in modules for package in packages if f"{name}.".startswith(f"{package}.")}


@pytest.fixture
def endpoint():
    """The URL of an application that gives one answer."""

    class Application(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = b'{"output": "the verdict"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Application) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    "statement",
    [
        "import dokimos",
        "from dokimos import Example, EvalTestCase, Score, ToolCall, ExperimentResult",
        'from dokimos import Dataset; Dataset.from_json(text=\'{"examples": [{"input": 1}]}\')',
        "from dokimos.evaluators import ExactMatch; ExactMatch()",
        "from dokimos import errors",
    ],
)
def test_nothing_heavy_is_loaded_by(statement):
    assert modules_after(statement) & HEAVY == set()


def test_importing_dokimos_loads_only_its_version():
    loaded = {name for name in modules_after("import dokimos") if name.startswith("dokimos")}

    assert loaded == {"dokimos", "dokimos._version"}


def test_the_library_never_loads_the_command_line():
    statement = "import dokimos\nfor name in dokimos.__all__: getattr(dokimos, name)"

    assert modules_after(statement) & {"click", "dokimos._cli"} == set()


def test_help_loads_the_commands_it_tells_of_and_nothing_they_need():
    core = {name for name in modules_after("import dokimos._cli.main") if name.startswith("dokimos")}

    assert core == {
        "dokimos",
        "dokimos._cli",
        "dokimos._cli.exit_codes",
        "dokimos._cli.main",
        "dokimos.errors",
        "dokimos._version",
    }
    for command in ("run", "test", "list", "gate"):
        loaded = modules_after(f"from dokimos._cli.main import run_command\nrun_command([{command!r}, '-h'])")
        assert within(loaded, HEAVY - {"click"} | {"dokimos._core.results", "dokimos.experiment"}) == set()


def test_recorded_outputs_are_scored_without_pydantic_or_a_client(tmp_path):
    rows = [{"input": word, "expected_output": word, "actual_output": word} for word in ("a", "b")]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))

    loaded = modules_of(tmp_path, "run", "answers.jsonl", "-e", "exact_match", "-q")

    assert (
        within(loaded, {"pydantic", "aiohttp", "yaml", "dokimos.suites", *FRAMEWORKS, *UNASKED} - {"rich"})
        == set()
    )


def test_a_data_set_is_validated_without_loading_suites(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"input": "a"}\n')

    loaded = modules_of(tmp_path, "validate", "rows.jsonl")

    assert within(loaded, {"pydantic", "aiohttp", "yaml", "dokimos.suites", "dokimos.experiment"}) == set()


def test_a_suite_loads_what_it_names(tmp_path):
    (tmp_path / "app.py").write_text(AGENT)
    (tmp_path / "suite.yaml").write_text(f"name: small\nagent: app.py:agent\n{CASES}")

    loaded = modules_of(tmp_path, "test", "suite.yaml", "-q")

    unasked = {*FRAMEWORKS, *UNASKED, "aiohttp", "dokimos.integrations", "dokimos.suites._agent"}
    assert within(loaded, unasked) == set()


def test_a_suite_of_an_endpoint_loads_one_client(tmp_path, endpoint):
    (tmp_path / "suite.yaml").write_text(f"name: small\nagent: {endpoint}\n{CASES}")

    loaded = modules_of(tmp_path, "test", "suite.yaml", "-q")

    unasked = {*FRAMEWORKS, *UNASKED, "dokimos.integrations", "dokimos.suites._agent"}
    assert within(loaded, unasked) == set()


def test_a_declared_agent_loads_its_framework_and_the_provider_of_its_model(tmp_path):
    pytest.importorskip("pydantic_ai")
    servers = runpy.run_path(str(ROOT / "tests" / "servers" / "tool_calling.py"))
    with servers["ToolCallingServer"]() as server:
        model = f"model: {{provider: openai, name: small, base_url: '{server.base_url}', api_key: secret}}"
        declared = f"name: small\n{model}\ninstructions: {{inline: Help.}}\n{CASES}"
        (tmp_path / "suite.yaml").write_text(declared)

        loaded = modules_of(tmp_path, "test", "suite.yaml", "-q")

    others = {"dokimos.integrations.langchain", "dokimos.integrations.openai", "anthropic", "mcp", "fastmcp"}
    assert "pydantic_ai" in loaded
    assert within(loaded, others | UNASKED) == set()


@pytest.mark.parametrize("name", dokimos.__all__)
def test_every_public_name_is_there(name):
    assert getattr(dokimos, name) is not None
    assert name in dir(dokimos)


@pytest.mark.parametrize("name", dokimos.evaluators.__all__)
def test_every_evaluator_is_there(name):
    assert getattr(dokimos.evaluators, name) is not None
    assert name in dir(dokimos.evaluators)


@pytest.mark.parametrize("package", [dokimos, dokimos.evaluators])
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchThing'"):
        _ = package.NoSuchThing


@pytest.mark.parametrize("package", [dokimos, dokimos.evaluators])
def test_editors_see_the_same_names_as_python(package):
    """The imports for type checkers name each public thing, from the module that it is loaded from."""
    seen = dict(type_checking_imports(Path(package.__file__)))

    assert seen.keys() == set(package.__all__) - {"__version__"}
    for name, module in seen.items():
        if module != "dokimos":
            assert getattr(importlib.import_module(module), name) is getattr(package, name)


def type_checking_imports(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    for statement in guarded.body:
        for alias in statement.names:
            yield alias.asname, statement.module


def test_a_core_install_stays_small():
    closure = runpy.run_path(str(ROOT / "benchmarks" / "install_budget.py"))["closure"]

    packages = closure("dokimos")

    assert {"dokimos", "pydantic", "pydantic-core", "aiohttp", "yarl"} <= packages
    assert len(packages) <= CORE_PACKAGES, sorted(packages)
