from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint

import jsonschema_rs
import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators import registry
from dokimos.evaluators._base import COMMON_FIELDS, Evaluator
from dokimos.evaluators._parameters import _strings_below_fields, descriptions, summarize
from dokimos.evaluators._retrieval.ranking_metrics import Recall
from dokimos.evaluators._text import Contains, Regex

NAMES = [
    "exact_match",
    "equality",
    "regex",
    "contains",
    "length",
    "levenshtein",
    "numeric",
    "structural_match",
    "json_schema",
    "set_match",
    "injection_resistance",
    "latency",
    "cost",
    "tokens",
    "f1_score",
    "bleu",
    "chrf",
    "rouge",
    "meteor",
    "wer",
    "embedding_similarity",
    "precision",
    "recall",
    "hit_rate",
    "mrr",
    "ndcg",
    "tool_call_validity",
    "tool_correctness",
    "tool_trajectory",
    "tool_errors",
    "tool_efficiency",
    "forbidden_tools",
    "max_tool_calls",
    "tool_graph",
    "tool_name_reliability",
    "tool_description_reliability",
    "llm_judge",
    "g_eval",
    "jury",
    "pairwise",
    "correctness",
    "helpfulness",
    "coherence",
    "conciseness",
    "completeness",
    "tone",
    "instruction_following",
    "summarisation",
    "refusal",
    "toxicity",
    "bias",
    "misuse",
    "pii_leakage",
    "faithfulness",
    "hallucination",
    "answer_relevancy",
    "contextual_relevance",
    "contextual_precision",
    "contextual_recall",
    "context_sufficiency",
    "noise_sensitivity",
    "citation_faithfulness",
    "task_completion",
    "tool_argument_hallucination",
    "tool_selection",
    "plan_quality",
    "plan_adherence",
    "step_efficiency",
    "trajectory",
    "per_turn",
    "knowledge_retention",
    "role_adherence",
    "turn_relevance",
    "conversation_completeness",
    "user_frustration",
    "function",
]
JUDGE = {"judge": "ollama:some-model"}
MINIMAL = {
    **dict.fromkeys(NAMES[NAMES.index("llm_judge") : NAMES.index("function")], JUDGE),
    "llm_judge": {"criteria": "Is it right?", **JUDGE},
    "g_eval": {"criteria": "Is it right?", **JUDGE},
    "jury": {"judges": ["ollama:some-model", "ollama:another"], "evaluator": "correctness"},
    "regex": {"pattern": "x"},
    "contains": {"values": ["x"]},
    "length": {"max": 5},
    "json_schema": {"schema": {"type": "object"}},
    "latency": {"max_ms": 100},
    "cost": {"max_usd": 0.5},
    "tokens": {"max_tokens": 100},
    "meteor": {"synonyms": False},
    "embedding_similarity": {"embedder": "ollama:some-model"},
    "trajectory": {"criteria": ["helpfulness"], **JUDGE},
    "per_turn": {"evaluator": "exact_match"},
    "function": {"function": "checks_of_test:check"},
    "forbidden_tools": {"tools": ["delete"]},
    "max_tool_calls": {"max": 5},
    "tool_graph": {"rules": [{"before": ["a", "b"]}]},
}


@pytest.fixture
def checks(tmp_path, monkeypatch):
    (tmp_path / "checks_of_test.py").write_text("def check(case): return True\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def fresh_registry(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_name_of", dict(registry._name_of))
    registry._plugins.cache_clear()
    yield
    registry._plugins.cache_clear()


def test_every_evaluator_is_listed():
    assert list(registry.names())[: len(NAMES)] == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("checks")
