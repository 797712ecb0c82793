"""Documents that a declared agent searches: read, cut into chunks, embedded once, and found again."""
