"""Settings from environment variables."""

from pathlib import Path

import pytest

from dokimos.errors import ConfigurationError
from dokimos.server import ServerSettings
from dokimos.server._environment import Variables


def settings(**variables):
    return ServerSettings.from_environment(variables)


def test_without_variables_it_is_sqlite_on_port_8080():
    chosen = settings()

    assert chosen.database_url is None
    assert chosen.sqlite_path == Path.home() / ".dokimos" / "server.db"
    assert (chosen.host, chosen.port, chosen.api_key) == ("0.0.0.0", 8080, None)
    assert chosen.allowed_hosts == ("*",)


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"DB_HOST": "db"}, "postgresql://dokimos:dokimos@db:5432/dokimos"),
        ({"DB_PASSWORD": "p@ss/w:rd %"}, "postgresql://dokimos:p%40ss%2Fw%3Ard%20%25@localhost:5432/dokimos"),
        (
            {"DB_HOST": "db", "DB_PORT": "6000", "DB_NAME": "evals", "DB_USERNAME": "me"},
            "postgresql://me:dokimos@db:6000/evals",
        ),
        ({"DOKIMOS_DATABASE_URL": "postgres://a:b@h/n", "DB_HOST": "other"}, "postgresql://a:b@h/n"),
        (
            {"SPRING_DATASOURCE_URL": "jdbc:postgresql://host:5432/dokimos?ssl=true&sslmode=verify-full"},
            "postgresql://dokimos:dokimos@host:5432/dokimos?sslmode=verify-full",
        ),
        (
            {"SPRING_DATASOURCE_URL": "jdbc:postgresql://host/dokimos?ssl=true", "DB_USERNAME": "me"},
            "postgresql://me:dokimos@host/dokimos?sslmode=require",
        ),
    ],
)
def test_variables_that_name_postgresql(variables, url):
    assert settings(**variables).database_url == url


def test_empty_variables_count_as_not_set():
    assert settings(DB_HOST="", DOKIMOS_API_KEY=" ", SERVER_PORT="").database_url is None
    assert settings(DOKIMOS_API_KEY=" ").api_key is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SERVER_PORT", "eighty"),
        ("SERVER_PORT", "70000"),
        ("DB_PORT", "0"),
        ("DOKIMOS_REQUIRE_AUTH_FOR_READS", "maybe"),
        ("DOKIMOS_STALE_RUN_HOURS", "-1"),
        ("DOKIMOS_STALE_RUN_HOURS", "nan"),
        ("DOKIMOS_MAX_EVENT_STREAMS", "-1"),
        ("DOKIMOS_SHARED_ROWS", "locked"),
        ("LOG_LEVEL", "LOUD"),
        ("DOKIMOS_DATABASE_URL", "mysql://host/name"),
        ("SPRING_DATASOURCE_URL", "jdbc:oracle:thin:@host"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_the_name_of_its_variable(variable, value):
    with pytest.raises(ConfigurationError, match=variable) as refusal:
        settings(**{variable: value})

    assert refusal.value.setting == variable


def numbers_of_the_server():
    """The variables that hold a number, by trying each with a text."""

    class Recorder(Variables):
        def _parse(self, name, convert, what):
            found.append(name)
            return super()._parse(name, convert, what)

    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dokimos.server._settings.Variables", Recorder)
        settings(DB_HOST="db")
    return found


@pytest.mark.parametrize("variable", numbers_of_the_server())
@pytest.mark.parametrize("value", ["1" + "0" * 300, "-" + "1" + "0" * 300])
def test_every_number_has_bounds(variable, value):
    with pytest.raises(ConfigurationError, match=rf"{variable} must be from -?\d+ to \d+.*, not ") as refusal:
        settings(**{variable: value, "DB_HOST": "db"})

    assert refusal.value.setting == variable


def test_an_error_about_a_budget_names_its_bound():
    words = (
        "DOKIMOS_JUDGE_BUDGET_USD_PER_DAY must be from 0 to 1000000000, or -1 for any amount, not 1e\\+300"
    )
    with pytest.raises(ConfigurationError, match=words):
        settings(DOKIMOS_JUDGE_BUDGET_USD_PER_DAY="1e300")


def test_spring_variables_that_mean_nothing_are_listed():
    chosen = settings(
        SPRING_JPA_SHOW_SQL="true",
        SERVER_TOMCAT_THREADS_MAX="20",
        SERVER_TOMCAT_CONNECTION_TIMEOUT="5000",
        SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE="4",
        SPRING_DATASOURCE_HIKARI_CONNECTION_TIMEOUT="1500",
    )

    assert chosen.ignored_variables == ("SERVER_TOMCAT_THREADS_MAX", "SPRING_JPA_SHOW_SQL")
    assert (chosen.keep_alive, chosen.pool_size, chosen.pool_timeout) == (5.0, 4, 1.5)


def test_bound_to_this_machine_only_its_own_names_are_allowed():
    assert settings(SERVER_ADDRESS="127.0.0.1").allowed_hosts == ("localhost", "127.0.0.1", "[::1]")
    assert settings(SERVER_ADDRESS="127.0.0.1", DOKIMOS_ALLOWED_HOSTS="Evals.local, b").allowed_hosts == (
        "evals.local",
        "b",
    )


def test_a_password_is_not_shown():
    chosen = settings(DB_PASSWORD="hunter2", DOKIMOS_API_KEY="sesame")

    assert "hunter2" not in repr(chosen)
    assert "sesame" not in repr(chosen)
