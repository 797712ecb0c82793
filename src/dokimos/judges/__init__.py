"""Asking language models for a verdict: protocol, providers, and what makes the answers trustworthy."""
