"""Reasons why nothing can be sent to a URL."""

import pytest

from dokimos import judge
from dokimos._http.address import find_url_fault, has_login
from dokimos.errors import ConfigurationError

FAULTS = {
    "localhost:8000/v1": "must start with http:// or https://",
    "ftp://host/v1": "must start with http:// or https://",
    "//host/v1": "must start with http:// or https://",
    "http://": "names no host",
    "http:///v1": "names no host",
    "https://user:pw@/v1": "names no host",
    "http://127.0.0.1:99999/v1": "has the port '99999'",
    "http://user:pw@127.0.0.1:99999/v1": "has the port '99999'",
    "http://[::1]:65536/v1": "has the port '65536'",
    "http://host:0/v1": "has the port '0'",
    "http://host:abc/v1": "has the port 'abc'",
    "http://host:-1/v1": "has the port '-1'",
    "http://[::1/v1": "has a host that cannot be read",
    "http://[zz]/v1": "has a host that cannot be read",
    "http://a b/v1": "has a blank or line break",
    " http://host/v1": "has a blank or line break",
    "http://ho\nst/v1": "has a blank or line break",
    "http://a..b/v1": "names the host 'a..b'",
    f"http://{'a' * 64}.org/v1": "names the host 'aaa",
    f"http://{'a.' * 200}org/v1": "names the host 'a.a",
    "http://1.2.3.4.5/v1": "names the host '1.2.3.4.5'",
    "http://1.2.3.400/v1": "names the host '1.2.3.400'",
    "http://host/v1?key=1": "must end before any '?'",
    "http://host/v1#model": "must end before any '?'",
}


@pytest.mark.parametrize("url", FAULTS, ids=range(len(FAULTS)))
def test_what_is_wrong_with_a_root_is_said(url):
    assert find_url_fault(url, is_root=True).startswith(FAULTS[url])


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "HTTP://localhost:8000/v1",
        "https://api.example.org./v1",
        "http://user:p%40ss@host:80/v1",
        "http://[::1]:8000/v1",
        "http://127.0.0.1:65535/",
        "http://bücher.example/v1",
        "http://my_service:8000",
        "http://host:/v1",
    ],
)
def test_nothing_is_wrong_with_others(url):
    assert find_url_fault(url, is_root=True) is None


def test_an_application_may_be_behind_a_query():
    assert find_url_fault("http://host/chat?version=2") is None


def test_a_login_is_seen():
    assert has_login("http://user:pw@host/v1")
    assert not has_login("http://host/v1/@me")


@pytest.mark.parametrize("user", ["", "user:pw-7531@"])
def test_a_judge_names_the_fault_and_no_password(user):
    with pytest.raises(ConfigurationError, match="openai tiny: base_url has the port '99999'") as failure:
        judge("openai-chat:tiny", base_url=f"http://{user}127.0.0.1:99999/v1")
    assert "7531" not in str(failure.value)


def test_a_login_beside_a_key_is_refused_where_both_go_into_one_header():
    url = "http://user:pw-7531@host/v1"
    with pytest.raises(ConfigurationError, match="holds a user and password") as failure:
        judge("openai-chat:tiny", base_url=url, api_key="k")
    assert "7531" not in str(failure.value)
    assert judge("openai-chat:tiny", base_url=url)
    assert judge("azure:tiny", base_url=url, api_key="k")  # whose key has a header of its own
