"""What is known of a trace from its spans: in parts that can be merged in any order.

Spans come in batches that are late, repeated, out of order and stored by several servers. Whatever is kept of
a trace is therefore a sum, a smallest or a largest value over the set of its spans, and the summaries of two
sets merge into that of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

from dokimos.server._services.traces.new_spans import ERROR, LAST_START, NewSpan

NANO: Final = 1_000_000_000
_MAX_MODELS: Final = 50
"""Models of one trace that are counted apart; the others are counted together, as `OTHER_MODELS`."""
_MAX_NAME: Final = 200
OTHER_MODELS: Final = "(others)"
_MAX_CHOICE: Final = 2000
"""Characters of a text that a list shows of a trace."""
_Rank: TypeAlias = tuple[int, int, str]


@dataclass(slots=True)
class Usage:
    """Tokens and cost, None where no span says anything."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_nano_usd: int | None = None

    def add(self, other: Usage) -> None:
        """Add what another set of spans has used."""
        self.tokens_in = _add(self.tokens_in, other.tokens_in)
        self.tokens_out = _add(self.tokens_out, other.tokens_out)
        self.cost_nano_usd = _add(self.cost_nano_usd, other.cost_nano_usd)

    def keep_larger(self, other: Usage) -> None:
        """Keep the larger value of each: that of the outermost of several that count the same again."""
        self.tokens_in = _larger(self.tokens_in, other.tokens_in)
        self.tokens_out = _larger(self.tokens_out, other.tokens_out)
        self.cost_nano_usd = _larger(self.cost_nano_usd, other.cost_nano_usd)

    @property
    def is_known(self) -> bool:
        """Whether any span says something."""
        return not (self.tokens_in is self.tokens_out is self.cost_nano_usd is None)


@dataclass(slots=True)
class ModelUsage(Usage):
    """What the calls of one model have used."""

    call_count: int = 0
    error_count: int = 0
    priced_calls: int = 0
    """Calls whose cost is known."""
    unpriced_calls: int = 0
    """Calls that used tokens at an unknown price; one without tokens, such as a failed one, is neither."""

    def add_call(
        self, tokens_in: int | None, tokens_out: int | None, cost_usd: float | None, *, is_error: bool
    ) -> None:
        """Add one call of the model."""
        if tokens_in is not None:
            self.tokens_in = tokens_in + (self.tokens_in or 0)
        if tokens_out is not None:
            self.tokens_out = tokens_out + (self.tokens_out or 0)
        if cost_usd is not None:
            self.cost_nano_usd = round(cost_usd * NANO) + (self.cost_nano_usd or 0)
            self.priced_calls += 1
        elif tokens_in is not None or tokens_out is not None:
            self.unpriced_calls += 1
        self.call_count += 1
        self.error_count += is_error

    def add_calls(self, other: ModelUsage) -> None:
        """Add other calls of the model."""
        self.add(other)
        self.call_count += other.call_count
        self.error_count += other.error_count
        self.priced_calls += other.priced_calls
        self.unpriced_calls += other.unpriced_calls


@dataclass(slots=True)
class Choice:
    """A value that one span of a trace gives: the first that has one, by rank."""

    rank: _Rank
    value: Any


