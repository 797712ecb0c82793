"""OTLP over gRPC: each call becomes a request to the application, so that all rules are those of HTTP."""
