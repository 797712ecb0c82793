"""Every exception that dokimos raises on purpose.

DokimosError
├── ConfigurationError     a wrong argument, option or file of ours
├── DatasetError           a data set that cannot be found or read
├── DocumentError          a document that cannot be read
├── TypeConversionError    a value that cannot be converted to the requested type
├── EvaluationError        an evaluator that cannot score this case
│   ├── MissingInputError  ... because a part that it requires is absent
│   └── UnusableOutputError  ... because the output is at fault: the worst score, not an error
├── JudgeError             a judge that gives no usable answer
│   ├── JudgeReplyError    ... because its reply cannot be used
│   └── JudgeUnavailableError  ... because it cannot be reached or refuses
│       └── EndpointDownError  ... and a resumed run makes up for it by itself
├── ServerError            a call to a server, such as one of dokimos, that failed
│   ├── ServerUnavailableError  ... because it cannot be reached, is overloaded or fails
│   ├── ServerRefusedError      ... because it refuses the request
│   ├── ServerReplyError        ... because its reply cannot be used
│   └── AddressRefusedError     ... because requests may not go to its address
├── AgentError             an application under test that cannot be reached or gives no usable answer
├── SimulationError        a simulated conversation that broke off
├── RunError               a run that cannot start or go on
│   ├── JournalError       ... because its record cannot be read or written
│   ├── RunLockedError     ... because another process has it
│   ├── TooManyErrors      ... because its tasks keep failing
│   └── BudgetExceededError  ... because its budget is spent
├── EvalAssertionError     evaluations that a test asserts and that fail; an AssertionError too
├── RegressionError        a result that a gate rejects; an AssertionError too
├── ReporterError          a reporter that failed
├── TraceError             spans that cannot be read
├── IntegrationError       a framework's agent or result that cannot be used
└── MissingExtraError      an optional package that is not installed
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:  # of the same layer: values raise errors, and errors carry values
    from dokimos._core.conversation import ConversationTrajectory
    from dokimos._core.metrics import CallMetrics
    from dokimos._core.results import ErrorKind, ExperimentResult

__all__ = [
    "AddressRefusedError",
    "AgentError",
    "BaselineWarning",
    "BudgetExceededError",
    "ConfigurationError",
    "DatasetError",
    "DocumentError",
    "DokimosError",
    "EndpointDownError",
    "EvalAssertionError",
    "EvaluationError",
    "InconclusiveWarning",
    "IntegrationError",
    "JournalError",
    "JudgeError",
    "JudgeReplyError",
    "JudgeUnavailableError",
    "MissingExtraError",
    "MissingInputError",
    "RecordedCallError",
    "RegressionError",
    "ReplayMissError",
    "ReporterError",
    "RunError",
    "RunFailedError",
    "RunInterrupted",
    "RunLockedError",
    "ServerError",
    "ServerRefusedError",
    "ServerReplyError",
    "ServerUnavailableError",
    "SimulationError",
    "TooManyErrors",
    "TraceError",
    "TypeConversionError",
    "UnknownSettingError",
    "UnusableOutputError",
    "Verdict",
]


def __dir__() -> list[str]:
    from dokimos._exports import names_for_completion

    return names_for_completion(globals())


class DokimosError(Exception):
    """Base class of all errors raised by dokimos."""

    result: ExperimentResult | None = None
    """The partial result of the run that this error ended, None where no run had begun."""


class ConfigurationError(DokimosError):
    """An argument, option or configuration file is wrong; nothing was run."""

    def __init__(self, *args: object, setting: str | None = None) -> None:
        super().__init__(*args)
        self.setting = setting
        """The setting that is at fault, where it is one of those that were given."""


class UnknownSettingError(ConfigurationError, TypeError):
    """An unknown keyword argument; the message suggests the nearest known one."""


class DatasetError(DokimosError):
    """A data set cannot be found, read or understood.

    The message starts with the file and, where there is one, the 1-based line.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = path
        self.line = line
        where = "" if path is None else str(path)
        if line is not None:
            where = f"{where}:{line}" if where else f"line {line}"
        super().__init__(f"{where}: {message}" if where else message)


