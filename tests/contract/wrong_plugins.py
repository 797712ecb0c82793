"""Plugins that are wrong, each in its own way: for every test of a contract there is one that fails it.

Not collected with the other tests; `test_wrong_plugins.py` runs it. `fails` names the tests that a plugin
must fail, with a part of the sentence that its author then reads.
"""
# ruff: noqa: RUF012 - nobody changes these class attributes

import asyncio
import itertools
import random
import threading
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from dokimos import (
    AgentTrace,
    BaseReporter,
    CallMetrics,
    Dataset,
    DatasetStream,
    EvalResult,
    Evaluator,
    Example,
    JudgeReply,
    RunHandle,
    ToolCall,
)
from dokimos.errors import DatasetError, JudgeUnavailableError
from dokimos.judges import OpenAIChat
from dokimos.testing.contracts import (
    BridgeContract,
    EvaluatorContract,
    ExporterContract,
    HttpJudgeContract,
    JudgeContract,
    ReporterContract,
    ResolverContract,
)

frozen = dataclass(frozen=True, kw_only=True)


# Evaluators


class NotAnEvaluator:
    def evaluate(self, case):
        return 1.0


class TestNotAnEvaluator(EvaluatorContract):
    evaluator = NotAnEvaluator()
    fails = {"test_it_is_a_frozen_dataclass": "must inherit from dokimos.Evaluator"}


@frozen
class Nameless(Evaluator):
    def __post_init__(self):
        """Forget the base."""

    def score(self, case):
        return 1.0


class TestNameless(EvaluatorContract):
    evaluator = Nameless()
    fails = {"test_it_has_a_name": "must call super().__post_init__()"}


@frozen
class Locked(Evaluator):
    """Holds what cannot be copied."""

    lock: Any = field(default_factory=threading.Lock)

    def score(self, case):
        return 1.0


class TestLocked(EvaluatorContract):
    evaluator = Locked()
    fails = {
        "test_it_can_be_copied_pickled_and_changed": "must hold only values that can be copied and pickled",
        "test_its_class_and_settings_are_described": "a string below each of these fields of Locked: lock",
    }


class Client:
    """Has another identity each time it is asked."""

    numbers = itertools.count()

    @property
    def identity(self):
        return f"client {next(self.numbers)}"

    def __eq__(self, other):
        return isinstance(other, Client)

    __hash__ = object.__hash__


@frozen
class Untyped(Evaluator):
    client: Client = field(default_factory=Client)
    """What it asks."""

    def score(self, case):
        return 1.0


class TestUntyped(EvaluatorContract):
    evaluator = Untyped()
    fails = {
        "test_its_settings_have_a_json_schema": "The settings of Untyped must have types of data",
        "test_its_configuration_can_be_recorded": "need the same fingerprint",
    }


@frozen
class OutOfBounds(Evaluator):
    """Scores in percent."""

    def score(self, case):
        return 100.0


class TestOutOfBounds(EvaluatorContract):
    evaluator = OutOfBounds()
    fails = {"test_it_scores_within_its_bounds": "cannot score a case of `cases`"}


@frozen
class OfItsThread(Evaluator):
    """Scores the thread."""

    def score(self, case):
        return threading.current_thread() is threading.main_thread()


class TestOfItsThread(EvaluatorContract):
    evaluator = OfItsThread()
    fails = {"test_sync_and_async_give_the_same": "must not depend on the thread or event loop"}


@frozen
class Random(Evaluator):
    """Scores at random."""

    def score(self, case):
        return random.random()


class TestRandom(EvaluatorContract):
    evaluator = Random()
    fails = {"test_it_is_deterministic_where_it_says_so": "write deterministic = False in the class"}


@frozen
class Remembering(Evaluator):
    """Passes what it has not seen yet."""

    seen: ClassVar[list[Any]] = []

    def score(self, case):
        self.seen.append(case)
        return len(self.seen) < 2


