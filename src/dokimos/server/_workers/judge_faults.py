"""What the endpoint of a model says that concerns a whole job, and not one item of it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from dokimos.errors import EndpointDownError, JudgeUnavailableError
from dokimos.server._services.judging.judge_outcomes import RequestRejected

if TYPE_CHECKING:
    from dokimos.judges._protocol import JsonSchemaDict, JudgeLM, JudgeReply

MANY: Final = 20
"""So many replies without one that can be used say enough about a model."""
_ADVICE: Final = {
    HTTPStatus.UNAUTHORIZED: "It refuses the key: give the connection a valid one",
    HTTPStatus.FORBIDDEN: "The key may not use this model: give the connection another one",
    HTTPStatus.PAYMENT_REQUIRED: "The account is out of money",
    HTTPStatus.NOT_FOUND: "Check the address, the model and the protocol of the connection",
    HTTPStatus.METHOD_NOT_ALLOWED: "Check the address and the protocol of the connection",
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: "The proxy of the server wants a login",
    HTTPStatus.GONE: "The model is gone: choose another one in the connection",
    HTTPStatus.TOO_MANY_REQUESTS: "The account has used up its quota",
    HTTPStatus.NOT_IMPLEMENTED: "Check the protocol of the connection",
}
"""By the status with which an endpoint refuses whatever it is asked, what there is to do."""
_FIRST_REDIRECT: Final = 300


class FaultWatch:
    """Notes what the calls of a job meet, so that 10,000 items do not err one by one for one reason."""

    def __init__(self) -> None:
        self.has_answered = False
        self.fault: str | None = None
        """Why every further call would be refused, and what to do; None as long as none is known."""
        self.outage: str | None = None
        """Why the endpoint counts as down, None while it does not."""

    def note(self, error: JudgeUnavailableError) -> None:
        """Note a call that had no answer."""
        if isinstance(error, EndpointDownError) and error.history and error.status is None:
            self.outage = str(error)
        status = error.status
        if status is None:
            return
        is_redirect = _FIRST_REDIRECT <= status < HTTPStatus.BAD_REQUEST
        if not is_redirect and status not in _ADVICE:
            return  # it refuses this request, and perhaps no other one
        if status == HTTPStatus.FORBIDDEN and self.has_answered:
            return  # some providers refuse single texts so
        advice = _ADVICE.get(HTTPStatus(status), "Give the connection the address that it leads to")
        self.fault = f"{error} {advice}, then retry the job."


class WatchedJudge:
    """The model of a job, watched."""

    def __init__(self, judge: JudgeLM, watch: FaultWatch) -> None:
        self.judge = judge
        self._watch = watch

    @property
    def identity(self) -> str:
        from dokimos.judges._protocol import identity_of

        return identity_of(self.judge)

    def with_logprobs(self, top: int = 5) -> WatchedJudge:
        """Return this model asking for token probabilities, where it can."""
        from dokimos.evaluators._llm.g_eval import with_logprobs

        return WatchedJudge(with_logprobs(self.judge, top), self._watch)

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        """Ask the model; raises what it raises."""
        try:
            reply = await self.judge.complete(prompt, schema=schema)
        except JudgeUnavailableError as error:
            self._watch.note(error)
            if error.status is None:
                raise
            rejected = RequestRejected(str(error))
            rejected.status = error.status
            raise rejected from error
        self._watch.has_answered = True
        return reply