def test_every_evaluator_is_built_from_what_its_schema_accepts(name):
    validator = jsonschema_rs.validator_for(registry.schema(name))
    params = MINIMAL.get(name, {})
    assert list(validator.iter_errors(params)) == []
    built = registry.build(name, params)
    assert isinstance(built, registry.find(name))
    assert registry.name_of(type(built)) == name
    assert built.info().registry_name == name


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(MINIMAL)))
def test_the_defaults_of_a_schema_build_the_same_evaluator(name):
    defaults = {
        key: prop["default"]
        for key, prop in registry.schema(name)["properties"].items()
        if "default" in prop and key != "name"
    }
    assert registry.build(name, defaults) == registry.build(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_description(name):
    doc = registry.describe(name)
    own = [parameter for parameter in doc.parameters if not parameter.common]
    assert [p.name for p in own if not p.description] == []
    common = [each for each in COMMON_FIELDS if each != "thresholds" or name == "function"]
    assert [p.name for p in doc.parameters if p.common] == common
    assert doc.purpose
    assert doc.result_name


def test_a_summary_says_what_the_description_says_and_reads_no_source(monkeypatch):
    docs = {name: registry.describe(name) for name in NAMES}
    monkeypatch.setattr(inspect, "getsource", lambda kind: pytest.fail(f"the source of {kind} was read"))
    _strings_below_fields.cache_clear()
    descriptions.cache_clear()
    for name, doc in docs.items():
        summary = summarize(name, registry.find(name))
        assert [getattr(summary, f.name) for f in fields(summary)] == [
            getattr(doc, f.name) for f in fields(summary)
        ]
        assert summary.parameter_names == tuple(parameter.name for parameter in doc.parameters)


def test_a_description_tells_what_there_is_to_know():
    doc = registry.describe("regex")
    assert (doc.result_name, doc.requires, doc.threshold) == ("Regex Match", ("actual_output",), 1.0)
    assert (doc.class_name, doc.lower_is_better) == ("dokimos.evaluators._text:Regex", False)
    pattern = doc.parameters[0]
    assert (pattern.name, pattern.type, pattern.required, pattern.default) == ("pattern", "str", True, None)
    assert "regular expression" in pattern.description


def test_a_schema_refuses_what_build_refuses():
    validator = jsonschema_rs.validator_for(registry.schema("length"))
    assert not validator.is_valid({})
    assert not validator.is_valid({"max": 5, "unit": "lines"})
    assert not validator.is_valid({"max": 5, "maximum": 5})
    assert validator.is_valid({"min": 5})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("exat_match", "'exact_match' or 'set_match'"),
        ("Exact Match", "'exact_match' or 'set_match'"),
        ("tool-correctnes", "'tool_correctness' or 'correctness'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(ConfigurationError) as refused:
        registry.find(name)
    told = str(refused.value)
    assert f"Did you mean {nearest}" in told
    assert told.endswith("`dokimos evaluators` lists all.")
    assert len(told) < 200


def test_a_name_that_is_like_no_other_is_refused_with_where_to_look():
    with pytest.raises(
        ConfigurationError, match=r"^Unknown evaluator 'zzz'\. `dokimos evaluators` lists all\.$"
    ):
        registry.find("zzz")


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("regex", {}, r"regex: missing the parameter 'pattern'"),
        ("regex", {"patern": "x"}, r"regex\.patern: there is no such parameter\. Did you mean 'pattern'\?"),
        ("regex", {"pattern": "x", "ignoreCase": True}, r"regex\.ignoreCase: .*Did you mean 'ignore_case'\?"),
        ("regex", {"pattern": 5}, r"regex\.pattern: .*must be a text \(got 5, int\)\. Put it in quotes"),
        ("regex", {"pattern": "("}, "not a regular expression"),
        (
            "numeric",
            {"relative_tolerance": "much"},
            r"numeric\.relative_tolerance: .*number \(got 'much', str\)",
        ),
        ("numeric", {"threshold": True}, r"numeric\.threshold"),
        ("exact_match", {"threshold": 2}, "threshold must be in 0..1"),
        ("contains", {"values": ["a"], "mode": "al"}, r"contains\.mode: .*'any', 'all' or 'none'"),
        ("contains", {"values": ["a", 1]}, r"contains\.values: .*\[1\]: must be a text"),
        ("length", {"max": "ten"}, r"length\.max"),
        ("recall", {"matching": {"feld": "id"}}, "Recall: matching"),
        ("function", {"function": "nowhere:f"}, "cannot be imported"),
    ],
)
def test_wrong_parameters_are_refused_with_their_path(name, params, message):
    with pytest.raises(ConfigurationError, match=message):
        registry.build(name, params)
    with pytest.raises(ConfigurationError, match=r"^suite\.yaml:14: .*"):
        registry.build(name, params, where="suite.yaml:14")


