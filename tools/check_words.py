"""Check that names and texts use the field's words; CONTRIBUTING.md has the glossary.

    python tools/check_words.py

Prints each place that does not, and exits with 1 where there is one: a function or module that is named by a
past participle, a word of our own for which the field has one, an idiom that no native speaker would write.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from messages import messages
from style_measures import Function, is_participle

ROOT = Path(__file__).parents[1]
SOURCE = "src/dokimos/**/*.py"
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "docs/**/*.md", "examples/**/*.md")

ALLOWED_WORDS = {
    "balanced": "balanced accuracy, a statistic",
    "clustered": "clustered standard errors, a statistic",
    "corrected": "the corrected rate, a statistic",
    "paired": "paired tests, a statistic",
    "skewed": "a skewed distribution",
    "standardised": "the standardised mean difference, a statistic",
    "stratified": "stratified sampling, a statistic",
    "weighted": "the weighted mean, a statistic",
}
"""First words of functions that compute what is called so."""
ALLOWED_NAMES = {
    "passed": "the public constructor of a result that passed, `EvalResult.passed`",
    "failed": "the public constructor of a result that failed, `EvalResult.failed`",
    "calibrated": '`GateConfig.calibrated()`, the settings of `severity="calibrated"`',
    "expected_output_as": "the typed accessor of `expected_output`, as `input_as` is that of `input`",
    "recorded_task": "the public name of a task that answers from recordings",
}
BANNED_WORDS = {
    "told": "the neutral message, the text or the call itself",
    "noted": "recorded",
    "settled": "resolved",
    "wanted": "selected, or required",
    "left_out": "excluded",
    "stand_ins": "placeholders",
}
"""Words of our own, and what the field says."""
BANNED_IDIOMS = {
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|more|less|fewer|doubt|one|different|better)[a-z]+": (
        "not a ..."
    ),
    r"\b[Gg]o on with\b": "continue with",
    r"\bwhat is told\b": "name it",
    r"\bwithin each other\b": "nested",
    r"\bnobody (?:told|tells)\b": "not recorded",
    r"\botherwise than\b": "differently from",
    r"\bgoes on with\b": "continues with",
    r"\b(?:without a word|to the letter)\b": "silently, or exactly",
    r"\ball the same\b": "still, or equal",
    r"(?<!nothing )(?<!anything )\bbut for\b": "except for",
}
"""Patterns in messages, pages and comments, and what to write instead."""


def main() -> None:
    """Print all findings, and exit with 1 where there is one."""
    found = [*find_names(ROOT), *find_idioms(ROOT)]
    for line in found:
        print(line)
    if found:
        sys.exit(f"{len(found)} places do not use the field's words; see the glossary in CONTRIBUTING.md.")


def find_names(root: Path) -> Iterator[str]:
    """Yield each module, function and variable of the library that is not named by the field's word."""
    for path in sorted(root.glob(SOURCE)):
        place = path.relative_to(root)
        stem = path.stem.strip("_")
        # An adjective before a noun says what is in a module: `failed_items`.
        if stem in BANNED_WORDS or ("_" not in stem and is_participle(stem)):
            yield f"{place}: the module is named by a participle; name what is in it."
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function) and (why := _fault_of(node)):
                yield f"{place}:{node.lineno}: {node.name}(): {why}"
            elif isinstance(node, ast.Name | ast.arg | ast.Attribute):
                name = {ast.Name: "id", ast.arg: "arg", ast.Attribute: "attr"}[type(node)]
                word = str(getattr(node, name)).strip("_")
                if word in BANNED_WORDS:
                    yield f"{place}:{node.lineno}: {word!r}: the field says {BANNED_WORDS[word]}."


def _fault_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    name = function.name.strip("_")
    if name in BANNED_WORDS:
        return f"the field says {BANNED_WORDS[name]}."
    first = name.split("_")[0]
    if not is_participle(name) or first in ALLOWED_WORDS or name in ALLOWED_NAMES or _is_property(function):
        return ""
    return "a function is named by a verb, not by a past participle."


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = (ast.unparse(each) for each in function.decorator_list)
    return any(each.endswith(("property", ".setter")) for each in decorators)


def find_idioms(root: Path) -> Iterator[str]:
    """Yield each banned idiom in messages, comments, docstrings and pages."""
    for path in sorted(root.glob(SOURCE)):
        text = path.read_text(encoding="utf-8")
        yield from _idioms_in(path.relative_to(root), messages(text))
        yield from _idioms_in(path.relative_to(root), _comments(text))
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            yield from _idioms_in(path.relative_to(root), lines)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of comments and docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith('"""')
        if is_docstring or token.type == tokenize.COMMENT:
            yield from enumerate(token.string.splitlines(), token.start[0])


def _idioms_in(place: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    for line, text in lines:
        for pattern, instead in BANNED_IDIOMS.items():
            if match := re.search(pattern, text):
                yield f"{place}:{line}: {match[0]!r}: write {instead!r}."


if __name__ == "__main__":
    main()
