"""From an exception to the place in the user's own code."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import os
import sys
import textwrap
import threading
import types
import zipfile
from dataclasses import dataclass

import pytest

from dokimos._core import traceback_entries
from dokimos._core.error_detail import ErrorDetail, Frame, append_place
from dokimos._core.results import EvalResult
from dokimos._core.tracebacks import LONGEST_TRACEBACK, MOST_FRAMES, format_located_error
from dokimos._core.wire import from_json, to_json
from dokimos._runtime import redaction
from dokimos._runtime.code_origin import find_code_origin
from dokimos.errors import EvaluationError


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A function that writes a module of a user's into the working directory and imports it."""
    monkeypatch.chdir(tmp_path)
    find_code_origin.cache_clear()

    def load(source, path="app.py"):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def detail_of(function, *args):
    try:
        function(*args)
    except BaseException as error:
        return ErrorDetail.of(error)
    raise AssertionError("nothing was raised")


def test_type_message_and_place_are_those_of_the_users_own_code(app):
    module = app("""\
        import json

        class Bot:
            def answer(self, question):
                return self.look_up(question)["city"]

            def look_up(self, question):
                return {"country": question}
        """)
    detail = detail_of(module.Bot().answer, "Oslo?")
    assert (detail.type, detail.message) == ("KeyError", "'city'")
    assert detail.place == "app.py:5 in Bot.answer"
    here = detail.frames[-1]
    assert here == Frame("app.py", 5, "Bot.answer", 'return self.look_up(question)["city"]')


def test_the_users_frame_is_shown_where_the_standard_library_raises(app):
    module = app("""\
        import json

        def answer(question):
            return json.loads("{" + question)
        """)
    detail = detail_of(module.answer, "x")
    assert detail.type == "json.decoder.JSONDecodeError"
    assert detail.place == "app.py:4 in answer"
    assert "decoder.py" in detail.traceback


def test_without_the_users_code_the_called_library_is_the_place(app):
    library = app("def call():\n    import json\n    return json.loads('{')\n", "site-packages/lib/api.py")

    with pytest.raises(ValueError, match="Expecting") as caught:
        library.call()
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)  # without this test's own frame
    assert ErrorDetail.of(error).place == "site-packages/lib/api.py:3 in call"


def test_what_dokimos_raises_on_purpose_has_no_place():
    error = EvaluationError("a part is missing")
    assert ErrorDetail.of(error) is None
    assert format_located_error(error) == "EvaluationError: a part is missing"


def test_an_error_of_ours_has_the_place_of_the_users_error_behind_it(app):
    module = app("def judge(prompt):\n    raise OSError('no route')\n")
    try:
        module.judge("x")
    except OSError as cause:
        cause.__traceback__ = cause.__traceback__.tb_next
        error = EvaluationError("The judge gave no answer.")
        error.__cause__ = cause
    detail = ErrorDetail.of(error)
    assert detail.place == "app.py:2 in judge"
    assert detail.type == "dokimos.errors.EvaluationError"
    assert "OSError: no route" in detail.traceback
    assert "direct cause" in detail.traceback


def test_causes_stand_before_what_they_caused_as_python_prints_them(app):
    module = app("""\
        def inner():
            return {}["city"]

        def answer():
            try:
                inner()
            except KeyError as error:
                raise ValueError("no such place") from error

        def careless():
            try:
                inner()
            except KeyError:
                raise ValueError("while handling")

        def quiet():
            try:
                inner()
            except KeyError:
                raise ValueError("alone") from None
        """)
    detail = detail_of(module.answer)
    assert detail.place == "app.py:8 in answer"
    text = detail.traceback
    assert (
        text.index("KeyError: 'city'") < text.index("direct cause") < text.index("ValueError: no such place")
    )
    assert text.endswith("ValueError: no such place")
    assert "During handling" in detail_of(module.careless).traceback
    assert "KeyError" not in detail_of(module.quiet).traceback


def test_a_ring_of_causes_ends(app):
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    detail = ErrorDetail.of(first)
    assert detail.traceback.count("ValueError: second") == 1
    assert detail.frames == ()


