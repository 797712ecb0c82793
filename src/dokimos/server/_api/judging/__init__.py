"""Routes of judge jobs."""
