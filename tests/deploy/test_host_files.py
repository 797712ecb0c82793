"""What runs the server on a machine without containers: the unit of systemd, and reverse proxies."""

import re
import shutil
import subprocess
import sys

import pytest
from tests.deploy.deployment_files import DEPLOY, ROOT, list_variables, read_settings

UNIT = DEPLOY / "systemd" / "dokimos.service"
EXAMPLE = DEPLOY / "systemd" / "server.env.example"
PROXIES = DEPLOY / "reverse-proxy"
SETTING = re.compile(r"\b([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)=(\S+)")
IDENTITY = ("X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups")


def read_unit():
    """Return all values of each directive."""
    directives = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            directives.setdefault(name, []).append(value)
    return directives


def read_example(*, is_all=False):
    """Return the settings of the file of variables, with `is_all` also those that are commented out."""
    text = EXAMPLE.read_text(encoding="utf-8")
    return dict(re.findall(rf"^{'#?' if is_all else ''}([A-Z]\w+)=(.*)$", text, re.MULTILINE))


def settings_in_comments(name):
    text = (PROXIES / name).read_text(encoding="utf-8")
    return dict(SETTING.findall("\n".join(line for line in text.splitlines() if line.startswith("#   "))))


def test_the_unit_gives_the_server_settings_that_it_knows():
    directives = read_unit()
    environment = dict(value.split("=", 1) for value in directives["Environment"])
    environment.pop("TMPDIR")
    settings = read_settings(environment)

    assert settings.is_loopback
    assert str(settings.data_dir) == f"/var/lib/{directives['StateDirectory'][0]}"
    assert settings.comparison_memory_bytes <= 512 * 2**20
    assert int(directives["TimeoutStopSec"][0]) > settings.drain_seconds + settings.stop_timeout
    assert directives["MemoryMax"] == ["1G"]


def test_the_example_of_variables_holds_no_secret_and_only_known_names():
    settings = read_settings(read_example())

    assert settings.require_auth_for_reads
    assert set(read_example(is_all=True)) <= list_variables()
    assert settings.api_key is None


def test_the_server_accepts_the_example_with_everything_in_it():
    settings = read_settings(read_example(is_all=True))

    assert settings.oidc is not None
    assert settings.database_url is not None


def test_systemd_understands_the_unit(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/dokimos/bin/dokimos", sys.executable))
    outcome = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True)
    # It also looks at what else is installed on this machine.
    lines = [line for line in outcome.stderr.splitlines() if UNIT.name in line]

    assert lines == []


def test_systemd_finds_that_the_unit_may_do_little(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    command = [analyze, "security", "--offline=true", "--threshold=20", str(UNIT)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    if "nrecognized option" in outcome.stderr:
        pytest.skip("systemd is older than 250")

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("name", ["nginx.conf", "nginx-oauth2-proxy.conf", "Caddyfile"])
def test_the_server_accepts_the_settings_that_a_proxy_asks_for(name):
    settings = read_settings(settings_in_comments(name))
    text = (PROXIES / name).read_text(encoding="utf-8")

    assert settings.is_loopback
    assert settings.public_url == "https://dokimos.example.com"
    assert "dokimos.example.com" in settings.allowed_hosts
    assert f"127.0.0.1:{settings.port}" in text
    assert "*" not in settings.trusted_proxies


def locations_of(text):
    """Return the head and the body of each location of nginx."""
    return re.findall(r"^    location (.+?) \{\n(.*?)^    \}", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["nginx.conf", "nginx-oauth2-proxy.conf"])
def test_statements_of_nginx_end_and_blocks_are_closed(name):
    depth = 0
    for line in (PROXIES / name).read_text(encoding="utf-8").splitlines():
        code = re.sub(r"(^|\s)#.*", "", line).strip()
        if not code:
            continue
        assert code.endswith((";", "{", "}")), line
        depth += code.endswith("{") - (code == "}")
        assert depth >= 0, line
    assert depth == 0


def test_each_way_to_the_server_replaces_the_headers_that_say_who_calls():
    text = (PROXIES / "nginx-oauth2-proxy.conf").read_text(encoding="utf-8")
    ways = [(head, body) for head, body in locations_of(text) if "proxy_pass http://dokimos;" in body]

    assert len(ways) == 4
    for head, body in ways:
        given = dict(re.findall(r"proxy_set_header (\S+)\s+(\S+);", body))
        assert set(given) >= {"Host", "X-Forwarded-For", "X-Forwarded-Proto", *IDENTITY}, head
        values = {given[header] for header in IDENTITY}
        is_signed_in = "auth_request /oauth2/auth;" in body
        assert values == ({"$user", "$email", "$groups"} if is_signed_in else {'""'}), head


def test_the_headers_are_those_that_the_settings_name():
    settings = read_settings(settings_in_comments("nginx-oauth2-proxy.conf"))
    header = settings.trusted_header

    assert (header.user, header.email, header.groups) == tuple(name.lower() for name in IDENTITY)
    assert settings.require_auth_for_reads


def test_caddy_removes_what_a_client_says_of_who_it_is_first():
    text = (PROXIES / "Caddyfile.oauth2-proxy").read_text(encoding="utf-8")
    removed = [text.index(f"request_header -{name}") for name in IDENTITY]

    assert text.index("route {") < min(removed)
    assert max(removed) < text.index("handle /oauth2/*")
    for name in IDENTITY:
        assert text.count(f">{name}") == 2
    assert text.count("{") == text.count("}")


def test_secrets_of_oauth2_proxy_are_not_in_its_file():
    import tomllib

    settings = tomllib.loads((PROXIES / "oauth2-proxy.cfg").read_text(encoding="utf-8"))

    assert not {"client_secret", "cookie_secret"} & set(settings)
    assert settings["set_xauthrequest"] is True
    assert settings["pass_authorization_header"] is False


def test_both_proxies_say_where_somebody_wanted_to_go_without_an_address_of_its_own():
    """oauth2-proxy refuses to lead to whole addresses of hosts that it is not told of."""
    caddy = (PROXIES / "Caddyfile.oauth2-proxy").read_text(encoding="utf-8")
    nginx = (PROXIES / "nginx-oauth2-proxy.conf").read_text(encoding="utf-8")
    signing_in = re.search(r"handle_response @refused \{\n(.*?)\n\t{4}\}", caddy, re.DOTALL)[1]

    assert "rd=" not in caddy + nginx
    assert [line.strip() for line in signing_in.splitlines()] == [
        "reverse_proxy 127.0.0.1:4180 {",
        "method GET",
        "rewrite /oauth2/sign_in",
        "header_up X-Forwarded-Uri {uri}",
        "}",
    ]
    [(_, body)] = [way for way in locations_of(nginx) if way[0] == "/oauth2/"]
    assert "proxy_set_header X-Forwarded-Uri $request_uri;" in body


def test_the_pages_replace_what_a_client_says_of_its_address():
    for path in [*PROXIES.iterdir(), *(ROOT / "docs" / "guide").glob("*.md")]:
        assert "$proxy_add_x_forwarded_for" not in path.read_text(encoding="utf-8"), path
