"""What a call to a model may cost at most, and what it did cost, where its provider does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos.judges import JudgeReply
from dokimos.judges._fencing import count_sent_bytes
from dokimos.judges._judge_calls import CallRequest
from dokimos.judges._prices import cost_of
from dokimos.judges._provider import HttpJudge
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.judging.judge_budgets import NANO, Amount, Limits

_FRAMING_TOKENS: Final = 256
"""For the tokens around a prompt: of roles, of the name of a schema, of the ends of messages."""
_SCHEMA_COPIES: Final = 2
"""A schema is sent beside the prompt, and in it where the endpoint does not take it otherwise."""
_ASSUMED_OUTPUT_TOKENS: Final = 4096
"""What the first reply may have of a model whose replies have no limit: more than judges usually write."""
_MOST: Final = 2**52
"""What an amount counts at most, so that sums of any number of them fit into 64 bits."""


class UnpricedModelError(ConflictError):
    """A budget in dollars cannot hold, since nobody knows what the model costs."""


def is_priced(model: str, prices: PriceTable | None) -> bool:
    """Say whether a list of prices has a model."""
    return prices is not None and cost_of(prices, CallMetrics(1, 1, model=model)) is not None


def check_prices(limits: Limits, connection_name: str, model: str, prices: PriceTable | None) -> None:
    """Refuse a budget in dollars for a model whose price nobody knows.

    Raises:
        UnpricedModelError: It cannot hold.
    """
    if limits.scope_in_dollars is not None and not is_priced(model, prices):
        raise UnpricedModelError(
            f"A budget in dollars limits judging, and the price of the model {model!r} of the connection "
            f"'{connection_name}' is not known: set inputPricePerMillion and outputPricePerMillion "
            "of the connection (US dollars), or set a budget in tokens or calls instead."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBounds:
    """What the calls of a model may cost."""

    model: str
    prices: PriceTable | None = None
    max_output_tokens: int | None = None
    """The most tokens of a reply, as each request says; None where no request says so."""
    system_bytes: int = 0
    """The length of the system message that goes before each prompt."""

    @classmethod
    def of(cls, judge: HttpJudge) -> CallBounds:
        """Return those of a judge."""
        return cls(
            model=judge.model,
            prices=judge.prices if is_priced(judge.model, judge.prices) else None,
            max_output_tokens=judge.max_tokens,
            system_bytes=len((judge.system or "").encode("utf-8", "surrogatepass")),
        )

    def most_input_tokens(self, request: CallRequest) -> int:
        """Return how many tokens a request can have: a token stands for one byte at least."""
        prompt = count_sent_bytes(request.prompt)
        schema = 0 if request.schema is None else len(request.schema_text)  # which is ASCII
        return prompt + self.system_bytes + _SCHEMA_COPIES * schema + _FRAMING_TOKENS

    def upper_bound(self, input_tokens: int, *, in_dollars: bool) -> Amount | None:
        """Return what a call can cost at most, None where that is not known.

        Args:
            input_tokens: What its request can have at most.
            in_dollars: Whether the dollars have to be known.
        """
        if self.max_output_tokens is None:
            return None
        nano_usd = self._price(input_tokens, self.max_output_tokens)
        if nano_usd is None and in_dollars:
            return None
        return amount(1, input_tokens + self.max_output_tokens, nano_usd or 0)

    def assume(self, input_tokens: int | None) -> Amount:
        """Return what the first call of a model may cost whose replies have no limit.

        Args:
            input_tokens: What its request can have at most; None for a call that is not a judge's.
        """
        read = input_tokens or 0
        nano_usd = self._price(read, _ASSUMED_OUTPUT_TOKENS)
        return amount(1, read + _ASSUMED_OUTPUT_TOKENS, nano_usd or 0)

    def measure(
        self, metrics: CallMetrics | None, input_tokens: int | None, reply: JudgeReply | None
    ) -> tuple[Amount, bool]:
        """Return what a call has cost, and whether its price is known.

        Where the endpoint does not say how many tokens that were, all that can have been are counted.

        Args:
            metrics: What is known of it.
            input_tokens: What its request can have had at most; None for a call that is not a judge's.
            reply: The reply, None where there is none.
        """
        metrics = CallMetrics() if metrics is None else metrics
        read, written = metrics.tokens_in, metrics.tokens_out
        if read is None:
            read = input_tokens or 0
        if written is None:
            # Of a reply that cannot be read nobody knows how long it was.
            most = self.max_output_tokens or 0
            written = most if reply is None else len(reply.text.encode("utf-8", "surrogatepass"))
        cost = metrics.cost_usd
        nano_usd = self._price(read, written) if cost is None else _nano(cost)
        return amount(1, read + written, nano_usd or 0), nano_usd is not None

    def _price(self, tokens_in: int, tokens_out: int) -> int | None:
        if self.prices is None:
            return None
        cost = cost_of(self.prices, CallMetrics(tokens_in, tokens_out, model=self.model))
        return None if cost is None else _nano(cost)


def amount(calls: int, tokens: float, nano_usd: float) -> Amount:
    """Return an amount in whole numbers that the tables can hold; a part counts as a whole."""
    return Amount(calls, _ceil(tokens), _ceil(nano_usd))


def _nano(usd: float) -> int:
    # Rounded first: 0.1 dollars are not one billionth more because floats are binary.
    return round(min(usd * NANO, _MOST))


def _ceil(number: float) -> int:
    return min(_MOST, -int(-number // 1))
