"""What the tables of the migration pages promise exists: each of our names, options and variables."""

import ast
import builtins
import importlib
import inspect
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import click
import pytest

import dokimos
from dokimos._cli.main import cli

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
TOOLS = ("dokimos-jvm", "deepeval", "ragas", "langfuse", "phoenix")
PAGES = [GUIDE / f"coming-from-{tool}.md" for tool in TOOLS]
PACKAGES = (
    "dokimos", "dokimos.evaluators", "dokimos.testing", "dokimos.simulation", "dokimos.judges",
    "dokimos.integrations", "dokimos.integrations.langchain", "dokimos.client", "dokimos.traces",
    "dokimos.errors", "dokimos.gate",
)  # fmt: skip
VALUES = {
    "call": dokimos.ToolCall, "case": dokimos.EvalTestCase, "evaluator": dokimos.evaluators.ExactMatch,
    "example": dokimos.Example, "experiment": dokimos.Experiment, "result": dokimos.ExperimentResult,
    "trace": dokimos.AgentTrace, "trajectory": dokimos.ConversationTrajectory,
}  # fmt: skip
"""What variables of the tables stand for; other variables may only be passed on."""
COLUMN = "dokimos"
CODE = re.compile(r"`([^`]+)`")
ANY_VALUE = object()
WORDS_OF_PYTHON = {"async def", "await"}
CLASSES_OF_THE_JVM = (
    "ExactMatchEvaluator", "RegexEvaluator", "LLMJudgeEvaluator", "StructuralMatchEvaluator",
    "FaithfulnessEvaluator", "HallucinationEvaluator", "ContextualRelevanceEvaluator",
    "PrecisionEvaluator", "RecallEvaluator", "ToolCallValidityEvaluator", "ToolCorrectnessEvaluator",
    "ToolTrajectoryEvaluator", "ToolErrorEvaluator", "ToolEfficiencyEvaluator",
    "TaskCompletionEvaluator", "ToolArgumentHallucinationEvaluator", "ToolNameReliabilityEvaluator",
    "ToolDescriptionReliabilityEvaluator", "TrajectoryEvaluator", "BaseEvaluator", "Evaluator",
    "EvalResult", "EvalTestCase", "EvalTestCaseParam", "JudgeLM", "MatchingStrategy",
    "StructuralMatchMode", "ArgumentMatcher", "TolerantArgumentMatcher", "ArgMatchMode", "MatchMode",
    "AgentTrace", "ToolCall", "ToolDefinition", "CompletableFuture",
)  # fmt: skip
"""The classes that the pages on evaluators and agents of Dokimos for the JVM name."""


def rows_of(page):
    """Return the rows of the tables that have a column for us: the cells, and which is ours."""
    rows, ours = [], None
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            ours = None
        elif ours is None:
            ours = cells.index(COLUMN) if COLUMN in cells else -1
        elif ours >= 0 and not line.startswith("|---"):
            rows.append((cells, ours))
    return rows


def spans_of(page):
    return [span for row, ours in rows_of(page) for span in CODE.findall(row[ours])]


@cache
def sources():
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "dokimos").rglob("*.py"))


def is_in_sources(text):
    return text in sources()


@cache
def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"].keys()


def check_command(text):
    command, context = cli, click.Context(cli)
    for word in shlex.split(text)[1:]:
        if isinstance(command, click.Group):
            command = command.get_command(context, word)
            assert command is not None, f"there is no command {text!r}"
        elif word.startswith("-"):
            known = [name for parameter in command.params for name in parameter.opts]
            assert word.partition("=")[0] in known, f"{text!r}: there is no option {word}"


def check_pytest_options(text):
    for option in re.findall(r"--dokimos-[a-z-]+", text):
        assert is_in_sources(f'"{option}"'), f"there is no option {option}"


