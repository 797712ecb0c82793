"""The cluster for the KubeRay operator, and the image of its nodes."""

import re

import pytest
import yaml
from tests.deploy.deployment_files import DEPLOY, ROOT

from dokimos import __version__

FOLDER = DEPLOY / "kuberay"


@pytest.fixture(scope="module")
def documents():
    text = (FOLDER / "raycluster.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def containers(documents):
    spec = documents["RayCluster"]["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [container for group in groups for container in group["template"]["spec"]["containers"]]


def pinned_version():
    requirements = (ROOT / "tests/frameworks/requirements/ray.txt").read_text(encoding="utf-8")
    return re.search(r"^ray\[client\]==([\d.]+)$", requirements, re.MULTILINE)[1]


def test_versions_are_those_of_the_tests_and_of_this_package(documents, containers):
    dockerfile = (FOLDER / "Dockerfile").read_text(encoding="utf-8")

    assert documents["RayCluster"]["spec"]["rayVersion"] == pinned_version()
    assert f"FROM rayproject/ray:{pinned_version()}-py311" in dockerfile
    assert f"ARG DOKIMOS_VERSION={__version__}\n" in dockerfile
    assert {each["image"] for each in containers} == {f"dokimos-ray:{__version__}"}


def test_no_node_sends_statistics(containers):
    for container in containers:
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]


def test_nodes_get_what_they_ask_for(containers):
    for container in containers:
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], "Ray counts on all of it"


def test_the_cluster_grows_and_its_head_works_on_no_item(documents):
    spec = documents["RayCluster"]["spec"]
    [workers] = spec["workerGroupSpecs"]

    assert spec["enableInTreeAutoscaling"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert all(isinstance(value, str) for value in spec["headGroupSpec"]["rayStartParams"].values())


def test_only_chosen_pods_may_join(documents):
    cluster, policy = documents["RayCluster"], documents["NetworkPolicy"]
    labels = {"ray.io/cluster": cluster["metadata"]["name"]}

    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    [rule] = policy["spec"]["ingress"]
    assert {"podSelector": {"matchLabels": labels}} in rule["from"]
    assert "ports" not in rule, "nodes talk over many"


def test_the_guide_names_what_the_manifest_has(documents):
    guide = (ROOT / "docs/guide/ray.md").read_text(encoding="utf-8")
    name = documents["RayCluster"]["metadata"]["name"]

    assert f"ray://{name}-head-svc:10001" in guide
    assert 'dokimos.dev/ray-client: "true"' in guide
