"""The manifests for Kubernetes: the documented one, and the one with as few rights as possible."""

import pytest
from tests.deploy.deployment_files import (
    DEPLOY,
    list_health_paths,
    list_stages,
    read_documents,
    read_settings,
)

from dokimos import __version__

FILES = ("dokimos.yaml", "hardened.yaml")


@pytest.fixture(params=FILES)
def documents(request):
    return read_documents(DEPLOY / "kubernetes" / request.param)


@pytest.fixture
def hardened_manifest():
    return read_documents(DEPLOY / "kubernetes" / "hardened.yaml")


def pod_of(documents):
    return documents["Deployment"]["spec"]["template"]["spec"]


def container_of(documents):
    [container] = pod_of(documents)["containers"]
    return container


def settings_of(documents):
    """Return the settings that the server reads, with a text in place of each secret."""
    variables = container_of(documents)["env"]
    assert all(isinstance(each.get("value", ""), str) for each in variables)
    return read_settings({each["name"]: each.get("value", "secret") for each in variables})


def test_names_are_the_documented_ones(documents):
    assert documents["Deployment"]["metadata"]["name"] == "dokimos-server"
    assert documents["Deployment"]["spec"]["replicas"] == 2
    assert container_of(documents)["image"] == f"dokimos-server:{__version__}"
    assert documents["Service"]["spec"]["ports"][0]["port"] == 80


def test_secrets_are_entries_of_the_documented_secret(documents):
    keys = {"DB_PASSWORD": "db-password", "DOKIMOS_API_KEY": "api-key"}
    variables = {each["name"]: each for each in container_of(documents)["env"]}

    for name, key in keys.items():
        assert variables[name]["valueFrom"]["secretKeyRef"] == {"name": "dokimos-secrets", "key": key}
    for name, each in variables.items():
        is_secret = name.endswith(("_KEY", "_PASSWORD", "_SECRET"))
        assert is_secret == ("valueFrom" in each), name


def test_the_server_accepts_the_settings(documents):
    settings = settings_of(documents)

    assert settings.database_url == "postgresql://dokimos:secret@postgres-service:5432/dokimos"
    assert settings.require_auth_for_reads
    assert settings.comparison_memory_bytes <= 512 * 2**20
    seconds = pod_of(documents)["terminationGracePeriodSeconds"]
    assert seconds > settings.drain_seconds + settings.stop_timeout


def test_variables_of_services_do_not_reach_the_server(documents):
    # A service that is called db sets DB_PORT to an address, which is not a port.
    assert pod_of(documents)["enableServiceLinks"] is False


def test_probes_and_services_find_the_server(documents):
    container = container_of(documents)
    [port] = container["ports"]
    names = {port["containerPort"], port.get("name")}
    probes = [value["httpGet"] for name, value in container.items() if name.endswith("Probe")]

    assert port["containerPort"] == settings_of(documents).port
    assert len(probes) >= 2
    assert {probe["path"] for probe in probes} <= list_health_paths()
    assert {probe["port"] for probe in probes} <= names
    assert {each["targetPort"] for each in documents["Service"]["spec"]["ports"]} <= names


def test_all_parts_select_the_pods_of_the_deployment(documents):
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        documents["Deployment"]["spec"]["selector"]["matchLabels"],
        documents["Service"]["spec"]["selector"],
    ]
    if "NetworkPolicy" in documents:
        selectors.append(documents["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"])
        selectors.append(documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])

    assert all(selector == labels for selector in selectors)


def test_resources_are_the_documented_ones(documents):
    resources = container_of(documents)["resources"]

    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == ("512Mi", "1Gi")
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == ("250m", "1000m")


def test_a_database_that_is_away_starts_no_pod_again(documents):
    container = container_of(documents)
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")
    }

    assert paths["startup"] == paths["liveness"] == "/actuator/health/liveness"
    assert paths["readiness"] == "/actuator/health/readiness"
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 300  # for migrations


def test_the_hardened_pod_meets_the_restricted_standard_as_the_user_of_the_image(hardened_manifest):
    pod, container = pod_of(hardened_manifest), container_of(hardened_manifest)
    user, group = list_stages("server")[-1].values("USER")[0].split(":")
    context = pod["securityContext"]

    assert context["runAsNonRoot"] is True
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert context["fsGroup"] == int(group)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == hardened_manifest["ServiceAccount"]["metadata"]["name"]


def test_the_hardened_pod_writes_to_the_folder_of_the_image(hardened_manifest):
    [mount] = container_of(hardened_manifest)["volumeMounts"]
    environment = list_stages("server")[-1].pairs("ENV")

    assert mount["mountPath"] == environment["DOKIMOS_DATA_DIR"] == environment["TMPDIR"]
    assert {volume["name"] for volume in pod_of(hardened_manifest)["volumes"]} == {mount["name"]}


def test_the_hardened_server_is_reached_by_the_ingress_controller_alone(hardened_manifest):
    policy = hardened_manifest["NetworkPolicy"]["spec"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    [rule] = policy["ingress"]
    assert rule["ports"] == [{"port": settings_of(hardened_manifest).port}]
    assert all(rule["from"])
    database_ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert 5432 in database_ports
    assert all(rule["to"] for rule in policy["egress"])
