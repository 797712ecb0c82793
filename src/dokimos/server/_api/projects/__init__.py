"""Routes of projects, their settings and saved views."""
