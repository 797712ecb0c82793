"""Alerts on production traces."""
