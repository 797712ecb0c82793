"""The tool that says how many items a comparison takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.number_format import round_half_up_or_none
from dokimos._mcp.answers import clean_name, clean_text
from dokimos._mcp.tool import Answer, Arguments, Parameter

if TYPE_CHECKING:
    from dokimos.comparison._planning import Assumption

PLAN_TEXT: Final = (
    "Say which drop a number of items can show, and how many items it takes to show one. Ask this before "
    "money is spent on a comparison."
)
PLAN_PARAMETERS: Final = (
    Parameter("run_id", "string", "A past run, whose variance is used"),
    Parameter("items", "integer", "The number of items at hand", minimum=1, maximum=10_000_000),
    Parameter("drop", "number", "The drop to detect", default=0.05, minimum=0.001, maximum=0.999),
    Parameter("power", "number", "The chance to detect it", default=0.8, minimum=0.01, maximum=0.999),
    Parameter(
        "pass_rate", "number", "Without run_id: the expected pass rate", default=0.8,
        minimum=0.01, maximum=0.99,
    ),
    Parameter(
        "noise", "number", "Share of the variance that is chance, where no repeats measure it", default=0.2,
        minimum=0, maximum=1,
    ),
)  # fmt: skip


def assume(arguments: Arguments) -> list[Assumption]:
    """Return what is assumed of the scores where no past run says it."""
    from dokimos.comparison._planning import Assumption

    return [Assumption.of_verdicts(arguments["pass_rate"], arguments["noise"])]


def plan_answer(arguments: Arguments, assumed: Sequence[Assumption], past_items: int | None) -> Answer:
    """Return what so many items show, those of a past run where the arguments name no number."""
    from dokimos.comparison._planning import plan

    items: Any = arguments["items"] or past_items
    made = plan(assumed, items=items, drop=arguments["drop"], power=arguments["power"], repeats=(1,))
    return {
        "advice": clean_text(made.advice),
        "notes": [clean_text(note) for note in made.notes],
        "items": made.items,
        "drop": made.drop,
        "power": made.power,
        "metrics": [
            {
                "metric": clean_name(row.metric or "pass rate"),
                "detectable_drop": round_half_up_or_none(row.detectable_drop),
                "items_needed": row.items_needed,
            }
            for row in made.rows
        ],
    }
