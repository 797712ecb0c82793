"""What the Helm chart becomes: with its defaults, and with values that reach every part of it.

python -m tests.deploy.test_chart_rendering    # in the checkout: writes the golden files again
"""

import json

import jsonschema_rs
import pytest
import yaml
from tests.deploy.chart_renderer import Chart, merge
from tests.deploy.deployment_files import DEPLOY, ROOT, list_health_paths, read_settings

from dokimos import __version__

FOLDER = DEPLOY / "helm" / "dokimos"
DATA = ROOT / "tests" / "data" / "deploy"
FULL = yaml.safe_load((DATA / "chart_values.yaml").read_text(encoding="utf-8"))
FORMS = {"default": {}, "full": FULL}
SECRETS = {"DOKIMOS_DATABASE_URL": "postgresql://dokimos:secret@db.example.com/dokimos?sslmode=require"}


def write_golden(form):
    """Return what the golden file of a form holds."""
    # The version changes with each release, and another test compares it.
    return yaml.safe_dump_all(Chart(FOLDER, FORMS[form]).render().values()).replace(__version__, "VERSION")


@pytest.fixture(params=FORMS)
def documents(request):
    return Chart(FOLDER, FORMS[request.param]).render()


@pytest.fixture
def full():
    return Chart(FOLDER, FULL).render()


def pod_of(documents):
    return documents["Deployment"]["spec"]["template"]["spec"]


def settings_of(documents):
    """Return the settings that the server reads, with a text in place of each secret."""
    variables = pod_of(documents)["containers"][0]["env"]
    environment = {each["name"]: each.get("value", SECRETS.get(each["name"], "secret")) for each in variables}
    assert len(environment) == len(variables)
    assert all(isinstance(value, str) for value in environment.values())
    return read_settings(environment)


@pytest.mark.parametrize("form", FORMS)
def test_the_chart_renders_as_before(form):
    assert write_golden(form) == (DATA / f"chart-{form}.yaml").read_text(encoding="utf-8")


def test_the_server_accepts_the_settings_by_default():
    settings = settings_of(Chart(FOLDER).render())

    assert settings.database_url == "postgresql://dokimos:secret@postgres-service:5432/dokimos"
    assert settings.api_key == "secret"
    assert settings.require_auth_for_reads
    assert settings.read_only_shared_rows
    assert settings.oidc is None


def test_the_server_accepts_all_settings(full):
    settings = settings_of(full)

    assert settings.database_url.endswith("@db.example.com/dokimos?sslmode=require")
    assert settings.encryption_keys == ("secret",)
    assert settings.public_url == "https://dokimos.example.com"
    assert settings.allowed_hosts == ("dokimos.example.com", "test-dokimos")
    assert settings.trusted_proxies == ("10.244.0.0/16",)
    assert settings.grpc_port == 4317
    assert settings.oidc.client_secret == "secret"
    assert settings.oidc.rules.role_map == {"platform": "ADMIN", "cn=ml,ou=groups": "EDITOR"}
    assert settings.oidc.rules.allowed_domains == ("example.com", "example.org")


def test_the_schema_accepts_the_values_of_both_forms():
    schema = json.loads((FOLDER / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))

    for changes in FORMS.values():
        assert jsonschema_rs.validator_for(schema).is_valid(merge(values, changes)), changes


def test_pods_have_time_to_stop(documents):
    settings = settings_of(documents)

    assert pod_of(documents)["terminationGracePeriodSeconds"] > settings.drain_seconds + settings.stop_timeout


def test_probes_services_and_ingress_find_the_server(documents):
    [container] = pod_of(documents)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = [value["httpGet"] for name, value in container.items() if name.endswith("Probe")]
    settings = settings_of(documents)
    service = documents["Service"]

    assert ports["http"] == settings.port
    assert ports.get("grpc") == settings.grpc_port
    assert len(probes) == 3
    assert {probe["path"] for probe in probes} <= list_health_paths()
    assert {probe["port"] for probe in probes} == {"http"}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
    [rule] = documents["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for port in rule["ports"]} == set(ports.values())
    if "Ingress" in documents:
        [path] = documents["Ingress"]["spec"]["rules"][0]["http"]["paths"]
        assert path["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": "http"}}


def test_all_parts_select_the_pods_of_the_deployment(documents):
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        documents["Deployment"]["spec"]["selector"]["matchLabels"],
        documents["Service"]["spec"]["selector"],
        documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        documents["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]

    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    assert pod_of(documents)["serviceAccountName"] == documents["ServiceAccount"]["metadata"]["name"]


def test_parts_that_are_turned_off_are_not_there():
    changes = {name: {"enabled": False} for name in ("podDisruptionBudget", "networkPolicy")}
    documents = Chart(FOLDER, {**changes, "serviceAccount": {"create": False}}).render()

    assert set(documents) == {"Deployment", "Service"}
    assert pod_of(documents)["serviceAccountName"] == "default"


def test_a_single_server_has_no_disruption_budget_that_keeps_its_node_from_being_drained():
    assert "PodDisruptionBudget" not in Chart(FOLDER, {"replicaCount": 1}).render()
    assert "PodDisruptionBudget" in Chart(FOLDER, {"replicaCount": 2}).render()


def test_pods_without_time_to_stop_are_an_error_of_the_installation():
    with pytest.raises(AssertionError, match="terminationGracePeriodSeconds must be more than"):
        Chart(FOLDER, {"drainSeconds": 39.5, "stopTimeoutSeconds": 20.5}).render()
    Chart(FOLDER, {"drainSeconds": 39.5, "stopTimeoutSeconds": 20}).render()


def test_migrations_have_the_time_that_the_values_say():
    [container] = pod_of(Chart(FOLDER, {"startupSeconds": 1800}).render())["containers"]

    assert container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"] == 1800


def test_an_identity_provider_without_address_is_an_error_of_the_installation():
    with pytest.raises(AssertionError, match=r"oidc\.issuer names the identity provider"):
        Chart(FOLDER, {"oidc": {"enabled": True, "defaultRole": "VIEWER"}}).render()


def test_notes_say_where_the_server_answers_and_warn_of_one_that_is_open():
    assert "port-forward service/test-dokimos 8080:80" in Chart(FOLDER).render_notes()
    assert "at https://dokimos.example.com." in Chart(FOLDER, FULL).render_notes()
    assert "WARNING" not in Chart(FOLDER).render_notes()
    assert "WARNING" in Chart(FOLDER, {"secret": {"apiKeyKey": ""}}).render_notes()


if __name__ == "__main__":
    for form in FORMS:
        (DATA / f"chart-{form}.yaml").write_text(write_golden(form), encoding="utf-8")