class TestRemembering(EvaluatorContract):
    evaluator = Remembering()
    cases = (replace(EvaluatorContract.cases[0], id="1"), replace(EvaluatorContract.cases[0], id="2"))
    fails = {"test_it_keeps_nothing_between_cases": "must not remember earlier cases"}

    @pytest.fixture(autouse=True)
    def _forget(self):
        Remembering.seen.clear()


@frozen
class Ascii(Evaluator):
    """Knows English only."""

    def score(self, case):
        return len(str(case.actual_output).encode("ascii")) > 0


class TestAscii(EvaluatorContract):
    evaluator = Ascii()
    fails = {"test_it_takes_unicode": "crashes on texts with unicode: UnicodeEncodeError"}


@frozen
class FirstWord(Evaluator):
    """Needs an output and does not say so."""

    def score(self, case):
        return case.actual_output.split()[0] == "The"


class TestFirstWord(EvaluatorContract):
    evaluator = FirstWord()
    fails = {
        "test_it_takes_odd_outputs": "crashes on an output that is an empty text: IndexError",
        "test_missing_parts_are_a_clear_error": "or name the part in `requires`",
    }


@frozen
class Lenient(Evaluator):
    """Scores what failed, too."""

    def score(self, case):
        return 1.0

    def evaluate(self, case):
        return EvalResult("Lenient", 1.0)


class TestLenient(EvaluatorContract):
    evaluator = Lenient()
    fails = {"test_a_failed_run_is_not_scored": "do not override evaluate()"}


class TestNothing(EvaluatorContract):
    fails = {"test_it_has_a_name": "Set evaluator in TestNothing: evaluator = MyEvaluator()"}


# Judges


class Judge:
    """Right; those below change one thing."""

    identity = "right"

    async def complete(self, prompt, *, schema=None):
        return JudgeReply("yes")


class Silent(Judge):
    async def complete(self, prompt, *, schema=None):
        return JudgeReply("")


class TestSilent(JudgeContract):
    make_judge = staticmethod(Silent)
    fails = {"test_it_replies_with_text": "returns an empty text; raise JudgeReplyError"}


class TestNoJudge(JudgeContract):
    fails = {"test_it_replies_with_text": "Write make_judge(self) in TestNoJudge"}


class Careless(Judge):
    async def complete(self, prompt, *, schema=None):
        return JudgeReply("yes", {"tokens": 3})


class TestCareless(JudgeContract):
    make_judge = staticmethod(Careless)
    fails = {"test_what_a_call_costs_is_call_metrics": "must be CallMetrics or None"}


class WithoutSchema(Judge):
    async def complete(self, prompt):
        return JudgeReply("yes")


class TestWithoutSchema(JudgeContract):
    make_judge = staticmethod(WithoutSchema)
    fails = {"test_a_schema_is_accepted_and_passed_on": "must reply to a prompt. It raised TypeError"}


class TestSchemaIsLost(JudgeContract):
    make_judge = staticmethod(Judge)
    passes_schemas = True
    fails = {"test_a_schema_is_accepted_and_passed_on": "must pass `schema` on to its endpoint"}


class AsciiJudge(Judge):
    async def complete(self, prompt, *, schema=None):
        return JudgeReply(str(len(prompt.encode("ascii"))))


class TestAsciiJudge(JudgeContract):
    make_judge = staticmethod(AsciiJudge)
    fails = {"test_it_takes_unicode": "It raised UnicodeEncodeError"}


class OneAtATime(Judge):
    busy = False

    async def complete(self, prompt, *, schema=None):
        if self.busy:
            raise RuntimeError("busy")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return JudgeReply("yes")


class TestOneAtATime(JudgeContract):
    make_judge = staticmethod(OneAtATime)
    fails = {"test_calls_may_be_made_at_the_same_time": "must take several calls at once"}


