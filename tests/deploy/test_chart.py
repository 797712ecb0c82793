"""The Helm chart: templates, values and their schema agree."""

import json
import re

import jsonschema_rs
import pytest
import yaml
from tests.deploy.deployment_files import DEPLOY, list_stages

from dokimos import __version__

CHART = DEPLOY / "helm" / "dokimos"


def load(name):
    return yaml.safe_load((CHART / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def values():
    return load("values.yaml")


@pytest.fixture(scope="module")
def schema():
    return json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def templates():
    return {path.name: path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir()}


def list_leaves(tree, prefix=""):
    """Yield the path of each value; lists and maps that users fill are values."""
    for name, value in tree.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict) and value:
            yield from list_leaves(value, path)
        else:
            yield path


def is_within(path, other):
    return f"{path}.".startswith(f"{other}.")


def test_the_chart_has_the_version_of_the_package():
    chart = load("Chart.yaml")

    assert chart["version"] == chart["appVersion"] == __version__


def test_templates_use_all_values_and_no_others(values, templates):
    used = set(re.findall(r"\.Values\.([\w.]+)", "\n".join(templates.values())))
    leaves = set(list_leaves(values))

    assert {path for path in used if not any(is_within(leaf, path) for leaf in leaves)} == set()
    assert {leaf for leaf in leaves if not any(is_within(leaf, path) for path in used)} == set()


def test_the_image_is_that_of_the_chart_and_runs_as_its_user(values):
    user, group = list_stages("server")[-1].values("USER")[0].split(":")
    context = values["podSecurityContext"]

    assert values["image"]["repository"] == "dokimos-server"
    assert values["image"]["tag"] == "", "the version of the chart"
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert values["terminationGracePeriodSeconds"] > values["drainSeconds"] + values["stopTimeoutSeconds"]
    assert values["resources"]["limits"]["memory"] == "1Gi"


def test_secrets_are_the_documented_entries_and_never_values(values):
    assert values["secret"]["name"] == "dokimos-secrets"
    assert values["secret"]["databasePasswordKey"] == "db-password"
    assert values["secret"]["apiKeyKey"] == "api-key"
    assert not [
        leaf for leaf in list_leaves(values) if leaf.lower().endswith(("password", "secret", "token"))
    ]


def test_the_schema_names_each_value_and_accepts_the_defaults(values, schema):
    assert jsonschema_rs.validator_for(schema).is_valid(values)
    for path in list_leaves(values):
        tree = schema
        for name in path.split("."):
            if "properties" not in tree:
                break  # a map of Kubernetes
            assert name in tree["properties"], path
            tree = tree["properties"][name]


PLAIN = {"enabled": True, "issuer": "http://id.test", "defaultRole": "VIEWER"}
"""An identity provider without TLS, which the server calls only where a variable names its host."""
CHANGES = [
    ({"replicaCount": 0}, False),
    ({"replicas": 3}, False),
    ({"image": {"repository": "dokimos-server", "tag": "latest"}}, False),
    ({"secret": {"name": "dokimos-secrets", "databasePasswordKey": ""}}, False),
    ({"secret": {"name": "own", "databasePasswordKey": "password", "databaseUrlKey": "url"}}, True),
    ({"access": {"sharedRows": "closed"}}, False),
    ({"access": {"publicUrl": "https://example.com/dokimos"}}, False),
    ({"access": {"publicUrl": "https://example.com?tenant=a"}}, False),
    ({"access": {"publicUrl": "https://example.com:8443/"}}, True),
    ({"oidc": {"enabled": True}}, False),
    ({"oidc": PLAIN}, False),
    ({"oidc": PLAIN, "extraEnv": [{"name": "DOKIMOS_PUBLIC_METRICS", "value": "true"}]}, False),
    ({"oidc": PLAIN, "extraEnv": [{"name": "DOKIMOS_ALLOWED_PRIVATE_HOSTS", "value": "id.test"}]}, True),
    ({"oidc": PLAIN, "extraEnvFrom": [{"secretRef": {"name": "more"}}]}, True),
    ({"oidc": {**PLAIN, "issuer": "https://id.test/realms/a?b=c"}}, False),
    ({"grpc": {"enabled": True, "port": 8080}}, False),
    ({"grpc": {"enabled": True, "port": 4318}}, True),
    ({"log": {"level": "WARNING"}}, True),
    ({"log": {"level": "LOUD"}}, False),
    ({"startupSeconds": 1800}, True),
    ({"startupSeconds": 7}, False),
    (
        {"oidc": {"enabled": True, "issuer": "https://id.example.com", "roleMap": {}, "defaultRole": ""}},
        False,
    ),
    ({"oidc": {"enabled": True, "issuer": "https://id.example.com", "roleMap": {"ml": "BOSS"}}}, False),
    ({"oidc": {"enabled": True, "issuer": "https://id.example.com", "roleMap": {"ml": "ADMIN"}}}, True),
    ({"oidc": {"enabled": True, "issuer": "https://id.example.com", "defaultRole": "VIEWER"}}, True),
    ({"comparisonMemoryMib": 100}, False),
]


@pytest.mark.parametrize(("change", "is_valid"), CHANGES, ids=lambda value: json.dumps(value))
def test_the_schema_refuses_what_the_server_would(values, schema, change, is_valid):
    assert jsonschema_rs.validator_for(schema).is_valid({**values, **change}) == is_valid