def find(name):
    """Return the object of a public name, or what a variable of that name stands for."""
    if name in VALUES:
        return VALUES[name]
    if name == "dokimos":
        return dokimos
    for package in map(importlib.import_module, PACKAGES):
        if name in getattr(package, "__all__", vars(package)):
            return getattr(package, name)
    if name == "langchain":
        return importlib.import_module("dokimos.integrations.langchain")
    return getattr(builtins, name, None)


def check_expression(node, *, passed_on=False):
    """Return the object that an expression names; what is passed to a call may be any variable."""
    match node:
        case ast.Name(id=name):
            found = find(name)
            assert passed_on or found is not None, f"there is no {name}"
            return found
        case ast.Attribute(value=value, attr=attribute):
            owner = check_expression(value)
            fields = getattr(owner, "__dataclass_fields__", {})
            assert hasattr(owner, attribute) or attribute in fields, f"{ast.unparse(node)} does not exist"
            return getattr(owner, attribute, ANY_VALUE)
        case ast.Call(func=function, args=positional, keywords=keywords):
            for argument in [*positional, *(keyword.value for keyword in keywords)]:
                check_expression(argument, passed_on=True)
            called = check_expression(function)
            check_arguments(called, node)
            return called if inspect.isclass(called) else ANY_VALUE
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    check_expression(child, passed_on=True)
            return ANY_VALUE


def check_arguments(called, node):
    if called is ANY_VALUE:
        return
    assert callable(called), f"{ast.unparse(node.func)} is not callable"
    # The signature of a dataclass that checks its settings itself names none of them.
    parameters = getattr(called, "__dataclass_fields__", None) or inspect.signature(called).parameters
    if "settings" in parameters:
        return
    for keyword in node.keywords:
        assert keyword.arg in parameters, f"{ast.unparse(node.func)} has no {keyword.arg}"


def check_span(span):
    """Fail if a piece of code in our column names something that does not exist."""
    if span.startswith("dokimos "):
        check_command(span)
    elif span.partition(" ")[0] == "pytest":
        check_pytest_options(span)
    elif span.startswith("pip install") or re.fullmatch(r"dokimos\[.*\]", span):
        assert set(",".join(re.findall(r"\[(.*?)\]", span)).split(",")) - {""} <= extras(), span
    elif span.startswith("@pytest.mark.dokimos_live("):
        assert is_in_sources('"dokimos_live')
    elif span.startswith("--") or re.fullmatch(r"[A-Z]+_[A-Z_]+", span):
        assert is_in_sources(f'"{span}"'), f"nothing reads {span}"
    elif re.fullmatch(r"[./]?[\w.]+/[\w/.]+", span):
        assert is_in_sources(span.rpartition("/")[2]), f"{span} is not in the sources"
    elif span not in WORDS_OF_PYTHON and not is_in_sources(f" {span}("):  # a method or a fixture
        check_expression(parse(span))


def parse(span):
    text = span.removeprefix("@").removeprefix("await ")
    return ast.parse(text.replace("pytest.mark.dokimos(", "dataset_source("), mode="eval").body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_of_our_names_in_the_tables_exists(page):
    problems = []
    for span in spans_of(page):
        try:
            check_span(span)
        except (AssertionError, SyntaxError) as error:
            problems.append(f"{span}: {error}")

    assert problems == []
    assert len(spans_of(page)) > 10


def test_a_name_that_does_not_exist_is_found():
    for span in (
        "NoSuchThing",
        "Faithfulness(nothing=1)",
        "result.nothing",
        "dokimos run --nothing",
        "DOKIMOS_NONE",
    ):
        with pytest.raises(AssertionError):
            check_span(span)


def test_each_class_of_the_jvm_has_a_row():
    theirs = " ".join(" ".join(row[:ours]) for row, ours in rows_of(GUIDE / "coming-from-dokimos-jvm.md"))

    assert [name for name in CLASSES_OF_THE_JVM if not re.search(rf"\b{name}\b", theirs)] == []