class OfOneLoop(Judge):
    loop = None

    async def complete(self, prompt, *, schema=None):
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return JudgeReply("yes")


class TestOfOneLoop(JudgeContract):
    make_judge = staticmethod(OfOneLoop)
    fails = {"test_it_serves_several_event_loops": "must work in each event loop"}


class Renamed(Judge):
    numbers = itertools.count()

    def __init__(self):
        self.identity = f"judge {next(self.numbers)}"


class TestRenamed(JudgeContract):
    make_judge = staticmethod(Renamed)
    fails = {"test_its_identity_is_stable": "must not change and be the same for the same settings"}


class TestSameIdentity(JudgeContract):
    make_judge = staticmethod(Judge)
    make_other_judge = staticmethod(Judge)
    fails = {"test_its_identity_is_stable": "need another identity, or they share cached replies"}


class Talkative(Judge):
    identity = f"judge with {JudgeContract.secret}"


class TestTalkative(JudgeContract):
    make_judge = staticmethod(Talkative)
    fails = {"test_its_key_is_never_shown": "The identity of Talkative holds its key"}


class Crashing(Judge):
    async def complete(self, prompt, *, schema=None):
        raise ValueError("no connection")


class TestCrashing(JudgeContract):
    make_judge = staticmethod(Judge)
    make_failing_judge = staticmethod(Crashing)
    fails = {"test_errors_are_judge_errors": "Raise JudgeUnavailableError where the endpoint"}


class ShowsKey(Judge):
    async def complete(self, prompt, *, schema=None):
        raise JudgeUnavailableError(f"refused: {JudgeContract.secret}")


class TestShowsKey(JudgeContract):
    make_judge = staticmethod(Judge)
    make_failing_judge = staticmethod(ShowsKey)
    fails = {"test_errors_are_judge_errors": "The error of ShowsKey shows its key"}


class ClosedOnce(Judge):
    is_closed = False

    async def aclose(self):
        if self.is_closed:
            raise RuntimeError("closed already")
        self.is_closed = True


class TestClosedOnce(JudgeContract):
    make_judge = staticmethod(ClosedOnce)
    fails = {"test_it_may_be_closed_more_than_once": "aclose() must be harmless twice"}


@dataclass(frozen=True, kw_only=True, repr=False)
class WrongReader(OpenAIChat):
    """Reads another text, sends neither key nor prompt, and takes every failure for an answer."""

    def authorization(self, key):
        return {}

    async def complete(self, prompt, *, schema=None):
        try:
            await super().complete("something else", schema=schema)
        except Exception:
            return JudgeReply("yes")
        return JudgeReply("yes", CallMetrics())


class TestWrongReader(HttpJudgeContract):
    judge_class = WrongReader
    fails = {
        "test_the_reply_and_its_tokens_are_read": "WrongReader.read() returned 'yes'",
        "test_the_prompt_the_model_and_the_key_are_sent": "must hold the prompt",
        "test_a_reply_that_is_not_one_is_a_judge_error": "must raise JudgeReplyError",
        "test_a_server_error_is_a_judge_error": "must raise JudgeReplyError",
    }


class TestNoProvider(HttpJudgeContract):
    fails = {"test_it_replies_with_text": "Set judge_class in TestNoProvider"}


# Exporters


class Lines:
    """Right; those below change one thing."""

    name = "lines"
    extensions = (".lines",)

    def render(self, result):
        return "".join(self.line(item) for run in result.runs for item in run.item_results)

    def line(self, item):
        return f"{item.example.inputs} {item.error}\n"


class TestNoExporter(ExporterContract):
    fails = {"test_it_has_a_name_and_extensions": "Set exporter in TestNoExporter"}


class Capitals(Lines):
    extensions = ("TSV",)


class TestCapitals(ExporterContract):
    exporter = Capitals()
    fails = {"test_it_has_a_name_and_extensions": "must be a tuple of endings in lower case with their dot"}


