"""Routes of alerts on production traces."""
