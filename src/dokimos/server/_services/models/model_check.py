"""Try a connection: one tiny request to the model, and what is wrong where it is not answered."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, fields, replace
from http import HTTPStatus
from typing import Any, Final

from dokimos._core.metrics import CallMetrics
from dokimos._http.answer import Answer, Cause, Forbidden, NoAnswer, Oversized, Unsendable
from dokimos._http.credentials import Secret, redact, redact_credentials
from dokimos._http.refusal import (
    JSON_ERRORS,
    ErrorReply,
    RequestRefused,
    excerpt_of_content,
    find_error_reply,
    find_status,
    format_status,
    parse_error_reply,
)
from dokimos.errors import JudgeReplyError
from dokimos.judges._capabilities import Attempt, Capabilities, Mode
from dokimos.judges._model_request import ModelRequest
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.models.llm_connections import ModelProtocol
from dokimos.server._services.models.model_access import (
    ConnectedChat,
    ConnectedJudge,
    ConnectedResponses,
    ConnectionProblem,
    ModelAccess,
    ProblemKind,
)

SECONDS: Final = 30.0
"""How long a model may take to answer: one that is loaded at its first request takes a while."""
_AT_ONCE: Final = 8
_PROMPT: Final = "Reply with the single word: ok"
_MAX_TOKENS: Final = 16
"""The least that all providers take as a limit."""
_MOST_BYTES: Final = 2**20
_MOST_TRIES: Final = 4
"""Forms of the request, as the endpoint refuses parameters that it does not know."""
_MAY_BE_PROTOCOL: Final = (
    ProblemKind.NOT_FOUND,
    ProblemKind.REFUSED,
    ProblemKind.NOT_JSON,
    ProblemKind.NO_ANSWER,
)
_KIND_OF_CAUSE: Final = {
    Cause.NAME: ProblemKind.NAME_NOT_RESOLVED,
    Cause.CONNECTION: ProblemKind.UNREACHABLE,
    Cause.TLS: ProblemKind.TLS,
    Cause.TIME: ProblemKind.TIMEOUT,
    Cause.CONTENT: ProblemKind.NOT_JSON,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """What came of trying a connection."""

    problem: ProblemKind | None
    """None where the model answered."""
    message: str
    status: int | None = None
    metrics: CallMetrics | None = None
    """What the answer cost, where there was one."""
    protocol: ModelProtocol | None = None
    """The one that the endpoint speaks, where it is the other one."""


class ModelChecks:
    """Tries connections, a few at once."""

    def __init__(self, metrics: Metrics) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._outcomes = metrics.counter(
            "dokimos_connection_tests_total",
            "Tests of connections to models, by what came of them.",
            ("outcome",),
        )

    async def run(self, access: ModelAccess) -> ModelCheck:
        """Try a model."""
        async with self._slots:
            return self.note(await check_model(access.judge))

    def note(self, check: ModelCheck) -> ModelCheck:
        """Count what came of a test, and return it."""
        self._outcomes.add(("ok" if check.problem is None else check.problem.lower(),))
        return check


def describe_problem(problem: ConnectionProblem) -> ModelCheck:
    """Return the check of a connection to which nothing can be sent."""
    return ModelCheck(problem=problem.kind, message=str(problem))


async def check_model(judge: ConnectedJudge, *, seconds: float = SECONDS) -> ModelCheck:
    """Ask a model for one word, and say what is wrong where it does not answer.

    Where the endpoint does not know the path or gives no answer that can be read, the other protocol is tried
    too.

    Args:
        judge: The model.
        seconds: How long each request may take.
    """
    check = await _ask(judge, seconds)
    if check.problem not in _MAY_BE_PROTOCOL:
        return check
    other = _with_other_protocol(judge)
    second = await _ask(other, seconds)
    if second.problem is not None:
        return check
    spoken, asked = _protocol_of(other), _protocol_of(judge)
    message = f"The endpoint does not answer {asked}, but it answers {spoken}: choose that protocol."
    return replace(second, problem=ProblemKind.WRONG_PROTOCOL, message=message, protocol=spoken)


async def _ask(judge: ConnectedJudge, seconds: float) -> ModelCheck:
    from dokimos._http.session import Session

    session = Session(judge.url, judge.policy, is_of_stranger=True)
    try:
        async with asyncio.timeout(seconds * 2):
            return await _ask_adapting(session, judge.with_settings(max_tokens=_MAX_TOKENS), seconds)
    except TimeoutError:
        return ModelCheck(problem=ProblemKind.TIMEOUT, message=f"No answer within {seconds * 2:g} s.")
    except Forbidden as fault:
        return ModelCheck(problem=ProblemKind.ADDRESS_REFUSED, message=f"Not sent: the base URL {fault}.")
    except NoAnswer as failure:
        return ModelCheck(problem=_KIND_OF_CAUSE[failure.cause], message=_sentence(str(failure)))
    except Oversized:
        message = f"The answer is larger than {_MOST_BYTES // 2**20} MB, which no answer to a test is."
        return ModelCheck(problem=ProblemKind.TOO_LARGE, message=message)
    except Unsendable as fault:
        message = redact(f"The request cannot be sent: {fault}.", _secrets(judge))
        return ModelCheck(problem=ProblemKind.UNUSABLE, message=message)
    finally:
        await session.close()


async def _ask_adapting(session: Any, judge: ConnectedJudge, seconds: float) -> ModelCheck:
    """Ask, leaving out what the endpoint refuses, as the judge does."""
    capabilities = Capabilities()
    headers = {"Content-Type": "application/json", **judge.authorization(_key_of(judge).reveal())}
    for _ in range(_MOST_TRIES):
        all_settings = judge.settings(capabilities)
        settings = {name: value for name, value in all_settings.items() if name not in capabilities.refused}
        body = judge.body(ModelRequest(_PROMPT, None, None, Mode.TEXT, settings))
        start = time.perf_counter()
        answer = await session.send(
            "POST", judge.path(), json.dumps(body).encode(), headers, seconds, most=_MOST_BYTES
        )
        latency_ms = (time.perf_counter() - start) * 1000
        content = redact_credentials(answer.content, _secrets(judge))
        check, refusal = _read_answer(judge, answer._replace(content=content), latency_ms)
        attempt = Attempt(Mode.TEXT, tuple(settings))
        if refusal is None or capabilities.learn(refusal, attempt) is None:
            break
    return replace(check, message=redact(check.message, _secrets(judge)))


def _read_answer(
    judge: ConnectedJudge, answer: Answer, latency_ms: float
) -> tuple[ModelCheck, RequestRefused | None]:
    """Say what an answer means; with the refusal, where it is one of the request."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return _read_refusal(judge, answer.status, parse_error_reply(answer.content))
    try:
        data = json.loads(answer.content)
    except JSON_ERRORS:
        excerpt = excerpt_of_content(answer.content) or "it is empty"
        message = f"The answer is not JSON: {excerpt}"
        return ModelCheck(problem=ProblemKind.NOT_JSON, message=message, status=answer.status), None
    status = find_status(data)  # gateways send errors with status 200
    if status is not None:
        return _read_refusal(judge, status, find_error_reply(data))
    metrics = judge.metrics_of(judge.tokens(data), latency_ms)
    try:
        completion = judge.read(data)
    except JudgeReplyError as error:
        reason = str(error).removeprefix(f"{judge.label}: ")
        found = ModelCheck(problem=ProblemKind.NO_ANSWER, message=_sentence(reason), status=answer.status)
        return found, None
    if not completion.text and completion.finish == "stop":
        message = f"The answer holds no text where {_protocol_of(judge)} has it."
        return ModelCheck(problem=ProblemKind.NO_ANSWER, message=message, status=answer.status), None
    message = f"{judge.model} answered within {latency_ms / 1000:.1f} s."
    return ModelCheck(problem=None, message=message, status=answer.status, metrics=metrics), None