class FirstItem(Lines):
    def render(self, result):
        if result.status != "completed":
            raise KeyError(result.status)
        (run,) = result.runs
        assert run.item_results[0].example.inputs["input"]
        return self.line(run.item_results[0]).encode()


class TestFirstItem(ExporterContract):
    exporter = FirstItem()
    fails = {
        "test_every_status_is_rendered": "must render every result. It raised KeyError",
        "test_a_run_without_items_is_rendered": "It raised IndexError",
        "test_several_repeats_are_rendered": "It raised ValueError",
        "test_what_is_not_known_is_rendered": "It raised KeyError",
        "test_unicode_is_kept": "must return str",
    }


class AsciiLines(Lines):
    def line(self, item):
        return f"{item.example.inputs}\n".encode("ascii", "replace").decode()


class TestAsciiLines(ExporterContract):
    exporter = AsciiLines()
    fails = {
        "test_unicode_is_kept": "must keep letters as they are",
        "test_errors_are_shown": "must show why an item errored",
    }


class NoControlCharacters(Lines):
    def line(self, item):
        if "\x00" in str(item.example.inputs["input"]):
            raise ValueError("not allowed in XML")
        return super().line(item)


class TestNoControlCharacters(ExporterContract):
    exporter = NoControlCharacters()
    fails = {"test_odd_texts_are_rendered_and_can_be_written": "It raised ValueError: not allowed in XML"}


class Collecting(Lines):
    def __init__(self):
        self.lines = []

    def render(self, result):
        self.lines.append(super().render(result))
        return "".join(self.lines)


class TestCollecting(ExporterContract):
    exporter = Collecting()
    fails = {
        "test_it_renders_the_same_each_time_and_changes_nothing": "must render the same result as the same",
        "test_it_renders_in_several_threads": "must keep nothing between calls of render()",
    }


class Writing(Lines):
    def render(self, result):
        with open("report.lines", "w") as file:
            file.write("half")
        return super().render(result)


class TestWriting(ExporterContract):
    exporter = Writing()
    fails = {"test_it_leaves_files_to_dokimos": "render() wrote ['report.lines']; return the text instead"}

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory, monkeypatch):
        monkeypatch.chdir(tmp_path_factory.mktemp("wrong"))


class TestReadsAnother(ExporterContract):
    exporter = Lines()
    fails = {"test_what_can_be_read_back_is_the_same": "is read back as another result"}

    def read_back(self, report):
        from dokimos.testing.contracts._exporter_contract import make_result

        return make_result(items=17)


# Resolvers


class Numbers:
    """Right; those below change one thing."""

    def supports(self, uri):
        return uri.startswith("numbers:")

    def load(self, uri, columns=None):
        return Dataset(self.stream(uri, columns), name=uri)

    def stream(self, uri, columns=None):
        count = uri.removeprefix("numbers:")
        if not count.isdigit():
            raise DatasetError(f"{uri!r} does not say how many numbers.")
        return DatasetStream(lambda: self.examples(int(count), columns), name=uri)

    def examples(self, count, columns):
        return (Example.of(number, number * number) for number in range(count))


class OfNumbers(ResolverContract):
    uri = "numbers:3"
    missing_uri = "numbers:many"


class TestNoResolver(ResolverContract):
    fails = {"test_it_can_be_asked_about_anything": "Set resolver in TestNoResolver"}


class Greedy(Numbers):
    def supports(self, uri):
        return True


class TestGreedy(OfNumbers):
    resolver = Greedy()
    fails = {"test_it_knows_what_it_is_responsible_for": "so others would never be"}


class Fragile(Numbers):
    def supports(self, uri):
        return uri.split(":")[1].isdigit()


class TestFragile(OfNumbers):
    resolver = Fragile()
    fails = {"test_it_can_be_asked_about_anything": "must return a bool. It raised IndexError"}


