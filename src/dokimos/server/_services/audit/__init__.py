"""The audit log, and how what is stored gets into it."""
