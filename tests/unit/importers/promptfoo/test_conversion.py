"""Whole configurations of promptfoo as suites that load and run."""

import json
import textwrap

import pytest
import yaml

from dokimos._cli.main import run_command
from dokimos.errors import ConfigurationError
from dokimos.importers._promptfoo.conversion import convert
from dokimos.suites import load_suite

ECHO = """
def call_api(prompt, options, context):
    return {"output": prompt + options["config"].get("end", "")}
"""
CHECK = """
def get_assert(output, context):
    return context["vars"]["word"] in output
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path


def converted(place, text, **files):
    (place / "promptfooconfig.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    for name, content in files.items():
        (place / name.replace("__", ".")).write_text(textwrap.dedent(content).lstrip("\n"), encoding="utf-8")
    return convert(place / "promptfooconfig.yaml")


def only(result):
    (suite,) = result.suites.values()
    return suite


def cases(place, text, **files):
    return only(converted(place, text, **files))["test_cases"]


def imported(place, *arguments):
    status = run_command(["import", "promptfoo", "promptfooconfig.yaml", *arguments])
    return status, load_suite("agent.yaml")


def test_a_test_becomes_a_case_with_its_prompt_as_input(place):
    suite = only(converted(place, """
        description: Capitals
        prompts: ["Answer briefly: {{ question }}"]
        providers: [openai:chat:gpt-5-mini]
        tests:
          - description: France
            vars: {question: "capital of France?"}
            assert: [{type: equals, value: Paris}]
    """))  # fmt: skip

    assert suite["name"] == "Capitals"
    assert suite["model"] == {"provider": "openai", "name": "gpt-5-mini"}
    (case,) = suite["test_cases"]
    assert case["input"] == "Answer briefly: capital of France?"
    assert case["ground_truth"] == "Paris"
    assert suite["evaluations"]["metrics"] == [{"type": "standard", "metric": "equality"}]


def test_the_suite_loads_and_runs_with_python_providers_and_assertions(place, capsys):
    (place / "check.py").write_text(CHECK)
    (place / "promptfooconfig.yaml").write_text(textwrap.dedent("""
        prompts: ["say {{word}}"]
        providers: [{id: "file://echo.py", config: {end: "!"}}]
        tests:
          - vars: {word: yes}
            assert:
              - {type: equals, value: "say yes!"}
              - {type: python, value: "len(output) == 8"}
              - {type: python, value: "file://check.py"}
              - {type: not-python, value: "'no' in output"}
          - vars: {word: '{"a": 1}'}
            assert: [{type: contains-json, value: {required: [a]}}, {type: not-is-json}]
    """).replace("word: yes", 'word: "yes"'))  # fmt: skip

    status, suite = imported(place)

    assert status == 0
    result = suite.experiment().run(journal=False, progress=False)
    assert [item.success for item in result.item_results] == [True, True]
    assert "changed: a Python provider" in capsys.readouterr().out


def test_python_assertions_that_fail_fail_the_case(place):
    (place / "promptfooconfig.yaml").write_text(
        "prompts: [hello]\nproviders: ['file://echo.py']\n"
        "tests: [{assert: [{type: python, value: 'len(output)', threshold: 9}]},"
        " {assert: [{type: python, value: \"if output:\\n    return {'pass': False, 'reason': 'no'}\"}]}]\n"
    )

    _, suite = imported(place)
    result = suite.experiment().run(journal=False, progress=False)

    assert [item.success for item in result.item_results] == [False, False]
    assert result.item_results[1].eval_results[0].reason == "no"


def test_several_prompts_and_providers_make_one_suite_each(place):
    result = converted(place, """
        prompts: [{raw: "A {{x}}", label: first}, {raw: "B {{x}}", label: second}]
        providers: [openai:gpt-5-mini, {id: "anthropic:messages:claude-x", label: Claude}]
        tests:
          - {vars: {x: one}, assert: [{type: contains, value: one}]}
          - {vars: {x: two}, providers: [Claude], assert: [{type: contains, value: two}]}
    """)  # fmt: skip

    assert list(result.suites) == [
        "agent-first-openai-gpt-5-mini.yaml", "agent-first-claude.yaml",
        "agent-second-openai-gpt-5-mini.yaml", "agent-second-claude.yaml",
    ]  # fmt: skip
    assert [len(suite["test_cases"]) for suite in result.suites.values()] == [1, 2, 1, 2]


def test_suites_of_several_prompts_and_providers_say_that_they_are_one_matrix(place):
    result = converted(place, """
        description: Capitals
        prompts: [{raw: "A {{x}}", label: "first ${HOME} {{x}}"}, {raw: "B {{x}}", label: second}]
        providers: [openai:gpt-5-mini, {id: "anthropic:messages:claude-x", label: Claude}]
        tests: [{vars: {x: one}}]
    """)  # fmt: skip

    assert {suite["experiment"] for suite in result.suites.values()} == {"Capitals"}
    assert [suite["metadata"] for suite in result.suites.values()] == [
        {"matrix": ["prompt", "provider"], "prompt": prompt, "provider": provider}
        for prompt in ("first $${HOME} {{x}}", "second")
        for provider in ("openai:gpt-5-mini", "Claude")
    ]


def test_one_provider_makes_a_matrix_of_prompts_and_one_pair_none(place):
    several = converted(place, "prompts: [a, b]\nproviders: [openai:m]\ntests: [{vars: {x: one}}]\n")
    alone = converted(place, "prompts: [a]\nproviders: [openai:m]\ntests: [{vars: {x: one}}]\n")

    assert [suite["metadata"]["matrix"] for suite in several.suites.values()] == [["prompt"], ["prompt"]]
    assert not {"experiment", "metadata"} & only(alone).keys()


def test_prompts_that_are_cut_to_the_same_text_stay_two_columns(place):
    long = "x" * 300
    result = converted(
        place, f"prompts: ['{long}a', '{long}b']\nproviders: [openai:m]\ntests: [{{vars: {{x: one}}}}]\n"
    )

    prompts = [suite["metadata"]["prompt"] for suite in result.suites.values()]
    assert prompts == [f"{'x' * 200}…", f"{'x' * 200}… (2)"]


def test_a_name_is_the_same_test_in_all_suites_of_a_matrix(place):
    result = converted(place, """
        prompts: [{raw: "A {{x}}", label: first}, {raw: "B {{x}}", label: second}]
        providers: [openai:m]
        tests:
          - {description: same, prompts: [first], vars: {x: one}}
          - {description: same, vars: {x: two}}
          - {description: same (2), vars: {x: three}}
    """)  # fmt: skip

    names = [
        [(case["name"], case["input"][2:]) for case in suite["test_cases"]]
        for suite in result.suites.values()
    ]
    assert names == [
        [("same", "one"), ("same (2)", "two"), ("same (2) (2)", "three")],
        [("same (2)", "two"), ("same (2) (2)", "three")],
    ]


def test_the_runs_of_a_matrix_belong_to_one_experiment_and_name_their_pair(place):
    (place / "promptfoo.yaml").write_text(
        "description: Capitals\nprompts: ['A {{x}}', 'B {{x}}']\nproviders: ['file://echo.py']\n"
        "tests: [{vars: {x: one}, assert: [{type: contains, value: A}]}]\n"
    )
    assert run_command(["import", "promptfoo", "promptfoo.yaml", "-o", "s.yaml"]) == 0

    results = [
        load_suite(path).experiment().run(journal=False, progress=False)
        for path in sorted(place.glob("s-*.yaml"))
    ]

    assert [result.name for result in results] == ["Capitals", "Capitals"]
    assert [result.metadata["prompt"] for result in results] == ["A {{x}}", "B {{x}}"]
    assert [[item.example.id for item in result.item_results] for result in results] == [["one"], ["one"]]
    assert [result.item_results[0].success for result in results] == [True, False]


def test_chat_prompts_give_instructions(place):
    suite = only(converted(
        place,
        "prompts: ['file://chat.json']\nproviders: [ollama:chat:llama]\ntests: [{vars: {q: hi}}]\n",
        chat__json='[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{q}}"}]',
    ))  # fmt: skip

    assert suite["instructions"] == {"inline": "Be brief."}
    assert suite["test_cases"][0]["input"] == "hi"


def test_a_system_message_that_differs_from_test_to_test_stands_before_the_input(place):
    result = converted(
        place,
        "prompts: ['file://chat.json']\nproviders: [openai:m]\ntests: [{vars: {q: a}}, {vars: {q: b}}]\n",
        chat__json='[{"role": "system", "content": "Say {{q}}."}, {"role": "user", "content": "go"}]',
    )

    assert [case["input"] for case in only(result)["test_cases"]] == ["go", "Say b.\n\ngo"]
    assert any("differs from test to test" in text for text in result.notes.changed)


def test_tables_hold_tests_with_short_assertions(place):
    france, peru = cases(
        place,
        "prompts: ['{{question}}']\nproviders: ['file://echo.py']\ntests: file://tests.csv\n",
        tests__csv='''
        question,__expected1,__expected2,__metadata:tags[],__description,__config:__expected2:threshold
        capital of France?,Paris,latency(90): ,"geo,europe",France,
        capital of Peru?,"contains-any: Lima,""li, ma""",levenshtein: Lima,,,1
        '''.replace("        ", ""),
    )

    assert (france["name"], france["ground_truth"], france["tags"]) == ("France", "Paris", ["geo", "europe"])
    assert {"type": "standard", "metric": "latency", "max_ms": 90.0} in france["evaluations"]
    assert peru["evaluations"][0]["values"] == ["Lima", "li, ma"]
    assert peru["evaluations"][1] == {"type": "standard", "metric": "levenshtein", "threshold": 0.75}


def test_tests_come_from_yaml_json_and_lines_of_json(place):
    found = cases(
        place,
        "prompts: ['{{q}}']\nproviders: [openai:m]\n"
        "tests: ['file://a.yaml', b.json, 'file://c.jsonl', 'file://d.py']\n",
        a__yaml="- vars: {q: one}\n",
        b__json=json.dumps([{"vars": {"q": "two"}}]),
        c__jsonl='{"vars": {"q": "three"}}\n',
    )

    assert [case["input"] for case in found] == ["one", "two", "three"]


def test_defaults_lists_and_scenarios_are_spread_out(place):
    found = cases(place, """
        prompts: ["{{greeting}} in {{language}}"]
        providers: [openai:m]
        defaultTest: {vars: {greeting: hello}, assert: [{type: latency, threshold: 9}]}
        tests: [{vars: {language: [French, German]}}]
        scenarios:
          - config: [{vars: {language: Thai}}, {vars: {language: Lao}}]
            tests: [{vars: {greeting: bye}, assert: [{type: contains, value: "{{language}}"}]}]
    """)  # fmt: skip

    assert [case["input"] for case in found] == [
        "hello in French", "hello in German", "bye in Thai", "bye in Lao",
    ]  # fmt: skip
    assert [len(case["evaluations"]) for case in found] == [1, 1, 2, 2]
    assert found[3]["evaluations"][1]["values"] == ["Lao"]


def test_metrics_that_all_cases_share_stand_once(place):
    suite = only(converted(place, """
        prompts: ["{{q}}"]
        providers: [openai:m]
        defaultTest: {assert: [{type: is-json}]}
        tests: [{vars: {q: a}}, {vars: {q: b}}]
    """))  # fmt: skip

    assert suite["evaluations"]["metrics"] == [{"type": "standard", "metric": "json_schema", "schema": {}}]
    assert all("evaluations" not in case for case in suite["test_cases"])


def test_variables_name_each_other_files_and_the_environment(place):
    (case,) = cases(
        place,
        "prompts: ['{{text}} {{env.USER}} {{ name | upper }} {{ data.k }} ${X}']\nproviders: [openai:m]\n"
        "tests: [{vars: {text: 'dear {{name}}', name: Ann, data: 'file://d.json', picture: 'file://p.png'}}]\n",
        d__json='{"k": "v"}',
    )

    assert case["input"] == "dear Ann ${USER:-} ANN v $${X}"
    assert case["files"] == [{"path": "p.png", "type": "image"}]


def test_what_cannot_be_converted_is_listed_and_strict_says_so(place, capsys):
    (place / "promptfooconfig.yaml").write_text(textwrap.dedent("""
        prompts: ["{% if x %}a{% endif %}{{ x }}"]
        providers: [bedrock:some.model]
        extensions: [file://hooks.js]
        tests:
          - vars: {x: 1}
            description: "{% switch x %}"
            threshold: 0.5
            options: {storeOutputAs: x}
            assert:
              - {type: moderation}
              - {type: javascript, value: "JSON.parse(output).ok"}
              - {type: not-llm-rubric, value: rude}
              - {type: levenshtein, value: a, transform: "output.x"}
    """))  # fmt: skip

    status, _ = imported(place, "--strict")

    told = capsys.readouterr().out
    assert status == 1
    for text in ("cannot be rendered", "bedrock:some.model", "extensions", "threshold of a whole test",
                 "the option storeOutputAs", "moderation", "by Node", "no negated form",
                 "a transform changes the reply"):  # fmt: skip
        assert text in told
    head = (place / "agent.yaml").read_text().partition("name:")[0]
    assert head.count("# not converted") == told.count("! not converted")


def test_a_prompt_with_conditions_is_rendered_and_one_that_cannot_be_is_left_out(place):
    result = converted(place, """
        prompts: ["{% if polite %}Please answer: {% endif %}{{ q }}"]
        providers: [openai:m]
        tests:
          - {vars: {q: "Why?", polite: true}, description: "{{ q | upper }}"}
          - {vars: {q: "Why not?"}}
          - {vars: {q: "{% include 'x' %}", polite: true}}
          - {vars: {q: {a: 1}}}
          - {vars: {q: "{{ [] | first | first }}"}, assert: [{type: is-json, metric: "{{ q | nope }}"}]}
    """)  # fmt: skip

    assert [case["input"] for case in only(result)["test_cases"]] == ["Please answer: Why?", "Why not?"]
    assert only(result)["test_cases"][0]["name"] == "WHY?"
    assert sum("a test: the template" in line for line in result.notes.lines()) == 3


def test_keys_are_named_and_never_copied(place):
    result = converted(place, """
        prompts: ["{{q}}"]
        providers:
          - {id: "openai:m", config: {apiKey: sk-very-secret, apiBaseUrl: "https://proxy.example/v1"}}
          - {id: "groq:llama", config: {temperature: 0.5, max_tokens: 9}}
          - {id: "azure:chat:deployed", config: {apiHost: my.azure.com, apiKey: "{{env.MY_KEY}}"}}
        tests: [{vars: {q: x}}]
    """)  # fmt: skip

    assert "sk-very-secret" not in json.dumps(result.suites)
    models = [suite["model"] for suite in result.suites.values()]
    assert models[0] == {"provider": "openai", "name": "m", "base_url": "https://proxy.example/v1"}
    assert (models[1]["api_key"], models[1]["max_tokens"]) == ("${GROQ_API_KEY:-}", 9)
    assert (models[2]["provider"], models[2]["base_url"]) == ("azure_openai", "https://my.azure.com")
    assert models[2]["api_key"] == "${MY_KEY:-}"


def test_endpoints_and_commands_become_agents(place):
    result = converted(place, """
        prompts: ["{{q}}"]
        providers:
          - id: "https://app.example/chat"
            config: {headers: {x: "{{env.K}}"}, transformResponse: json.reply.text}
          - exec:./app.sh --fast
        tests: [{vars: {q: x}}]
    """)  # fmt: skip

    web, program = result.suites.values()
    assert web["agent"].pop("url") == "https://app.example/chat"
    assert web["agent"] == {"headers": {"x": "${K:-}"}, "output_path": "reply.text"}
    assert program["agent"] == {"command": "./app.sh --fast"}


def test_a_judge_that_nobody_named_is_named(place):
    suite = only(converted(place, """
        prompts: ["{{q}}"]
        providers: [file://echo.py]
        tests: [{vars: {q: x}, assert: [{type: llm-rubric, value: is kind}]}]
    """))  # fmt: skip

    assert suite["evaluations"]["model"] == {"provider": "openai", "name": "gpt-5-mini"}


def test_repeats_and_parallel_cases_are_kept(place):
    suite = only(converted(place, """
        prompts: ["{{q}}"]
        providers: [openai:m]
        evaluateOptions: {repeat: 3, maxConcurrency: 2}
        tests: [{vars: {q: x}, metadata: {area: money, tags: [a]}}]
    """))  # fmt: skip

    assert suite["execution"] == {"parallel_test_cases": 2}
    assert suite["test_cases"][0]["repeats"] == 3
    assert (suite["test_cases"][0]["metadata"], suite["test_cases"][0]["tags"]) == ({"area": "money"}, ["a"])


def test_nothing_is_written_over(place, capsys):
    (place / "promptfooconfig.yaml").write_text("prompts: [hi]\nproviders: ['file://echo.py']\ntests: [{}]\n")
    (place / "agent.yaml").write_text("mine")

    assert run_command(["import", "promptfoo", "promptfooconfig.yaml"]) == 2
    assert (place / "agent.yaml").read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert run_command(["import", "promptfoo", "promptfooconfig.yaml", "--force"]) == 0
    suite = yaml.safe_load((place / "agent.yaml").read_text())
    assert suite["agent"]["callable"] == "agent_programs.py:provider_1"


@pytest.mark.parametrize("text", ["just: this\n", "[1, 2]\n", "prompts: [\n"])
def test_a_file_of_another_kind_is_refused(place, text):
    with pytest.raises(ConfigurationError, match=r"promptfooconfig\.yaml"):
        converted(place, text)


def test_questions_in_a_flow_list_and_scalars_of_yaml_1_2_are_read(place):
    found = cases(
        place,
        """
        prompts: ["{{q}}"]
        providers: [echo]
        tests:
          - vars: {q: [What is it?, Where?]}
            metadata: {code: 012, rate: 1e-6, open: no, at: 18:30}
            assert: [{type: contains, value: "1e-6"}]
        """,
    )

    assert [case["input"] for case in found] == ["What is it?", "Where?"]
    assert found[0]["metadata"] == {"code": 12, "rate": 1e-6, "open": "no", "at": "18:30"}


def test_a_text_that_looks_like_a_number_is_a_text_in_the_suite_too(place):
    converted(
        place,
        """
        prompts: ["{{q}}"]
        providers: [echo]
        tests:
          - vars: {q: "1e5"}
            metadata: {code: "1e-6", open: "no", old: "012"}
            assert: [{type: contains, value: "1e-6"}]
        """,
    )

    status, suite = imported(place)

    assert (status, suite.warnings) == (0, ())
    assert suite.cases[0].metadata == {"code": "1e-6", "open": "no", "old": "012"}


def test_data_in_json_that_is_broken_is_named_with_its_line(place):
    with pytest.raises(ConfigurationError, match=r"tests.json:2:9: this is not valid JSON"):
        converted(
            place, "prompts: [a]\nproviders: [echo]\ntests: file://tests.json", tests__json='[\n{"vars":bad}]'
        )
