"""The stored runs of suites as one page: how they developed, what is in each, what two differ in."""
