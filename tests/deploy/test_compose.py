"""The compose files: one is enough on its own, and the other builds the images of the checkout."""

import re

import pytest
import yaml
from tests.deploy.deployment_files import ROOT, list_variables, read_dockerfile, read_settings

from dokimos import __version__

FILE = ROOT / "docker-compose.yml"
DEVELOPMENT = ROOT / "docker-compose.dev.yml"
REFERENCE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@pytest.fixture(scope="module")
def services():
    return load(FILE)["services"]


def load(path, **variables):
    """Parse a file as compose does, with the variables of a `.env`."""

    def expand(match):
        assert match[2] is not None, f"{match[0]} has no default"
        return variables.get(match[1]) or match[2]

    def expand_all(node):
        if isinstance(node, dict):
            return {name: expand_all(value) for name, value in node.items()}
        if isinstance(node, list):
            return [expand_all(value) for value in node]
        return REFERENCE.sub(expand, node) if isinstance(node, str) else node

    return expand_all(yaml.safe_load(path.read_text(encoding="utf-8")))


def settings(**variables):
    environment = load(FILE, **variables)["services"]["server"]["environment"]
    assert all(isinstance(value, str) for value in environment.values())
    return read_settings(environment)


def test_the_file_alone_starts_a_server_and_its_database(services):
    assert set(services) == {"server", "db"}
    assert services["server"]["image"] == f"dokimos-server:{__version__}"
    assert services["db"]["image"] == "postgres:16"
    assert services["server"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert all("build" not in service for service in services.values())
    assert all("healthcheck" in service for service in services.values())


def test_only_this_machine_reaches_the_server_until_it_has_a_key(services):
    assert services["server"]["ports"] == ["127.0.0.1:8080:8080"]
    assert "ports" not in services["db"]


def test_the_database_is_reached_by_the_server_alone(services):
    tree = load(FILE)

    assert services["db"]["networks"] == ["database"]
    assert tree["networks"]["database"] == {"internal": True}
    assert "database" in services["server"]["networks"]
    assert [name for name in tree["services"] if "database" in tree["services"][name]["networks"]] == [
        "server",
        "db",
    ]


def test_containers_write_to_their_volumes_alone(services):
    volumes = {volume.split(":")[0] for service in services.values() for volume in service["volumes"]}
    _, stages = read_dockerfile()

    assert all(service["read_only"] for service in services.values())
    assert volumes == set(load(FILE)["volumes"])
    assert f'["{services["server"]["volumes"][0].split(":")[1]}"]' in stages["server"].values("VOLUME")


def test_the_limit_of_memory_is_the_documented_one_and_comparisons_fit_into_it(services):
    assert services["server"]["mem_limit"] == "1g"
    assert settings().comparison_memory_bytes <= 512 * 2**20


def test_the_settings_are_those_that_the_server_knows():
    found = settings()

    assert found.database_url == "postgresql://dokimos:dokimos@db:5432/dokimos"
    assert (found.api_key, found.encryption_keys) == (None, ())
    assert found.read_only_shared_rows


def test_a_key_closes_reading_too():
    found = settings(DOKIMOS_API_KEY="k" * 20, DB_PASSWORD="p@ss", DOKIMOS_ENCRYPTION_KEY="secret")

    assert found.api_key == "k" * 20
    assert found.require_auth_for_reads
    assert found.database_url == "postgresql://dokimos:p%40ss@db:5432/dokimos"
    database = load(FILE, DB_PASSWORD="p@ss")["services"]["db"]["environment"]
    assert database["POSTGRES_PASSWORD"] == "p@ss"


def test_server_and_database_agree_on_the_account(services):
    server, database = (services[name]["environment"] for name in ("server", "db"))

    for ours, theirs in (("NAME", "DB"), ("USERNAME", "USER"), ("PASSWORD", "PASSWORD")):
        assert server[f"DB_{ours}"] == database[f"POSTGRES_{theirs}"]
    assert server["DB_HOST"] == "db"


def test_the_development_file_builds_the_server_of_the_checkout(services):
    changed = load(DEVELOPMENT)["services"]
    _, stages = read_dockerfile()

    assert set(changed) <= set(services)
    assert changed["server"]["build"] == {"context": ".", "target": "server"}
    assert changed["server"]["build"]["target"] in stages
    assert changed["server"]["image"] != services["server"]["image"]
    assert set(changed["server"]["environment"]) <= list_variables()
    assert all(port.startswith("127.0.0.1:") for port in changed["db"]["ports"])


def test_the_page_loses_neither_traces_nor_the_old_volume_in_an_upgrade():
    page = (ROOT / "docs" / "guide" / "server-deployment.md").read_text(encoding="utf-8")
    tree = load(FILE)
    [volume] = tree["services"]["db"]["volumes"]
    name, _, folder = volume.partition(":")
    backups = re.findall(r" server (db backup .*)", page)

    assert backups
    assert all("--with-traces" in command for command in backups)
    assert f"- {name}-17:{folder}" in page
    assert f"docker volume rm {tree['name']}_{name}`" in page
