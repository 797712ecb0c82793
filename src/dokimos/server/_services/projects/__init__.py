"""Projects, their settings and saved views."""