class Disagreeing(Numbers):
    def load(self, uri, columns=None):
        return Dataset([Example.of(random.random())])


class TestDisagreeing(OfNumbers):
    resolver = Disagreeing()
    fails = {
        "test_load_and_stream_agree": "must give the same examples, in the same order",
        "test_it_gives_the_same_each_time": "must give the same data set again",
        "test_it_is_used_once_it_is_registered": "must give what Disagreeing loads",
    }


class IgnoresColumns(Numbers):
    """As Numbers does."""


class TestIgnoresColumns(OfNumbers):
    resolver = IgnoresColumns()
    columns = {"n": "input"}
    fails = {"test_columns_are_honoured": "changed nothing"}


class Vague(Numbers):
    def stream(self, uri, columns=None):
        if uri == "numbers:many":
            raise ValueError("invalid literal")
        return super().stream(uri, columns)


class TestVague(OfNumbers):
    resolver = Vague()
    fails = {"test_errors_name_the_uri": "must raise DatasetError, not ValueError"}


class Unnamed(Numbers):
    def stream(self, uri, columns=None):
        if uri == "numbers:many":
            raise DatasetError("Not found.")
        return super().stream(uri, columns)


class TestUnnamed(OfNumbers):
    resolver = Unnamed()
    fails = {"test_errors_name_the_uri": "must name 'numbers:many'; it says: Not found."}


# Reporters


class NoSteps:
    def report_item(self, handle, item):
        """Do nothing."""


class TestNoSteps(ReporterContract):
    make_reporter = staticmethod(NoSteps)
    fails = {"test_it_has_every_step": "lacks begin or start_run, end or complete_run, flush, close"}


class TestNoReporter(ReporterContract):
    fails = {"test_it_has_every_step": "Write make_reporter(self) in TestNoReporter"}


class OneRun(BaseReporter):
    """Knows one run, in ASCII, with all parts of it, and is closed once."""

    def __init__(self):
        self.items = []
        self.is_open = True
        self.current = None

    def start_run(self, name, metadata):
        if self.current:
            raise RuntimeError("a run is open already")
        self.current = RunHandle(name.encode("ascii").decode())
        return self.current

    def report_item(self, handle, item):
        self.items.append(len(item.actual_outputs["output"]))

    def complete_run(self, handle, status):
        self.items.append(sum(self.items) / len(self.items))
        self.current = None

    def close(self):
        if not self.is_open or not self.items:
            raise RuntimeError("nothing to close")
        self.is_open = False


class TestOneRun(ReporterContract):
    make_reporter = staticmethod(OneRun)
    fails = {
        "test_repeats_may_overlap": "cannot start a run. It raised RuntimeError",
        "test_a_repeat_may_end_in_every_way_and_without_items": "It raised ZeroDivisionError",
        "test_it_takes_items_of_every_kind": "report_item() must take every item",
        "test_a_name_may_be_empty_or_odd": "must take the name ''",
        "test_it_may_be_closed_more_than_once": "must be harmless when it is called again",
        "test_it_may_be_closed_without_a_run": "must be harmless before any run",
    }


class Planner:
    """Begins runs by what it expects of them, and takes each item once."""

    def __init__(self):
        self.runs = {}

    def begin(self, start):
        handle = RunHandle(f"{start.run_id}-{len(self.runs)}")
        self.runs[handle] = [None] * (start.planned_items or len(start.evaluators))
        return handle if start.planned_items is not None or start.name == "contract" else None

    def report_item(self, handle, item):
        if item.was_reported:
            raise LookupError("it is there already")

    def end(self, handle, end):
        """Do nothing."""

    def flush(self):
        """Do nothing."""

    def close(self):
        """Do nothing."""


