"""Evaluators of what an agent did: its tool calls, its plan, and the tools it was given."""