def test_the_place_of_a_group_is_that_of_its_first_member(app):
    module = app("""\
        import asyncio

        async def fetch(number):
            raise LookupError(f"no page {number}")

        async def answer():
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(fetch(number))
        """)
    detail = detail_of(asyncio.run, module.answer())
    assert detail.type == "ExceptionGroup"
    assert detail.place == "app.py:4 in fetch"
    assert "  | LookupError: no page 0" in detail.traceback
    assert "---------------- 3 ----------------" in detail.traceback


def test_a_group_of_very_many_is_bounded(app):
    module = app("""\
        def answer():
            raise ExceptionGroup("many", [ExceptionGroup("few", [ValueError(n)]) for n in range(5_000)])
        """)
    detail = detail_of(module.answer)
    assert len(detail.traceback) < LONGEST_TRACEBACK
    assert "more" in detail.traceback


def test_recursion_is_abbreviated(app):
    module = app("""\
        def answer(n):
            return answer(n + 1)

        def ping(n):
            return pong(n)

        def pong(n):
            return ping(n)
        """)
    detail = detail_of(module.answer, 0)
    assert detail.type == "RecursionError"
    assert detail.place == "app.py:2 in answer"
    assert [str(frame) for frame in detail.frames[-1:]] == ["app.py:2 in answer"]
    assert "Previous line repeated" in detail.traceback
    assert detail.traceback.count("\n") < 60
    mutual = detail_of(module.ping, 0)
    assert "frames are not shown" in mutual.traceback
    assert len(mutual.frames) <= MOST_FRAMES
    assert len(mutual.traceback) < 10_000