class TestPlanner(ReporterContract):
    make_reporter = staticmethod(Planner)
    fails = {
        "test_little_may_be_known_when_a_repeat_begins": "Planner.begin() must take a repeat of a stream",
        "test_a_resumed_run_may_report_its_items_again": "LookupError: it is there already",
        "test_a_name_may_be_empty_or_odd": "Planner.begin() must take the name ''",
    }


class SameHandle(BaseReporter):
    def start_run(self, name, metadata):
        return RunHandle("run")


class TestSameHandle(ReporterContract):
    make_reporter = staticmethod(SameHandle)
    fails = {"test_every_repeat_has_its_own_handle": "must return another handle for each repeat"}


class Losing(BaseReporter):
    def report_item(self, handle, item):
        if item.index == 1:
            raise KeyError("lost")


class TestLosing(ReporterContract):
    make_reporter = staticmethod(Losing)
    fails = {
        "test_it_takes_a_whole_run": "must not raise in an ordinary run",
        "test_experiments_may_share_it": "must not raise in an ordinary run",
    }


class TestLosingCount(ReporterContract):
    make_reporter = staticmethod(BaseReporter)
    fails = {"test_it_takes_a_whole_run": "was given 6 items, 0 arrived after flush()"}

    def read_items(self, reporter):
        return []


class TestSilentFailure(ReporterContract):
    make_reporter = staticmethod(BaseReporter)
    make_failing_reporter = staticmethod(BaseReporter)
    fails = {"test_its_failure_does_not_fail_a_run": "must raise where it cannot do its work"}


# Bridges


class WrongBridge:
    """Has two of the functions; they lose ids, results, errors and tokens."""

    def to_agent_trace(self, result):
        calls = (ToolCall("look_up", {"word": "parrot"}, result="wrong"), ToolCall("fly", {}, result="wrong"))
        return AgentTrace(calls, next(self.answers))

    answers = (f"answer {number}" for number in itertools.count())

    def to_call_metrics(self, result, model=None, price_table=None):
        return CallMetrics(1, 1)

    def to_tool_definitions(self, agent):
        return ["look_up"]

    def run_and_trace(self, agent, inputs):
        return self.to_agent_trace(inputs)

    async def run_and_trace_async(self, agent, inputs):
        return self.to_agent_trace(inputs)

    def as_task(self, agent):
        return lambda text: {"output": f"{text} {next(agent)}"}

    def as_judge(self, agent):
        return Silent()


class TestWrongBridge(BridgeContract):
    bridge = WrongBridge()
    result = "result"
    calls = (("look_up", {"word": "parrot"}),)
    results = ("a bird",)
    failed = (0,)
    final_response = "parrot: a bird"
    tokens = (12, 5)
    fails = {
        "test_it_has_the_functions_of_all_bridges": "The bridge lacks as_application",
        "test_every_call_is_in_the_trace": "to_agent_trace() found the calls",
        "test_ids_of_calls_are_there_and_unique": "Every call needs an id of its own",
        "test_results_belong_to_their_calls": "match them by the id of the call",
        "test_failed_calls_are_errors": "those at [0] failed",
        "test_the_answer_is_the_final_response": "not 'parrot: a bird'",
        "test_tokens_are_counted_and_priced": "the run used (12, 5) tokens",
        "test_reading_changes_nothing_and_is_repeatable": "must give the same trace",
        "test_tools_are_described": "must return a tuple of ToolDefinition",
        "test_an_agent_runs_from_sync_and_async_code": "Each run must begin anew",
        "test_an_agent_is_a_task": "must return an async task",
        "test_many_inputs_at_once_are_kept_apart": "get in each other's way",
        "test_an_agent_is_a_judge": "must reply with the agent's answer",
        "test_a_failed_run_is_an_error_of_the_item": "must be an error of its item",
    }

    def make_agent(self):
        return itertools.count()

    def make_failing_agent(self):
        return itertools.count()


class TestNoBridge(BridgeContract):
    fails = {"test_it_has_the_functions_of_all_bridges": "Set bridge in TestNoBridge"}
