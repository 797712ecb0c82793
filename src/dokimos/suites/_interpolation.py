"""Environment variables in a suite's texts: the placeholders `${NAME}` and `${NAME:-default}`, expanded.

`$${` is a `${` that stays. The variables of `.env` files are found by `_environment.build_lookup`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from dokimos.suites._problems import suggest

PLACEHOLDER: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}")

Lookup: TypeAlias = Callable[[str], str | None]
"""Gives the value of an environment variable, None where it is not set."""


def interpolate(text: str, lookup: Lookup, complain: Callable[[str], None]) -> str:
    """Return a text with its placeholders expanded to the values of environment variables.

    A placeholder whose variable is not set and that has no default stays as it is, and `complain` is called.
    """
    if "${" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[3]
        if name is None:
            return "${"
        variable = lookup(name)
        if variable is None and default is None:
            # Shells keep variables of their own under names such as `_` and `__CF...`; nobody means these.
            hint = suggest(name, [name for name in os.environ if not name.startswith("_")])
            remedy = f"set it, put it into .env, or write ${{{name}:-default}}"
            complain(f"the variable {name} is not set; {remedy}.{hint}")
            return match[0]
        return str(default if variable is None else variable)

    return PLACEHOLDER.sub(value, text)
