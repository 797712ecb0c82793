"""Evaluations as tools of agents, over the Model Context Protocol."""
