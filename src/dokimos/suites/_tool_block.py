"""What the tools of a declared agent have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from dokimos.suites._metric_schema import TOOL_NAME, Block


class ToolBlock(Block):
    """What all tools have in common."""

    name: Annotated[str, StringConstraints(pattern=TOOL_NAME)]
    """The name that the model calls."""
    description: str | None = None
    """What the tool does, for the model."""
    defer_loading: bool | None = None
    """Whether the tool is hidden until the model has searched for it, so that many tools do not fill the
    context."""
