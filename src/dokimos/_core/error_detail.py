"""Where an error came from: its type, its message, and the frames of the user's own code."""

from __future__ import annotations

from dataclasses import dataclass

from dokimos._core.jsonable import WIRE_CONFIG


@dataclass(frozen=True, slots=True)
class Frame:
    """One place that an exception passed: a line of a file.

    Example:
        >>> str(Frame("app.py", 41, "answer"))
        'app.py:41 in answer'
    """

    file: str
    """Relative to the working directory where it lies below it, else with `~` for the home directory, else
    absolute; always with `/`. A notebook's cell is `In[3]`."""
    line: int | None = None
    function: str = ""
    """With its class, as in `Bot.answer`; "" for a line that could not even be compiled."""
    source: str = ""
    """The text of the line, without blanks around it; "" where the source is not there."""

    __pydantic_config__ = WIRE_CONFIG

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return where if self.function in ("", "<module>") else f"{where} in {self.function}"


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """What is known of an exception beside its text: kept where it was caught, without any local variables.

    Example:
        >>> def answer(question):
        ...     return {}["answer"]
        >>> result = evaluate([Example.of("a")], answer, [ExactMatch()], quiet=True, journal=False)
        >>> detail = result.item_results[0].error_detail
        >>> detail.type, detail.place  # in a file: app.py:41 in answer
        ('KeyError', '... in answer')
    """

    type: str
    """The name of its class, with the module unless it is built in: `KeyError`, `httpx.ConnectError`."""
    message: str = ""
    """Its text, at most 2,000 characters of it."""
    frames: tuple[Frame, ...] = ()
    """The places in the user's own code that it passed, the innermost last; at most 20. Where none is the
    user's, the one place in the library that was called."""
    traceback: str | None = None
    """The whole traceback as Python prints it, with causes and groups; at most 20,000 characters."""

    __pydantic_config__ = WIRE_CONFIG

    @classmethod
    def of(cls, error: BaseException) -> ErrorDetail | None:
        """Return where an exception came from; call it where the exception is caught.

        None for an error that dokimos raised on purpose without any of the user's code taking part: its
        message says it all. It never raises, and takes about 0.05 ms.
        """
        from dokimos._core.tracebacks import describe_exception  # only where something failed

        return describe_exception(error)

    @property
    def place(self) -> str:
        """The innermost frame that has a file: `app.py:41 in answer`; "" where none is known."""
        if not self.frames:
            return ""
        files = [frame for frame in self.frames if not frame.file.startswith("<")]
        return str((files or self.frames)[-1])


def append_place(text: str, detail: ErrorDetail | None) -> str:
    """Append the place of an error to a text, in brackets, where it is known."""
    place = "" if detail is None else detail.place
    return f"{text} ({place})" if place else text