def _read_refusal(judge: ConnectedJudge, status: int, reply: ErrorReply) -> tuple[ModelCheck, RequestRefused]:
    said = f"{format_status(status)}: {reply.message or 'no message'}"
    kind, meaning = _meaning_of(judge, status, reply)
    refusal = RequestRefused(said, status=status, error_reply=reply)
    return ModelCheck(problem=kind, message=f"{meaning} ({said}).", status=status), refusal


def _meaning_of(judge: ConnectedJudge, status: int, reply: ErrorReply) -> tuple[ProblemKind, str]:
    if status < HTTPStatus.BAD_REQUEST:
        return ProblemKind.REDIRECTED, "Redirects are not followed; enter the address where the API is"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ProblemKind.KEY_REFUSED, "The endpoint refuses the key"
    if status == HTTPStatus.NOT_FOUND:
        path = judge.path().removeprefix(judge.url)
        return (
            ProblemKind.NOT_FOUND,
            f"The endpoint has no model {judge.model!r}, or nothing at {path} below the base URL",
        )
    if reply.is_quota_exhausted:
        return ProblemKind.RATE_LIMITED, "The account has no money left"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ProblemKind.RATE_LIMITED, "The endpoint takes no more requests at the moment"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ProblemKind.SERVER_ERROR, "The endpoint fails"
    return ProblemKind.REFUSED, "The endpoint refuses the request"


def _with_other_protocol(judge: ConnectedJudge) -> ConnectedJudge:
    made = ConnectedChat if isinstance(judge, ConnectedResponses) else ConnectedResponses
    settings = {each.name: getattr(judge, each.name) for each in fields(judge) if each.init}
    return made(**settings)


def _protocol_of(judge: ConnectedJudge) -> ModelProtocol:
    return (
        ModelProtocol.RESPONSES if isinstance(judge, ConnectedResponses) else ModelProtocol.CHAT_COMPLETIONS
    )


def _key_of(judge: ConnectedJudge) -> Secret:
    assert isinstance(judge.api_key, Secret), "a connection always has a key"
    return judge.api_key


def _secrets(judge: ConnectedJudge) -> tuple[Secret, ...]:
    return (_key_of(judge),)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
