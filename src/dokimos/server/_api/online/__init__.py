"""The routes of online evaluation."""
