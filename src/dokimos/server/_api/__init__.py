"""The HTTP interface: parse, call a service, answer."""
