"""The Python module that is written beside a suite: its assertions and providers that are programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from keyword import iskeyword
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

    def grader(self, kind: str, *arguments: Any, **settings: Any) -> dict[str, Any]:
        """Return the metric of an assertion that is or needs a program.

        Args:
            kind: `python`, `javascript`, `json` or `value`, as the functions of `dokimos.importers` begin.
            arguments: What the function is given.
            settings: Its keyword arguments; those that are None, false or empty are left out.
        """
        given = [repr(each) for each in arguments]
        given += [
            f"{name}={value!r}"
            for name, value in settings.items()
            if value is not None and value is not False and value != ()
        ]
        expression = f"{kind}_assertion({', '.join(given)})"
        return {"type": "code", "grader": f"{self.module}:{self._name(kind, expression)}"}

    def provider(self, program: str, config: dict[str, Any]) -> dict[str, Any]:
        """Return the agent that asks a Python provider."""
        expression = f"python_provider({program!r}, config={config!r})"
        return {"callable": f"{self.module}.py:{self._name('provider', expression)}"}

    def http_provider(self, url: str, **settings: Any) -> dict[str, Any]:
        """Return the agent that sends requests as an HTTP provider does."""
        given = [repr(url), *(f"{name}={value!r}" for name, value in settings.items() if value is not None)]
        expression = f"http_provider({', '.join(given)})"
        return {"callable": f"{self.module}.py:{self._name('endpoint', expression)}"}

    def tool(self, name: str) -> dict[str, Any]:
        """Return where the function of a tool is, with a placeholder for it."""
        expression = f"tool_placeholder({name!r})"
        is_free = name.isidentifier() and not iskeyword(name) and name not in self._lines.values()
        if is_free and not name.startswith("tool_") and not name.endswith(("_assertion", "_provider")):
            self._lines.setdefault(expression, name)
        return {"file": f"{self.module}.py", "function": self._name("tool", expression)}

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