def test_a_module_that_does_not_compile_has_its_own_place(app, tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\ndef answer(:\n    pass\n")
    module = app("""\
        import importlib.util

        def answer():
            spec = importlib.util.spec_from_file_location("broken", "broken.py")
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        """)
    detail = detail_of(module.answer)
    assert detail.type == "SyntaxError"
    assert detail.place == "broken.py:2"
    assert detail.frames[-1].source == "def answer(:"
    assert 'File "broken.py", line 2' in detail.traceback
    assert str(tmp_path) not in detail.traceback


def test_lambdas_and_closures_are_named(app):
    module = app("""\
        answer = lambda question: question["city"]

        def make():
            def inner(question):
                return question["city"]
            return inner
        """)
    assert detail_of(module.answer, {}).place == "app.py:1 in <lambda>"
    assert detail_of(module.make(), {}).place == "app.py:5 in inner"


def test_executed_text_is_named_but_the_file_that_executes_it_is_the_place(app):
    module = app("""\
        def answer(code):
            exec(code, {})
        """)
    detail = detail_of(module.answer, "def f():\n    1 / 0\nf()")
    assert [str(frame) for frame in detail.frames[-2:]] == ["<string>:3", "<string>:2 in f"]
    assert detail.place == "app.py:2 in answer"


def test_generated_functions_of_ours_are_not_the_users():
    with pytest.raises(ValueError, match="must be in") as caught:
        EvalResult("x", 7.0)
    assert ErrorDetail.of(caught.value).frames[-1].file.endswith("test_tracebacks.py")


def test_a_cell_of_a_notebook_is_called_as_ipython_calls_it(app, monkeypatch):
    shell = types.SimpleNamespace(
        compile=types.SimpleNamespace(
            format_code_name=lambda name: ("Cell", "In[3]") if "ipykernel" in name else None
        )
    )
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    space = {"__name__": "__main__"}
    exec(compile("def answer():\n    return 1 / 0\n", "/tmp/ipykernel_7/12345.py", "exec"), space)
    assert detail_of(space["answer"]).place == "In[3]:2 in answer"
    exec(compile("def older():\n    return 1 / 0\n", "<ipython-input-12-abc>", "exec"), space)
    assert detail_of(space["older"]).place == "In[12]:2 in older"


def test_zipped_modules_have_a_place_and_source(app, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as bundle:
        bundle.writestr("zipped_app.py", "def answer():\n    raise ValueError('zipped')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "bundle.zip"))
    import zipped_app

    here = detail_of(zipped_app.answer).frames[-1]
    assert str(here) == "bundle.zip/zipped_app.py:2 in answer"
    assert here.source == "raise ValueError('zipped')"


def test_errors_in_threads_and_async_generators_have_their_place(app):
    module = app("""\
        import threading

        async def chunks():
            yield "a"
            raise ValueError("no more")

        async def answer():
            return [chunk async for chunk in chunks()]

        def work(box):
            try:
                {}["city"]
            except KeyError as error:
                box.append(error)
        """)
    detail = detail_of(asyncio.run, module.answer())
    assert detail.place == "app.py:5 in chunks"
    assert "app.py:8 in answer" in {str(frame).replace("<listcomp>", "answer") for frame in detail.frames}
    box = []
    thread = threading.Thread(target=module.work, args=(box,))
    thread.start()
    thread.join()
    assert ErrorDetail.of(box[0]).place == "app.py:12 in work"


def test_a_deleted_source_file_leaves_file_line_and_function(app, tmp_path):
    module = app("def answer():\n    return 1 / 0\n")
    (tmp_path / "app.py").unlink()
    detail = detail_of(module.answer)
    assert detail.frames[-1] == Frame("app.py", 2, "answer", "")


def test_unicode_everywhere(app):
    module = app('def réponse():\n    raise ValueError("où? 🌍 \\ud800")  # ñ\n', "ünï/äpp.py")
    detail = detail_of(module.réponse)
    assert detail.place == "ünï/äpp.py:2 in réponse"
    assert from_json(ErrorDetail, to_json(detail)) == detail


def test_huge_messages_and_lines_are_bounded(app):
    module = app(f"""\
        def answer():
            raise ValueError("x" * 5_000_000)

        def long():
            text = {"y" * 9_000!r}; 1 / 0
        """)
    detail = detail_of(module.answer)
    assert len(detail.message) < 2_100
    assert "5000000 characters" in detail.message
    assert len(detail.traceback) < 3_000
    wide = detail_of(module.long)
    assert len(wide.frames[-1].source) == 200
    assert len(wide.traceback) < 2_000


def test_exceptions_that_cannot_be_shown_are_described_all_the_same(app):
    module = app("""\
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError("no")

        class Liar(Exception):
            __notes__ = 3

        def answer():
            raise Mute

        def lie():
            raise Liar("x")
        """)
    detail = detail_of(module.answer)
    assert detail.message == "(no message: RuntimeError in __str__)"
    assert detail.type == "app.Mute"
    assert detail_of(module.lie).place == "app.py:12 in lie"


def test_a_module_that_is_not_there_has_no_place_in_the_import_system():
    name = "no_such_module_anywhere"
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(name)
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert ErrorDetail.of(error).place == ""


def test_what_cannot_be_described_at_all_does_not_end_the_run(monkeypatch):
    class Broken(Exception):
        @property
        def __suppress_context__(self):
            raise RuntimeError("no")

        @property
        def __cause__(self):
            raise RuntimeError("no")

    assert ErrorDetail.of(Broken("x")) is None


def test_notes_are_part_of_the_traceback(app):
    module = app("""\
        def answer():
            error = ValueError("x")
            error.add_note("the third row")
            raise error
        """)
    assert detail_of(module.answer).traceback.endswith("ValueError: x\nthe third row")


def test_secrets_are_cut_out_of_messages_lines_and_tracebacks(app, monkeypatch):
    monkeypatch.setattr(redaction, "_registered", {"correct horse battery staple"})
    monkeypatch.setenv("SHOP_API_KEY", "an-environment-value-of-some-length")
    module = app("""\
        def answer():
            key = "correct horse battery staple"; raise ValueError("correct horse battery staple")

        def call():
            raise ValueError("an-environment-value-of-some-length and sk-proj-abcdefghij0123456789")

        def chained():
            try:
                answer()
            except ValueError as error:
                raise LookupError from error
        """)
    for function in (module.answer, module.call, module.chained):
        text = to_json(detail_of(function))
        for secret in ("correct horse", "an-environment-value", "abcdefghij0123456789"):
            assert secret not in text
        assert "[secret]" in text


def test_no_local_variable_is_kept(app):
    module = app("""\
        def answer(question):
            customer = "Ada Lovelace"
            raise ValueError("no")
        """)
    text = to_json(detail_of(module.answer, "the question of Ada"))
    assert "the question" not in text
    assert "Lovelace" not in text


def test_files_elsewhere_are_told_from_the_home_folder_or_whole(app, tmp_path, monkeypatch):
    module = app("def answer():\n    return 1 / 0\n", "projects/app.py")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert detail_of(module.answer).place == "~/projects/app.py:2 in answer"
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    traceback_entries._entry_cache.clear()
    assert detail_of(module.answer).place == f"{(tmp_path / 'projects/app.py').as_posix()}:2 in answer"


def test_paths_of_windows_are_told_with_slashes_and_other_drives_whole(monkeypatch):
    import ntpath

    monkeypatch.setattr(os, "sep", "\\")
    monkeypatch.setattr(os, "path", ntpath)
    monkeypatch.setattr(ntpath, "realpath", lambda path: path)
    monkeypatch.setenv("USERPROFILE", r"C:\Users\ada")
    short = traceback_entries.shorten_path
    assert short(r"c:\Work\app\main.py", r"C:\work") == "app/main.py"
    assert short(r"D:\lib\main.py", r"C:\work") == "D:/lib/main.py"
    assert short(r"C:\Users\ada\x.py", r"C:\work") == "~/x.py"
    assert short(r"C:\working\x.py", r"C:\work") == "C:/working/x.py"


def test_a_link_to_the_working_directory_is_seen_through(app, tmp_path, monkeypatch):
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    module = app("def answer():\n    return 1 / 0\n")
    module.answer.__code__ = module.answer.__code__.replace(co_filename=str(link / "app.py"))
    assert detail_of(module.answer).place == "app.py:2 in answer"


def test_a_deleted_working_directory_is_no_obstacle(app, tmp_path, monkeypatch):
    module = app("def answer():\n    return 1 / 0\n")

    def gone():
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    assert detail_of(module.answer).place.endswith("app.py:2 in answer")


def test_equal_tracebacks_are_one_in_memory(app):
    module = app("def answer():\n    return {}['city']\n")
    first, second = detail_of(module.answer), detail_of(module.answer)
    assert first.traceback is second.traceback
    assert first.frames is second.frames


def test_many_different_places_do_not_pile_up(app, monkeypatch):
    monkeypatch.setattr(traceback_entries, "_MAX_CACHED_ENTRIES", 50)
    for number in range(120):
        space = {}
        exec(f"def answer():\n    raise ValueError({number})", space)
        assert detail_of(space["answer"]).message == str(number)
    assert len(traceback_entries._entry_cache) <= 50


def test_a_detail_reads_back_from_json_also_without_parts():
    detail = ErrorDetail("KeyError", "'city'", (Frame("app.py", 41, "answer", "x"),), "Traceback ...")
    assert from_json(ErrorDetail, to_json(detail)) == detail
    assert from_json(ErrorDetail, '{"type": "KeyError"}') == ErrorDetail("KeyError")
    assert json.loads(to_json(detail))["frames"] == [
        {"file": "app.py", "line": 41, "function": "answer", "source": "x"}
    ]


def test_texts_get_their_place_only_where_it_is_entry_cache():
    assert append_place("KeyError: 'x'", None) == "KeyError: 'x'"
    assert append_place("KeyError: 'x'", ErrorDetail("KeyError")) == "KeyError: 'x'"
    found = ErrorDetail("KeyError", frames=(Frame("app.py", 41, "answer"),))
    assert append_place("KeyError: 'x'", found) == "KeyError: 'x' (app.py:41 in answer)"


def test_text_that_is_read_as_python_does_not_hide_the_place(app):
    module = app("import ast\n\ndef answer(reply):\n    return ast.literal_eval(reply)\n")
    assert ast  # the module that raises is the standard library's
    assert detail_of(module.answer, "1 +").place == "app.py:4 in answer"


@dataclass
class _Unhashable(Exception):
    text: str


def test_exceptions_that_cannot_be_hashed_are_described():
    error = _Unhashable("x")
    with pytest.raises(TypeError):
        hash(error)
    assert detail_of(lambda: (_ for _ in ()).throw(error)).type.endswith("_Unhashable")


def test_several_threads_describe_at_once(app):
    module = app("def answer(n):\n    raise ValueError(n)\n")
    found = []

    def work():
        found.extend(detail_of(module.answer, n).place for n in range(300))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["app.py:2 in answer"] * 1200
