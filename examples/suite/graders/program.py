"""Checks the calculation of a turn: a program such as `subtract(60.94, 25.14)` against the calls made."""

import re

from dokimos.suites import GraderContext, GraderResult

STEP = re.compile(r"(\w+)\(([^,]+),([^)]+)\)")


def calls_match_program(ctx: GraderContext) -> GraderResult:
    program = ctx.turn_config.get("program", "")
    wanted = [(name, float(a), float(b)) for name, a, b in STEP.findall(program)]
    made = [(call.name, call.args["a"], call.args["b"]) for call in ctx.tool_invocations]
    missing = [step for step in wanted if not any(_same(step, call) for call in made)]
    score = 1 - len(missing) / len(wanted) if wanted else float(not made)
    reason = f"missing: {missing}" if missing else f"{len(wanted)} steps of the program were carried out"
    return GraderResult(score=score, passed=score == 1, reason=reason, details={"made": made})


def _same(step: tuple[str, float, float], call: tuple[str, float, float]) -> bool:
    close = all(abs(x - y) < 0.01 for x, y in zip(step[1:], call[1:], strict=True))
    return step[0] == call[0] and close
