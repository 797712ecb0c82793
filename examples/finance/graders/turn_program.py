"""Compares a turn's program, such as `subtract(61.1, 25.4), divide(#0, 25.4)`, with the calls that were made.

`#0` is the result of the first step. A bare number means that nothing has to be calculated.
"""

import re

from dokimos.suites import GraderContext, GraderResult

STEP = re.compile(r"(\w+)\(([^,]+), ([^)]+)\)")
OPERATIONS = {"subtract": lambda a, b: a - b, "divide": lambda a, b: a / b}


def turn_program_equivalence(ctx: GraderContext) -> GraderResult:
    """Score the share of the program's steps that were carried out, in any order."""
    wanted = steps(ctx.turn_config["turn_program"])
    made = [(call.name, call.args) for call in ctx.tool_invocations if call.error is None]
    missing = [step for step in wanted if not any(same(step, *call) for call in made)]
    if not wanted:
        return GraderResult(1.0, True, "nothing had to be calculated")
    score = 1 - len(missing) / len(wanted)
    if not missing:
        return GraderResult(score, True, f"all {len(wanted)} steps of the program were carried out")
    told = ", ".join(f"{name}({a:g}, {b:g})" for name, a, b in missing)
    return GraderResult(score, False, f"not carried out: {told}", {"made": [str(call) for call in made]})


def steps(program: str) -> list[tuple[str, float, float]]:
    """Return the steps of a program with the results of earlier ones filled in."""
    done: list[float] = []
    found = []
    for name, a, b in STEP.findall(program):
        first, second = (done[int(x[1:])] if x.startswith("#") else float(x) for x in (a, b))
        done.append(OPERATIONS[name](first, second))
        found.append((name, first, second))
    return found


def same(step: tuple[str, float, float], name: str, args: dict) -> bool:
    """Tell whether a call is the step, within a thousandth of its numbers."""
    wanted, a, b = step
    try:
        given = float(args["a"]), float(args["b"])
    except (KeyError, TypeError, ValueError):
        return False
    close = (abs(x - y) <= 0.001 * max(abs(x), 1e-9) for x, y in zip((a, b), given, strict=True))
    return name == wanted and all(close)