class DocumentError(DokimosError):
    """A document cannot be read: it is damaged, encrypted, or of a kind that has no text.

    The message starts with the file.
    """

    def __init__(self, message: str, *, path: str | Path) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class TypeConversionError(DokimosError):
    """A value cannot be converted to the requested type; `__cause__` holds the reason."""

    def __init__(self, message: str, *, target: object, key: str | None = None) -> None:
        self.target = target
        self.key = key
        super().__init__(message)


class EvaluationError(DokimosError):
    """An evaluator cannot score a case because the data, its configuration or its judge is at fault."""


class MissingInputError(EvaluationError):
    """A part of the case that an evaluator requires is absent."""


class UnusableOutputError(EvaluationError):
    """The output is at fault (not a number, not JSON, path missing).

    Raised by an evaluator's `score`, it becomes the worst score with this message as its reason.
    """


class JudgeError(DokimosError):
    """A judge gave no usable answer; the result is an error, never a score."""


class JudgeReplyError(JudgeError):
    """A judge's reply could not be parsed, or did not match its schema, even after one repair.

    Its `kind` is `contested` where the reply holds values that are not, or not clearly, the judge's verdict
    (several that differ, one that does not fit, one quoted from the judged text), and `unreadable` where it
    holds none.
    """

    def __init__(
        self,
        message: str,
        *,
        metrics: CallMetrics | None = None,
        kind: ErrorKind = "unreadable",
    ) -> None:
        self.metrics: CallMetrics | None = metrics
        """What that reply cost, where it was not counted yet."""
        self.kind = kind
        super().__init__(message)


class JudgeUnavailableError(JudgeError):
    """A judge could not be reached, or refused; the message names provider, model, status and reason."""

    status: int | None = None
    """The HTTP status of a request that was refused for good, None where there is none."""
    may_be_billed: bool = False
    """Whether the last request was sent and nobody knows what became of it (no answer in time, a cut
    connection), so that its provider may bill it. False where it was not sent, or refused."""


class EndpointDownError(JudgeUnavailableError):
    """An endpoint that a run needs is down, refuses its credential, or keeps refusing its rate (429).

    The item that needed it is not finished: a resumed run evaluates it, even without `retry_errors`.
    """

    kind: Final[ErrorKind] = "unavailable"

    def __init__(self, message: str, *, history: str = "") -> None:
        self.history = history
        """Since when and why the endpoint has been down, "" while it is still retried."""
        super().__init__(message)

    @classmethod
    def find_in_chain(cls, error: BaseException) -> EndpointDownError | None:
        """Return the error of this kind that `error` is or was raised from, if any."""
        from dokimos._core.error_chain import error_chain  # only where something has failed

        return next((each for each in error_chain(error) if isinstance(each, cls)), None)


class ServerError(DokimosError):
    """A call to a server failed: the HTTP API of a dokimos server, a webhook, not a judge."""


class ServerUnavailableError(ServerError):
    """A server could not be reached, was overloaded or failed; the same call may succeed later."""


class ServerRefusedError(ServerError):
    """A server refused a request (4xx); the same request would be refused again.

    Example:
        >>> error = ServerRefusedError("GET http://localhost:8080/x: 404 Not Found", status=404)
        >>> error.status, error.details
        (404, None)
    """

    def __init__(self, message: str, *, status: int, details: object = None) -> None:
        self.status = status
        """The HTTP status."""
        self.details = details
        """The JSON of the answer, None where it was not JSON."""
        super().__init__(message)


class ServerReplyError(ServerError):
    """A server's reply cannot be used: it is too large, or is not what the API promises."""


