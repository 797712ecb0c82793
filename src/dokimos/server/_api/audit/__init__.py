"""Routes of the audit log."""
