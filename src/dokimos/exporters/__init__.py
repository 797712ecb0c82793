"""Reports: a result as JSON, HTML, Markdown, CSV or JUnit XML."""