class AddressRefusedError(ServerError):
    """A request was not sent: its address is private, and is not one of those that are allowed."""


class ArchiveError(DokimosError):
    """An archive of a server's database cannot be written, read or loaded; the database is as it was."""


class AgentError(DokimosError):
    """An application under test, an endpoint or a command, cannot be reached or gives no usable answer."""

    def __init__(self, message: str, *, metrics: CallMetrics | None = None) -> None:
        self.metrics: CallMetrics | None = metrics
        """What the agent's model calls cost until then, where that is known."""
        super().__init__(message)


class ReplayMissError(DokimosError):
    """A call of a model or a tool is not among the recordings that a replay answers from.

    The item is errored. The message names the closest recording and where it first differs.
    """


class RecordedCallError(DokimosError):
    """A replayed call failed when it was recorded; the message is the recorded error."""


class SimulationError(DokimosError):
    """A simulated conversation broke off; `trajectory` holds what was said until then."""

    def __init__(self, message: str, trajectory: ConversationTrajectory) -> None:
        self.trajectory: ConversationTrajectory = trajectory
        super().__init__(message)


class RunError(DokimosError):
    """A run cannot start or go on."""


class JournalError(RunError):
    """The record of a run cannot be read, written or continued."""


class RunLockedError(RunError):
    """Another process is working on this run."""


class TooManyErrors(RunError):
    """A run was stopped because more items failed with an error than `max_errors` allows.

    `result` holds the partial result.
    """

    def __init__(self, message: str, result: ExperimentResult) -> None:
        self.result: ExperimentResult = result
        super().__init__(message)


class RunFailedError(RunError):
    """A run was not completed, or every item errored; `result` holds the partial result."""

    def __init__(self, message: str, result: ExperimentResult) -> None:
        self.result: ExperimentResult = result
        super().__init__(message)


class BudgetExceededError(RunError):
    """A call was not made because the budget of its run is spent."""


class EvalAssertionError(DokimosError, AssertionError):
    """An evaluation that a test asserts fails; the message names all that fails.

    `summary` is all of it in one line, without reasons.
    """

    def __init__(self, message: str, summary: str = "") -> None:
        self.summary: str = summary or message.partition("\n")[0]
        super().__init__(message)


class Verdict(Protocol):
    """What a handler of `RegressionError` needs of a `GateVerdict`, which the gate, far above, defines."""

    @property
    def status(self) -> str:
        """PASS, FAIL, NO_BASELINE or INCONCLUSIVE."""
        ...

    @property
    def passed(self) -> bool: ...

    @property
    def message(self) -> str:
        """The verdict, why, what it rests on, and how to accept the change."""
        ...

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the gate does not pass, as sentences."""
        ...

    def to_markdown(self) -> str: ...

    def to_html(self) -> str: ...


class RegressionError(DokimosError, AssertionError):
    """A regression gate rejects a result; `verdict` says why."""

    def __init__(self, message: str, verdict: Verdict | None = None) -> None:
        self.verdict = verdict
        super().__init__(message)


class ReporterError(DokimosError):
    """A reporter failed; a run never fails because of it."""


class TraceError(DokimosError):
    """Trace data cannot be read as spans, or is too large."""


class IntegrationError(DokimosError):
    """A framework's result or agent cannot be used: a blank reply, missing sources, not an agent."""


class MissingExtraError(DokimosError, ImportError):
    """An optional package is not installed."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `result` holds the partial result, and the run can be resumed.

    Not a `DokimosError`: like every `KeyboardInterrupt` it must pass `except Exception`.
    """

    def __init__(self, message: str, result: ExperimentResult) -> None:
        self.result: ExperimentResult = result
        super().__init__(message)


class InconclusiveWarning(UserWarning):
    """A gate accepts a result without evidence either way: its verdict is INCONCLUSIVE."""


class BaselineWarning(UserWarning):
    """A gate passes without a comparison: it created or updated its baseline, or found none."""
