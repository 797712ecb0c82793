"""The agent that a suite declares (model, instructions, tools), run on Pydantic AI."""