def test_values_are_taken_as_data_and_as_objects():
    assert registry.build("contains", {"values": ["a"], "evaluation_params": ["input"]}) == Contains(
        values=["a"], evaluation_params=("input",)
    )
    assert registry.build("regex", {"pattern": "x", "threshold": 1}) == Regex(pattern="x", threshold=1.0)

    def same(retrieved: object, relevant: object) -> bool:
        return retrieved == relevant

    assert registry.build("recall", {"matching": same, "k": 3}) == Recall(matching=same, k=3)


def test_building_without_parameters_does_not_import_pydantic():
    code = (
        "import sys; from dokimos.evaluators.registry import build; build('exact_match');"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.usefixtures("fresh_registry")
class TestPlugins:
    def test_a_class_can_be_registered(self):
        @registry.register("politeness")
        @dataclass(frozen=True, kw_only=True)
        class Politeness(Evaluator):
            """Passes when the output says please."""

            word: str = "please"
            """What to look for."""

            def score(self, case: EvalTestCase) -> bool:
                return self.word in (case.actual_output or "")

        built = registry.build("politeness", {"word": "thanks"})
        assert isinstance(built, Politeness)
        assert built.name == "Politeness"
        assert "politeness" in registry.names()
        assert registry.describe("politeness").parameters[0].description == "What to look for."

    def test_names_must_be_free_and_in_snake_case(self):
        with pytest.raises(ConfigurationError, match="already"):
            registry.register("regex")(Contains)
        with pytest.raises(ConfigurationError, match="snake_case"):
            registry.register("My Eval")(Contains)
        with pytest.raises(ConfigurationError, match="subclass of Evaluator"):
            registry.register("other")(int)

    def test_installed_plugins_are_found_and_a_broken_one_is_named_and_harms_no_other(self, monkeypatch):
        good = EntryPoint("my_regex", "dokimos.evaluators._text:Regex", registry.ENTRY_POINTS)
        broken = EntryPoint("broken", "no_such_module:Thing", registry.ENTRY_POINTS)
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [good, broken])
        assert registry.find("my_regex") is Regex
        assert {"my_regex", "broken"} <= set(registry.names())
        with pytest.raises(ConfigurationError, match=r"'broken'.*cannot be loaded: ModuleNotFoundError"):
            registry.find("broken")

    def test_a_plugin_that_is_no_evaluator_is_refused(self, monkeypatch):
        wrong = EntryPoint("wrong", "json:dumps", registry.ENTRY_POINTS)
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [wrong])
        with pytest.raises(ConfigurationError, match="'wrong' must be a subclass of Evaluator"):
            registry.find("wrong")

    def test_a_plugin_class_knows_its_name_before_it_is_asked_for_by_name(self, monkeypatch):
        @dataclass(frozen=True, kw_only=True)
        class Local(Evaluator):
            """A class of somebody else's package."""

            def score(self, case: EvalTestCase) -> bool:
                return True

        place = f"{Local.__module__}:{Local.__qualname__}"
        entry = EntryPoint("tone_of_voice", place, registry.ENTRY_POINTS)
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
        assert Local().name == "Tone Of Voice"


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_descriptions_for_yaml_leave_the_python_example_out(name):
    kind = registry.find(name)
    assert ">>>" in (kind.__doc__ or "")
    assert ">>>" not in registry.schema(name)["description"]
    assert ">>>" not in registry.describe(name).details


@pytest.mark.parametrize(
    ("class_name", "name"),
    [("ExactMatch", "exact_match"), ("Faithfulness", "faithfulness"), ("exact_match", None)],
)
def test_the_name_of_a_class_leads_to_its_registry_name(class_name, name):
    assert registry.name_of_class(class_name) == name


def test_the_name_of_a_class_is_explained_where_it_is_no_name():
    with pytest.raises(ConfigurationError, match="ExactMatch is its class; its name is 'exact_match'"):
        registry.find("ExactMatch")
