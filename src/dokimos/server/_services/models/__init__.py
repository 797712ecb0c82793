"""Connections to models, and where their keys may be sent."""
