"""The recorded comparison of judged evaluators: its page, its recordings, and the figures made of them."""

import importlib.util
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "judge_agreement"
PAGE = ROOT / "docs" / "validity" / "judges.md"


def load(name):
    spec = importlib.util.spec_from_file_location(f"judge_agreement_{name}", PROGRAM / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


measures, store = load("measures"), load("store")
Pair = measures.Pair


def run(*arguments):
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_page_shows_the_tables_that_the_program_prints():
    done = run("table")

    assert (done.returncode, done.stderr) == (0, "")
    shown = PAGE.read_text(encoding="utf-8").partition("<!-- recorded: begin -->")[2]
    assert shown.partition("<!-- recorded: end -->")[0].strip() == done.stdout.strip()


def test_our_evaluators_give_the_recorded_results_from_the_recorded_replies():
    done = run("replay")

    # After a change of a prompt: `record` asks a model for what is new, see docs/validity/judges.md.
    assert (done.returncode, done.stdout, done.stderr) == (0, "All results are as recorded.\n", "")


@pytest.mark.parametrize(
    ("evaluator", "cases"),
    [("llm_judge", 40), ("faithfulness", 40), ("answer_relevancy", 20), ("correctness", 20)],
)
def test_each_input_has_a_good_and_a_bad_output_and_a_result_of_every_arm(evaluator, cases):
    lines = (PROGRAM / "cases" / f"{evaluator}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    results = map(json.loads, (PROGRAM / "results.jsonl").read_text(encoding="utf-8").splitlines())
    judged = [row["case"] for row in results if row["case"].startswith(evaluator) and row["arm"] != "tried"]

    assert [row["label"] for row in rows] == [True, False] * (cases // 2)
    assert all(good["input"] == bad["input"] for good, bad in zip(rows[::2], rows[1::2], strict=True))
    assert sorted(judged) == sorted(f"{evaluator}/{row['id']}" for row in rows for _ in range(3))


def test_auc_is_the_share_of_pairs_in_order_with_ties_as_half():
    pairs = [Pair(0.9, 0.1), Pair(0.5, 0.5)]

    assert measures.auc(pairs).value == (1 + 1 + 1 + 0.5) / 4


def test_an_auc_of_one_is_not_certain():
    found = measures.auc([Pair(1.0, 0.0)] * 20)

    assert (found.value, found.interval.high) == (1.0, 1.0)
    assert 0.8 < found.interval.low < 0.95


def test_a_missing_score_is_a_wrong_verdict_and_an_undecided_order():
    pairs = [Pair(1.0, 0.0), Pair(None, 0.0)]

    assert measures.auc(pairs).value == 0.75
    assert measures.kappa(pairs, 0.5).value == 0.5
    assert measures.kappa([Pair(None, None)] * 4, 0.5).value == -1


def test_kappa_has_the_interval_of_the_right_verdicts():
    found = measures.kappa([Pair(1.0, 0.0)] * 8 + [Pair(1.0, 1.0)] * 2, 0.5)

    assert found.value == pytest.approx(2 * 18 / 20 - 1)
    assert -1 <= found.interval.low < found.value < found.interval.high <= 1


def test_equal_judges_differ_by_nothing_but_not_for_certain():
    pairs = [Pair(0.7, 0.2), Pair(0.4, 0.6)] * 5
    found = measures.auc_difference(pairs, pairs)

    assert found.value == 0
    assert found.interval.low < 0 < found.interval.high


def test_a_judge_that_is_right_where_another_guesses_is_better():
    right, guess = [Pair(1.0, 0.0)] * 20, [Pair(1.0, 1.0), Pair(0.0, 0.0)] * 10
    by_auc = measures.auc_difference(right, guess)
    by_kappa = measures.kappa_difference(right, guess, at=(0.5, 0.5))

    assert (by_auc.value, by_kappa.value) == (0.5, 1.0)
    assert by_auc.interval.low > 0
    assert by_kappa.interval.low > 0
    assert measures.auc_difference(guess, right).interval.high < 0


@pytest.fixture
def model():
    """A model server that counts what it is asked."""

    class Model(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.asked += 1
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            choice = {"message": {"content": body["messages"][0]["content"].upper()}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 7, "completion_tokens": 3}
            data = json.dumps({"choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.asked = 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(replies, text):
    found = replies.complete("ours", {"messages": [{"role": "user", "content": text}], "temperature": 0.7})
    return found["choices"][0]["message"]["content"]


def test_what_was_asked_once_is_never_asked_again_but_counts_again(model, tmp_path):
    url = f"http://127.0.0.1:{model.server_port}"
    first = store.ReplyStore(tmp_path, model_url=url)
    first.begin_case("a/01a")
    assert ask(first, "hello") == "HELLO"

    second = store.ReplyStore(tmp_path, model_url=url)
    second.begin_case("a/01a")
    assert [ask(second, "hello"), ask(second, "hello")] == ["HELLO", "HELLO"]
    assert model.asked == 1
    assert second.usage() == store.Usage(calls=2, prompt_tokens=14, reply_tokens=6)


def test_a_recording_that_was_killed_in_the_middle_of_a_line_goes_on(model, tmp_path):
    url = f"http://127.0.0.1:{model.server_port}"
    ask(store.ReplyStore(tmp_path, model_url=url), "one")
    path = tmp_path / "ours.jsonl"
    path.write_bytes(path.read_bytes() + b'{"key": "ab", "re')

    ask(store.ReplyStore(tmp_path, model_url=url), "two")
    replayed = store.ReplyStore(tmp_path)

    assert [ask(replayed, "one"), ask(replayed, "two")] == ["ONE", "TWO"]
    assert model.asked == 2


def test_the_random_marker_of_a_fence_does_not_make_a_question_new():
    prompts = ['<material 0a1b2c3d name="Input">\n| x', '<material ffffffff name="Input">\n| x']

    assert len({store.key_of({"messages": prompt}) for prompt in prompts}) == 1
    assert store.key_of({"messages": prompts[0] + "y"}) != store.key_of({"messages": prompts[0]})


def test_a_question_that_is_not_recorded_is_an_error_that_names_the_case(tmp_path):
    replies = store.ReplyStore(tmp_path)
    replies.begin_case("faithfulness/03b")
    server = store.serve(replies)
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.server_port}/ours/v1/chat/completions", b'{"messages": []}'
    )

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as answer:
        assert answer.code == 404
        assert b"faithfulness/03b asks what is not recorded" in answer.read()
    assert replies.missing == ["faithfulness/03b"]
    server.shutdown()
    server.server_close()
