"""Odd values in every place of every route: never a 500, and always the documented body of an error."""

import copy
import json
import os
import random
import re

import pytest

STEPS = 5_000 if "DOKIMOS_LONG_TESTS" in os.environ else 400
ODD = [
    *(None, True, False, 0, 1, -1, 0.5, 1e308, -0.0, 2**31, 2**63 - 1, 2**63, -(2**70), 10**400),
    *("", " ", "a", "é", "\u202eabc", "\0", "\ud800", "a/b", "..", "%", "%2F", "'; DROP TABLE runs; --"),
    *("x" * 300, "SUCCESS", "RUNNING", "EVALUATING", "018f0000-0000-7000-8000-000000000000"),
    *([], [None], [[]], [1, "a"], {}, {"": 1}, {"a": {"b": [1, None]}}, {"\u202e": "\0"}),
]


class Fuzzer:
    """Makes requests from the description of the API."""

    def __init__(self, api, seed):
        self.api = api
        self.random = random.Random(seed)
        self.description = api.get("/openapi.json").json()
        self.known = {"name": ["chat", "a/b", "%", "ö"], "id": []}
        self.operations = [
            (method, path, operation)
            for path, methods in self.description["paths"].items()
            for method, operation in methods.items()
            if path != "/api/v1/events"  # has no end
        ]
        assert len(self.operations) > 20

    def request(self):
        method, path, operation = self.random.choice(self.operations)
        url = re.sub(r"\{(\w+)\}", lambda match: self.part(match[1]), path)
        query = {
            parameter["name"]: str(self.value())[:50].encode("utf-8", "replace")
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query" and self.random.random() < 0.4
        }
        headers = {"Content-Type": "application/json"}
        if self.random.random() < 0.3:
            headers["Idempotency-Key"] = self.random.choice(["k", "x" * 255, "x" * 256, " ", "é".encode()])
        content = None
        if "requestBody" in operation:
            content_types = operation["requestBody"]["content"]
            schema = content_types.get("application/json", {}).get("schema", {})
            value = self.body(schema, root=schema)
            if self.random.random() < 0.5:
                value = self.spoil(value)
            content = json.dumps(value, allow_nan=True).encode()
            if self.random.random() < 0.05:
                content = content[: self.random.randrange(len(content) + 1)]
        return method.upper(), url, query, headers, content

    def part(self, name):
        if name == "name" or "Name" in name:
            text = self.random.choice(self.known["name"])
        else:
            text = self.random.choice([*self.known["id"][-20:], "0", "018f0000-0000-7000-8000-000000000000"])
        if self.random.random() < 0.05:
            text = str(self.value())
        return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "replace")) or "%20"

    def value(self):
        return copy.deepcopy(self.random.choice(ODD))

    def body(self, schema, *, root, depth=0):
        """A value that the schema describes."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            parts = root.get("$defs") or {}
            schema = parts.get(name) or self.description["components"]["schemas"][name]
            return self.body(schema, root=schema if "$defs" in schema else root, depth=depth + 1)
        if "anyOf" in schema or "oneOf" in schema:
            options = schema.get("anyOf") or schema["oneOf"]
            return self.body(self.random.choice(options), root=root, depth=depth + 1)
        if "enum" in schema or "const" in schema:
            return self.random.choice(schema.get("enum") or [schema["const"]])
        kind = schema.get("type")
        if kind == "object":
            required = schema.get("required", ())
            return {
                name: self.body(each, root=root, depth=depth + 1)
                for name, each in schema.get("properties", {}).items()
                if name in required or self.random.random() < 0.5
            }
        if kind == "array":
            count = 0 if depth > 8 else self.random.randrange(1, 4)
            return [self.body(schema.get("items", {}), root=root, depth=depth + 1) for _ in range(count)]
        return {
            "string": lambda: self.random.choice(["chat", "qa", "a/b", *self.known["id"][-5:]]),
            "integer": lambda: self.random.choice([0, 1, 7, 2**40]),
            "number": lambda: self.random.choice([0.0, 0.5, -3, 1e300]),
            "boolean": lambda: self.random.random() < 0.5,
            "null": lambda: None,
        }.get(kind, lambda: self.random.choice([{}, {"a": 1}]))()

    def spoil(self, value):
        """The value with one part replaced by something odd."""
        places = []

        def visit(part):
            members = part.items() if isinstance(part, dict) else enumerate(part)
            for key, member in members:
                places.append((part, key))
                if isinstance(member, dict | list):
                    visit(member)

        if isinstance(value, dict | list):
            visit(value)
        if not places or self.random.random() < 0.05:
            return self.value()
        parent, key = self.random.choice(places)
        parent[key] = self.value()
        return value

    def learn(self, text):
        found = re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)
        self.known["id"].extend(each for each in dict.fromkeys(found) if each not in self.known["id"])


@pytest.mark.parametrize("seed", [1])
def test_no_request_fails_the_server(serve, seed):
    api = serve(api_key="admin-key")
    api.headers["Authorization"] = "Bearer admin-key"
    fuzzer = Fuzzer(api, seed)
    statuses = set()
    for _ in range(STEPS):
        method, url, query, headers, content = fuzzer.request()
        answer = api.request(method, url, params=query, headers=headers, content=content)
        call = (method, url, query, headers, (content or b"")[:2000], answer.status_code, answer.text[:500])
        assert answer.status_code < 500, call
        statuses.add(answer.status_code)
        is_json = answer.content and answer.headers["content-type"].startswith("application/json")
        if answer.status_code in (400, 404, 405, 409, 413, 415):
            is_otlp = url.startswith(
                "/v1/"
            )  # whose errors are a status of OTLP, in the encoding of the request
            fields = {"code", "message"} if is_otlp else {"error", "message", "timestamp"}
            assert (is_otlp and not is_json) or set(answer.json()) == fields, call
        elif is_json:
            answer.json()
            fuzzer.learn(answer.text)
    # Not each walk deletes something that is there, which is answered with 204.
    assert {200, 201, 400, 404} <= statuses
