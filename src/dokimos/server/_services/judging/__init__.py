"""Judge jobs: what they may cost, who works on them, and what came of them."""
