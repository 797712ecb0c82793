"""What the tools of a declared agent have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from dokimos.suites._metric_schema import TOOL_NAME, Block


class ToolBlock(Block):
    """What all tools have in common."""

    name: Annotated[str, StringConstraints(pattern=TOOL_NAME)]
    """What the model calls it."""
    description: str | None = None
    """What the model is told of it."""
    defer_loading: bool | None = None
    """Whether the model is told of it only after it has looked for it, so that many tools fill no context."""
