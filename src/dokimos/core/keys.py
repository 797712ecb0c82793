"""The conventional keys inside inputs, outputs and metadata; every other key is the user's own."""

from typing import Final

INPUT: Final = "input"
QUERY: Final = "query"
OUTPUT: Final = "output"
CONTEXT: Final = "context"
TOOL_CALLS: Final = "toolCalls"
REASONING_STEPS: Final = "reasoningSteps"
RETRIEVED: Final = "retrieved"
RELEVANT: Final = "relevant"
TOOLS: Final = "tools"
TASKS: Final = "tasks"
CONSTRAINTS: Final = "constraints"
