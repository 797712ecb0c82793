"""Renders the templates of a chart: the part of Go's templates and of Helm's functions that ours use.

Helm is not everywhere, and what it would make of the templates is what matters. Whatever else a template uses
is an error.
"""

import json
import re
from pathlib import Path

import yaml

TOKEN = re.compile(r"\{\{(?P<before>- )?\s*(?P<action>.*?)\s*(?P<after> -)?\}\}", re.DOTALL)
WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|]+)')
BLOCKS = ("if", "with", "define")


class Chart:
    """A chart with values, as `helm template` takes them.

    Args:
        folder: The folder of the chart.
        changes: Values that replace those of `values.yaml`, as nested maps.
    """

    def __init__(self, folder, changes=None):
        values = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
        chart = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        self._root = {
            "Values": merge(values, changes or {}),
            "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
            "Release": {"Name": "test", "Namespace": "evals", "Service": "Helm"},
        }
        self._named = {}
        self._folder = folder
        self._render_file(folder / "templates" / "_helpers.tpl")

    def render(self):
        """Return the documents by their kind."""
        texts = [self._render_file(path) for path in sorted((self._folder / "templates").glob("*.yaml"))]
        documents = [yaml.safe_load(text) for text in texts]
        return {document["kind"]: document for document in documents if document is not None}

    def render_notes(self):
        """Return what is printed after an installation."""
        return self._render_file(self._folder / "templates" / "NOTES.txt")

    def _render_file(self, path: Path):
        nodes, rest = parse(tokenize(path.read_text(encoding="utf-8")))
        assert not rest, f"{path}: {rest[0]}"
        return self._render(nodes, self._root)

    def _render(self, nodes, dot):
        return "".join(self._render_node(node, dot) for node in nodes)

    def _render_node(self, node, dot):
        match node:
            case str():
                return node
            case ("print", action):
                return to_text(self._evaluate(action, dot))
            case ("define", name, [(_, body)]):
                self._named[json.loads(name)] = body
                return ""
            case (kind, _, branches):
                for condition, body in branches:
                    value = True if condition is None else self._evaluate(condition, dot)
                    if value:
                        is_with = kind == "with" and condition is not None
                        return self._render(body, value if is_with else dot)
                return ""

    def _evaluate(self, action, dot):
        words = WORD.findall(action)
        value = self._pipeline(words, dot)
        assert not words, action
        return value

    def _pipeline(self, words, dot):
        """Evaluate commands, each of which gets the value of the one before it as its last argument."""
        values = []
        while True:
            values = [self._command(words, dot, values)]
            if not words or words[0] != "|":
                return values[0]
            words.pop(0)

    def _command(self, words, dot, piped):
        operands = []
        name = words.pop(0) if re.fullmatch(r"[a-z]\w*", words[0]) and words[0] != "true" else None
        while words and words[0] not in ("|", ")"):
            operands.append(self._operand(words, dot))
        if name is None:
            [value] = [*operands, *piped]
            return value
        if name == "include":
            template, scope = operands
            return self._render(self._named[template], scope)
        return FUNCTIONS[name](*operands, *piped)

    def _operand(self, words, dot):
        word = words.pop(0)
        if word == "(":
            value = self._pipeline(words, dot)
            assert words.pop(0) == ")"
            return value
        if word.startswith("."):
            value = dot
            for name in filter(None, word.split(".")):
                value = value[name]  # one that is not there is an error, which Helm would not find
            return value
        return json.loads(word)


def merge(values, changes):
    """Return values with changes in them, as Helm merges maps and replaces everything else."""
    merged = dict(values)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def tokenize(text):
    """Return texts and actions in turn, without the white space that actions remove."""
    tokens, end, trims = [], 0, False
    for match in TOKEN.finditer(text):
        before = text[end : match.start()]
        before = before.lstrip() if trims else before
        tokens += [before.rstrip() if match["before"] else before, ("action", match["action"])]
        end, trims = match.end(), bool(match["after"])
    return [*tokens, text[end:].lstrip() if trims else text[end:]]


def parse(tokens):
    """Return the nodes up to what ends their block, and the tokens from there."""
    nodes = []
    while tokens:
        token, *tokens = tokens
        if isinstance(token, str):
            nodes.append(token)
            continue
        word, _, rest = token[1].partition(" ")
        if word in ("end", "else"):
            return nodes, [token, *tokens]
        if word not in BLOCKS:
            nodes.append(("print", token[1]))
            continue
        branches, condition = [], rest
        while True:
            body, [(_, end), *tokens] = parse(tokens)
            branches.append((condition, body))
            if end == "end":
                break
            condition = end.removeprefix("else").strip().removeprefix("if").strip() or None
        nodes.append((word, rest, branches))
    return nodes, []


def to_text(value):
    """Return what Go prints."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def require_value(message, value):
    """Return a value, or fail as an installation does."""
    assert value, message
    return value


def refuse_values(message):
    """Fail as an installation does."""
    raise AssertionError(message)


FUNCTIONS = {
    "addf": lambda *numbers: float(sum(numbers)),
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "contains": lambda part, text: part in text,
    "default": lambda default, value: value or default,
    "div": lambda number, divisor: number // divisor,
    "fail": refuse_values,
    "float64": float,
    "ge": lambda number, other: number >= other,
    "gt": lambda number, other: number > other,
    "int": int,
    "join": lambda separator, values: separator.join(values),
    "nindent": lambda spaces, text: "".join(f"\n{' ' * spaces}{line}" for line in text.split("\n")),
    "not": lambda value: not value,
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "printf": lambda text, *values: text % values,
    "quote": lambda value: json.dumps(to_text(value)),
    "replace": lambda old, new, text: text.replace(old, new),
    "required": require_value,
    "ternary": lambda yes, no, condition: yes if condition else no,
    "toJson": lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True),
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).strip(),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda length, text: text[:length],
}
