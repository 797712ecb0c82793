"""What `GET /api/v1/settings` says about a server, and that nothing of it is secret."""

import dataclasses
import sys

import pytest

from dokimos._version import __version__
from dokimos.server import ServerSettings
from dokimos.server._db.migrate import HEAD
from dokimos.server._services.server_info import describe_settings

ADMIN = {"Authorization": "Bearer admin-key"}
PATH = "/api/v1/settings"


def setting(answer, name):
    return next(each for each in answer["settings"] if each["name"] == name)


def test_an_administrator_sees_how_the_server_runs(serve, database_settings):
    api = serve(api_key="admin-key", run_retention_days=30.0, allowed_hosts=("testserver", "evals"))
    answer = api.get(PATH, headers=ADMIN)
    assert answer.status_code == 200
    values = answer.json()
    assert values["version"] == __version__
    assert values["pythonVersion"] == ".".join(map(str, sys.version_info[:3]))
    assert values["startedAt"].endswith("Z")
    database = values["database"]
    assert database["schemaVersion"] == HEAD
    assert database["dialect"] == ("sqlite" if "data_dir" in database_settings else "postgresql")
    assert database["version"][0].isdigit()
    assert values["access"] == {"needsKey": True, "readsNeedKey": False, "sharedRowsAreReadOnly": False}
    assert values["capabilities"]["severalServers"] is (database["dialect"] == "postgresql")
    assert setting(values, "runRetentionDays") == {
        "name": "runRetentionDays",
        "value": 30.0,
        "default": -1.0,
        "isDefault": False,
        "isSecret": False,
    }
    assert setting(values, "allowedHosts")["value"] == ["testserver", "evals"]
    assert setting(values, "maxRequests")["isDefault"] is True


def test_every_setting_is_there(serve):
    api = serve()
    names = {each["name"].lower().partition(".")[0] for each in api.get(PATH).json()["settings"]}
    fields = {field.name.replace("_", "") for field in dataclasses.fields(ServerSettings)}
    assert fields - names == {"ignoredvariables", "setvariables"}


def test_nothing_of_it_is_secret(serve, postgres):
    from urllib.parse import urlsplit

    address = urlsplit(postgres)
    api = serve(api_key="hunter2")
    answer = api.get(PATH, headers={"Authorization": "Bearer hunter2"})
    assert "hunter2" not in answer.text
    assert f"{address.username}@" not in answer.text
    values = answer.json()
    assert setting(values, "apiKey") == {
        "name": "apiKey",
        "value": "set",
        "default": None,
        "isDefault": False,
        "isSecret": True,
    }
    assert setting(values, "databaseUrl")["isSecret"] is True


def test_only_administrators_of_the_whole_server_see_it(serve):
    api = serve(api_key="admin-key")
    statuses = {}
    for role, tenant in (("VIEWER", None), ("EDITOR", None), ("ADMIN", "ada"), ("ADMIN", None)):
        body = {"name": "a", "role": role, "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
        headers = {"Authorization": f"Bearer {key}"}
        statuses[role, tenant] = api.get(PATH, headers=headers).status_code
    assert statuses == {
        ("VIEWER", None): 403,
        ("EDITOR", None): 403,
        ("ADMIN", "ada"): 403,
        ("ADMIN", None): 200,
    }
    assert api.get(PATH).status_code == 401


def test_variables_that_were_set_are_named_without_their_values(serve, monkeypatch):
    variables = {
        "DB_PASSWORD": "hunter2",
        "DOKIMOS_STALE_RUN_HOURS": "3",
        "SPRING_JPA_SHOW_SQL": "true",
        "LOG_LEVEL": " ",
        "DOKIMOS_OTHER": "x",
    }
    settings = ServerSettings.from_environment(variables)
    assert settings.set_variables == ("DB_PASSWORD", "DOKIMOS_STALE_RUN_HOURS")
    api = serve(set_variables=settings.set_variables, ignored_variables=settings.ignored_variables)
    answer = api.get(PATH).json()
    assert answer["variables"] == ["DB_PASSWORD", "DOKIMOS_STALE_RUN_HOURS"]
    assert answer["warnings"] == ["SPRING_JPA_SHOW_SQL is set, but means nothing to this server."]


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ({}, ["Anyone who reaches port"]),
        ({"host": "127.0.0.1"}, []),
        ({"api_key": "admin-key"}, ["Reading needs no key"]),
        ({"api_key": "admin-key", "require_auth_for_reads": True}, []),
    ],
)
def test_what_an_operator_should_know_is_said(serve, settings, warnings):
    api = serve(**{"host": "0.0.0.0", "allowed_hosts": ("*",), **settings})
    found = api.get(PATH, headers=ADMIN).json()["warnings"]
    assert [warning.startswith(beginning) for warning, beginning in zip(found, warnings, strict=True)] == [
        True
    ] * len(warnings)


def test_the_settings_of_a_group_are_told_one_by_one():
    @dataclasses.dataclass(frozen=True)
    class Group:
        address: str
        client_secret: str
        hidden: str = dataclasses.field(default="", repr=False)

    @dataclasses.dataclass(frozen=True)
    class Grouped(ServerSettings):
        group: Group | None = None

    def describe(group):
        described = describe_settings(Grouped(group=group))
        return {each.name: each.value for each in described if each.name.startswith("group")}

    assert describe(None) == {"group": None}
    assert describe(Group("a", "hunter2", "hunter3")) == {
        "group.address": "a",
        "group.client_secret": "set",
        "group.hidden": "set",
    }
