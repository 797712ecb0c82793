"""What every judge must do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import JudgeError
from dokimos.judges._protocol import JudgeLike, JudgeLM, JudgeReply, as_judge, identity_of
from dokimos.testing.contracts._contract_failure import UNICODE, attempt, check, fail, name_of

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"verdict": {"enum": ["yes", "no"]}, "reason": {"type": "string"}},
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}
PROMPT: Final = "Is 7 a prime number? Reply with a verdict and a reason."


class JudgeContract:
    """Tests of a judge: the subclass makes judges that talk to a fake of their endpoint.

    For an HTTP provider there is `HttpJudgeContract`, which brings the endpoint.
    """

    secret: ClassVar[str] = "contract-secret-0123456789abcdef"
    """What `make_judge` passes as the key, where there is one: it must not be shown anywhere."""
    passes_schemas: ClassVar[bool] = False
    """Whether its endpoint can enforce a JSON Schema; then `find_last_schema` returns the last one it got."""

    def make_judge(self) -> JudgeLike:
        """Return a judge whose endpoint answers, made anew each time with the same settings."""
        fail(f"Write make_judge(self) in {type(self).__name__}; it returns a judge whose endpoint answers.")

    def make_other_judge(self) -> JudgeLike | None:
        """Return one with another model or another temperature; None where there is nothing to set."""
        return None

    def make_failing_judge(self) -> JudgeLike | None:
        """Return one whose endpoint refuses the call; None where nothing can fail."""
        return None

    def find_last_schema(self) -> object:
        """Return the JSON Schema that the endpoint got last, None where it got none."""
        return None

    def test_it_replies_with_text(self) -> None:
        judge = as_judge(self.make_judge())
        reply = self._ask(judge)
        check(
            type(getattr(reply, "text", None)) is str,
            f"{name_of(judge)}.complete() must return a JudgeReply with a text, not {reply!r:.80}.",
        )
        check(reply.text, f"{name_of(judge)} returns an empty text; raise JudgeReplyError instead.")

    def test_what_a_call_costs_is_call_metrics(self) -> None:
        judge = as_judge(self.make_judge())
        metrics = self._ask(judge).metrics
        if metrics is None:
            return
        check(
            isinstance(metrics, CallMetrics),
            f"The metrics of {name_of(judge)} must be CallMetrics or None, not {metrics!r:.80}.",
        )
        counts = (metrics.tokens_in, metrics.tokens_out)
        check(
            all(count is None or (type(count) is int and count >= 0) for count in counts),
            f"{name_of(judge)} counts tokens as {counts!r}; they are whole numbers of at least 0, or None.",
        )

    def test_a_schema_is_accepted_and_passed_on(self) -> None:
        judge = as_judge(self.make_judge())
        self._ask(judge, schema=SCHEMA)
        if not self.passes_schemas:
            return
        sent = self.find_last_schema()
        check(
            isinstance(sent, Mapping) and set(SCHEMA["properties"]) <= set(sent.get("properties", {})),
            f"{name_of(judge)} must pass `schema` on to its endpoint, which got {sent!r:.120}.",
        )

    def test_it_takes_unicode(self) -> None:
        judge = as_judge(self.make_judge())
        self._ask(judge, prompt=f"{PROMPT} {UNICODE}")

    def test_calls_may_be_made_at_the_same_time(self) -> None:
        judge = as_judge(self.make_judge())

        async def ask() -> list[JudgeReply]:
            return await asyncio.gather(*(judge.complete(f"{PROMPT} {number}") for number in range(5)))

        replies = attempt(lambda: run_sync(ask()), f"{name_of(judge)} must take several calls at once.")
        check(all(isinstance(reply, JudgeReply) for reply in replies), f"{name_of(judge)} lost a reply.")

    def test_it_serves_several_event_loops(self) -> None:
        judge = as_judge(self.make_judge())
        advice = (
            f"{name_of(judge)} must work in each event loop: runs and notebooks have their own. Open "
            "connections inside complete(), or keep them by event loop."
        )
        for _ in range(2):
            # asyncio.run() closes its loop: a connection kept from the first round is dead in the second.
            attempt(lambda: asyncio.run(_ask_and_close(judge)), advice)

    def test_its_identity_is_stable(self) -> None:
        judge, same, other = self.make_judge(), self.make_judge(), self.make_other_judge()
        before = identity_of(as_judge(judge))
        self._ask(as_judge(judge))
        check(
            identity_of(as_judge(judge)) == before == identity_of(as_judge(same)),
            f"The identity of a judge must not change and be the same for the same settings, not {before!r} "
            f"and {identity_of(as_judge(same))!r}: give it a property `identity` of endpoint and model.",
        )
        check(
            other is None or identity_of(as_judge(other)) != before,
            f"Judges with other settings need another identity, or they share cached replies: {before!r}.",
        )

    def test_its_key_is_never_shown(self) -> None:
        judge = as_judge(self.make_judge())
        for what, text in (("identity", identity_of(judge)), ("repr", repr(judge)), ("str", str(judge))):
            check(
                self.secret not in text,
                f"The {what} of {name_of(judge)} holds its key; identities are written to files.",
            )

    def test_errors_are_judge_errors(self) -> None:
        failing = self.make_failing_judge()
        if failing is None:
            pytest.skip("it does not say how it fails")
        judge = as_judge(failing)
        try:
            reply = run_sync(judge.complete(PROMPT))
        except JudgeError as error:
            text = str(error)
        except Exception as error:
            fail(
                f"{name_of(judge)} raised {type(error).__name__}: {error}. Raise JudgeUnavailableError where "
                "the endpoint cannot be reached, JudgeReplyError where its reply is of no use."
            )
        else:
            fail(f"{name_of(judge)} returned {reply!r:.80} for a failed call; raise JudgeUnavailableError.")
        check(text.strip(), f"The error of {name_of(judge)} must say what went wrong.")
        check(self.secret not in text, f"The error of {name_of(judge)} shows its key.")

    def test_it_may_be_closed_more_than_once(self) -> None:
        judge = as_judge(self.make_judge())
        close = getattr(judge, "aclose", None)
        if close is None:
            pytest.skip("it has no aclose")
        check(
            inspect.iscoroutinefunction(close), f"{name_of(judge)}.aclose must be `async def aclose(self)`."
        )

        async def close_twice() -> None:
            await judge.complete(PROMPT)
            await close()
            await close()

        attempt(lambda: asyncio.run(close_twice()), f"{name_of(judge)}.aclose() must be harmless twice.")

    def _ask(
        self, judge: JudgeLM, prompt: str = PROMPT, schema: Mapping[str, Any] | None = None
    ) -> JudgeReply:
        check(
            isinstance(judge, JudgeLM),
            f"{name_of(judge)} needs `async def complete(self, prompt, *, schema=None)`.",
        )
        return attempt(
            lambda: run_sync(judge.complete(prompt, schema=schema)),
            f"{name_of(judge)} must reply to a prompt.",
        )


async def _ask_and_close(judge: JudgeLM) -> None:
    try:
        await judge.complete(PROMPT)
    finally:
        close = getattr(judge, "aclose", None)
        if close is not None:
            await close()