@dataclass(slots=True)
class TraceSummary:
    """What is known of a set of spans of one trace."""

    span_count: int = 0
    error_count: int = 0
    byte_count: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    first_chunk_ms: float | None = None
    models: dict[str, ModelUsage] = field(default_factory=dict)
    """By the name of the model, empty where it has none."""
    agents: Usage = field(default_factory=Usage)
    """What agents say they used, which counts where no model says anything."""
    choices: dict[str, Choice] = field(default_factory=dict)
    """By what is chosen: `root`, `session`, `user`, `project`."""
    knows_prices: bool = True
    """Whether the calls of models are told apart by their prices, as an earlier version did not do."""

    @property
    def usage(self) -> Usage:
        """What the trace has used."""
        tokens_in = tokens_out = cost = None
        for each in self.models.values():
            # Here, since three calls for each model take twice as long.
            if each.tokens_in is not None:
                tokens_in = each.tokens_in + (tokens_in or 0)
            if each.tokens_out is not None:
                tokens_out = each.tokens_out + (tokens_out or 0)
            if each.cost_nano_usd is not None:
                cost = each.cost_nano_usd + (cost or 0)
        if tokens_in is tokens_out is cost is None:
            return self.agents
        return Usage(tokens_in, tokens_out, cost)

    @property
    def call_prices(self) -> tuple[int, int] | tuple[None, None]:
        """How many calls have a known cost, and how many used tokens and have none, which `usage` lacks.

        What only agents say counts as one call. None where an earlier version has counted some spans.
        """
        if not self.knows_prices:
            return None, None
        models = self.models.values()
        if self.agents.is_known and not any(each.is_known for each in models):
            is_priced = self.agents.cost_nano_usd is not None
            return int(is_priced), int(not is_priced)
        return sum([each.priced_calls for each in models]), sum([each.unpriced_calls for each in models])

    @property
    def duration_ns(self) -> int | None:
        """From the first start to the last end, None where one is unknown or they are in the wrong order."""
        if self.start_ns is None or self.end_ns is None or self.end_ns < self.start_ns:
            return None
        return self.end_ns - self.start_ns

    def find_choice(self, name: str) -> Any:
        """Return a value that was chosen, None where no span has it."""
        choice = self.choices.get(name)
        return None if choice is None else choice.value

    def add_span(self, span: NewSpan, project: str | None = None) -> None:
        """Add a span that is not among these yet.

        Args:
            project: The id of the project that it belongs to, None where that is unknown.
        """
        # At once: to ask for each field by its name takes twice as long.
        span_id, parent_id, name, _, status, role, start, end = span[1:9]
        tokens_in, tokens_out, cost_usd, first_chunk_ms, model, input_text, output_text = span[9:16]
        session, user, _, _, body = span[17:22]
        self.span_count += 1
        self.byte_count += len(body)
        is_error = status == ERROR
        if is_error:
            self.error_count += 1
        if start is not None and (self.start_ns is None or start < self.start_ns):
            self.start_ns = start
        if end is not None and (self.end_ns is None or end > self.end_ns):
            self.end_ns = end
        if first_chunk_ms is not None:
            self.first_chunk_ms = _smaller(self.first_chunk_ms, first_chunk_ms)
        if role == "model":
            self._add_call(model or "", tokens_in, tokens_out, cost_usd, is_error=is_error)
        elif role == "agent":
            self.agents.keep_larger(Usage(tokens_in, tokens_out, _in_nano(cost_usd)))
        start = LAST_START if start is None else start
        rank = (0 if parent_id is None else 1, start, span_id)
        root = self.choices.get("root")
        if root is None or rank < root.rank:
            self.choices["root"] = Choice(rank, [name, status, _cut(input_text), _cut(output_text)])
        rank = (0, start, span_id)
        for choice, value in (("session", session), ("user", user), ("project", project)):
            if value is not None:
                self._choose(choice, rank, value)

    def merge(self, other: TraceSummary) -> None:
        """Add the spans of another summary, none of which are among these."""
        self.span_count += other.span_count
        self.error_count += other.error_count
        self.byte_count += other.byte_count
        self.start_ns = _smaller(self.start_ns, other.start_ns)
        self.end_ns = _larger(self.end_ns, other.end_ns)
        self.first_chunk_ms = _smaller(self.first_chunk_ms, other.first_chunk_ms)
        for name, usage in other.models.items():
            self._add_calls(name, usage)
        self.agents.keep_larger(other.agents)
        self.knows_prices = self.knows_prices and other.knows_prices
        for name, choice in other.choices.items():
            self._choose(name, choice.rank, choice.value)

    def dump(self) -> str:
        """Return it as JSON."""
        parts: dict[str, object] = {name: getattr(self, name) for name in _PLAIN}
        parts["models"] = {
            name: [each.tokens_in, each.tokens_out, each.cost_nano_usd, each.call_count, each.error_count]
            for name, each in self.models.items()
        }
        parts["agents"] = [self.agents.tokens_in, self.agents.tokens_out, self.agents.cost_nano_usd]
        parts["choices"] = {name: [each.rank, each.value] for name, each in self.choices.items()}
        if self.knows_prices:
            # Beside the models: a server of an earlier version, which may share the database, reads these.
            parts["prices"] = {
                name: [each.priced_calls, each.unpriced_calls] for name, each in self.models.items()
            }
        return _ENCODER.encode(parts)

    @classmethod
    def load(cls, text: str) -> TraceSummary:
        """Read what `dump` wrote."""
        parts = json.loads(text)
        prices = parts.get("prices")
        return cls(
            **{name: parts[name] for name in _PLAIN},
            models={
                name: ModelUsage(*values, *(() if prices is None else prices[name]))
                for name, values in parts["models"].items()
            },
            agents=Usage(*parts["agents"]),
            choices={name: Choice(tuple(rank), value) for name, (rank, value) in parts["choices"].items()},
            knows_prices=prices is not None or parts["span_count"] == 0,
        )

    @classmethod
    def of(cls, spans: Iterable[tuple[NewSpan, str | None]]) -> TraceSummary:
        """Return the summary of spans, each with the id of its project."""
        summary = cls()
        for span, project in spans:
            summary.add_span(span, project)
        return summary

    def _add_call(
        self,
        model: str,
        tokens_in: int | None,
        tokens_out: int | None,
        cost_usd: float | None,
        *,
        is_error: bool,
    ) -> None:
        usage = self.models.get(model)
        if usage is None and len(model) <= _MAX_NAME and len(self.models) < _MAX_MODELS:
            usage = self.models[model] = ModelUsage()
        if usage is not None:
            usage.add_call(tokens_in, tokens_out, cost_usd, is_error=is_error)
            return
        own = ModelUsage()
        own.add_call(tokens_in, tokens_out, cost_usd, is_error=is_error)
        self._add_calls(model[:_MAX_NAME], own)

    def _add_calls(self, name: str, usage: ModelUsage) -> None:
        present = self.models.get(name)
        if present is None:
            present = self.models[name] = ModelUsage()
        present.add_calls(usage)
        if len(self.models) > _MAX_MODELS:
            # The last by name: one that is among the first of all is so in each part, and is never cut up.
            last = max(each for each in self.models if each != OTHER_MODELS)
            self.models.setdefault(OTHER_MODELS, ModelUsage()).add_calls(self.models.pop(last))

    def _choose(self, name: str, rank: _Rank, value: Any) -> None:
        present = self.choices.get(name)
        if present is None or rank < present.rank:
            self.choices[name] = Choice(rank, value)


_NESTED: Final = ("models", "agents", "choices", "knows_prices")
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_PLAIN: Final = tuple(each.name for each in fields(TraceSummary) if each.name not in _NESTED)


def _in_nano(cost_usd: float | None) -> int | None:
    return None if cost_usd is None else round(cost_usd * NANO)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_CHOICE]


def _add(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _smaller(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _larger(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
