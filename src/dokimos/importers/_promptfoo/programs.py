"""The Python module that is written beside a suite: its assertions and providers that are programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

_HEAD: Final = (
    '"""Programs of a promptfoo configuration, for the suite beside this file."""\n\n'
    "from {module} import {names}\n"
)
_HELPERS: Final = "dokimos.importers"


@dataclass(slots=True)
class Programs:
    """Collects programs, each once, and gives them names."""

    module: str
    """What the file is called, without its ending."""
    _lines: dict[str, str] = field(default_factory=dict)
    """What makes each program, with the name it has."""

    def grader(
        self, language: str, program: str, *, config: object, threshold: float | None, negate: bool
    ) -> dict[str, Any]:
        """Return the metric of an assertion that is a program, in `python` or `javascript`."""
        arguments = f"{program!r}, config={config!r}, threshold={threshold!r}, negate={negate!r}"
        expression = f"{language}_assertion({arguments})"
        return {"type": "code", "grader": f"{self.module}:{self._name(language, expression)}"}

    def json_check(self, schema: Any, *, whole: bool, negate: bool) -> dict[str, Any]:
        """Return the metric that looks for JSON in a reply."""
        expression = f"json_assertion({dict(schema)!r}, whole={whole!r}, negate={negate!r})"
        return {"type": "code", "grader": f"{self.module}:{self._name('json', expression)}"}

    def provider(self, program: str, config: dict[str, Any]) -> dict[str, Any]:
        """Return the agent that asks a Python provider."""
        expression = f"python_provider({program!r}, config={config!r})"
        return {"callable": f"{self.module}.py:{self._name('provider', expression)}"}

    def text(self) -> str:
        """Return the module, empty where there is no program."""
        if not self._lines:
            return ""
        names = ", ".join(sorted({expression.partition("(")[0] for expression in self._lines}))
        # As repr() writes them: texts of the configuration cannot break out of their literals.
        lines = [f"{name} = {expression}" for expression, name in self._lines.items()]
        return _HEAD.format(module=_HELPERS, names=names) + "\n" + "\n".join(lines) + "\n"

    def _name(self, stem: str, expression: str) -> str:
        number = sum(name.startswith(f"{stem}_") for name in self._lines.values()) + 1
        return self._lines.setdefault(expression, f"{stem}_{number}")
