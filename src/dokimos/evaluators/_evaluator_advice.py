"""What to write in the place of something that is not an evaluator."""

from __future__ import annotations

from typing import Any

from dokimos.evaluators._base import Evaluator


def suggest_evaluator(thing: Any) -> str:
    """Return what to write in the place of something that is not an evaluator; "" where nothing fits."""
    if isinstance(thing, str):
        return _suggest_by_name(thing)
    if isinstance(thing, type):
        return f"; write {thing.__name__}(...)" if issubclass(thing, Evaluator) else _suggest_subclass(thing)
    if callable(getattr(thing, "evaluate", None)) or callable(getattr(thing, "score", None)):
        return _suggest_subclass(type(thing))
    return "; decorate it with @evaluator" if callable(thing) else ""


def _suggest_by_name(name: str) -> str:
    from dokimos.evaluators import registry

    similar = name if name in registry.names() else registry.nearest(name)
    if similar is None:
        return " but a text; `dokimos evaluators` lists all evaluators"
    kind = registry.find(similar).__name__
    return f" but a text; write {kind}(...) of dokimos.evaluators, or registry.build({similar!r})"


def _suggest_subclass(kind: type) -> str:
    return (
        f": its class must be derived from Evaluator; write '@dataclass(frozen=True, kw_only=True)', "
        f"'class {kind.__name__}(Evaluator):' and in it 'def score(self, case): return Score(value, reason)'"
    )
