"""An agent that reads a table; it stands in for one that asks a model."""

import re

TABLE = {
    "revenue": {2005: 980.0, 2006: 1101.2, 2007: 1206.5},
    "price": {2005: 25.14, 2006: 42.5, 2007: 60.94},
}
UNKNOWN = "I cannot find that in the table."


class Desk:
    """Answers the questions of one conversation, and remembers what they were about."""

    def __init__(self) -> None:
        self.row: str | None = None
        self.seen: list[float] = []

    def __call__(self, question: str) -> dict[str, object]:
        calls: list[dict[str, object]] = []
        self.row = next((row for row in TABLE if row in question.lower()), self.row)
        year = re.search(r"\b(19|20)\d\d\b", question)
        if "change" in question and len(self.seen) >= 2:
            first, second = self.seen[-2:]
            answer = f"{self._calculated('subtract', first, second, calls):.2f}"
        elif "percent" in question and len(self.seen) >= 2:
            change, base = self.seen[-1], self.seen[-2]
            answer = f"{self._calculated('divide', change, base, calls) * 100:.1f}%"
        elif self.row is not None and year is not None:
            self.seen.append(TABLE[self.row][int(year[0])])
            answer = f"{self.seen[-1]:,}"
        else:
            answer = UNKNOWN
        return {"output": answer, "tool_calls": calls}

    def _calculated(self, tool: str, a: float, b: float, calls: list[dict[str, object]]) -> float:
        result = a - b if tool == "subtract" else a / b
        calls.append({"name": tool, "arguments": {"a": a, "b": b}, "result": round(result, 4)})
        self.seen.append(result)
        return result
