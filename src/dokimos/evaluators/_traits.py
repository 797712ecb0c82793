"""What the runner needs to know about an evaluator: whether it is async, may block, gets copies."""

from __future__ import annotations

import inspect
from typing import Any


def is_built_in(thing: Any) -> bool:
    """Return whether a class or a function is part of dokimos."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__).startswith("dokimos.")


class Traits:
    """What the runner needs to know about an evaluator. Not settings, so they are outside the dataclass."""

    blocking: bool = False
    is_async: bool = False
    gives_several: bool = False
    """Whether `score` may return several scores; evaluators that users write may."""
    gets_copies: bool = False
    """Whether `score` calls users' code, which gets a copy of the case, since it may modify it."""
    judge_calls: str = "0"
    """How many calls of a judge one case costs, as arithmetic over the words of `CALL_COUNTS`; what differs
    in special cases follows a semicolon."""
    method_source: str = ""
    """Who defined the method."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "score" in cls.__dict__ and "is_async" not in cls.__dict__:
            cls.is_async = inspect.iscoroutinefunction(cls.__dict__["score"])
        # The nearest class that decides about blocking is ours: what users write may block, and ours does
        # not. A base class of their own has decided for its subclasses.
        if not is_built_in(cls) and is_built_in(
            next(base for base in cls.__mro__ if "blocking" in base.__dict__)
        ):
            cls.blocking = True
        if not is_built_in(cls):
            cls.gets_copies = cls.gives_several = True
