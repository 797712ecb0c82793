"""The web interface below a path of another site, behind a proxy that removes the path."""

import pytest
from tests.e2e.conftest import noting_page
from tests.e2e.root_path_proxy import RootPathProxy

KEY = "a-key-of-thirty-two-characters-1"
AUTH = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture
def proxy(start_server):
    proxy = RootPathProxy("/tools/dokimos")
    proxy.server = start_server(api_key=KEY, require_auth_for_reads=True, public_url=proxy.address)
    proxy.target = proxy.server.port
    yield proxy
    proxy.stop()


def test_no_request_of_a_page_leaves_the_root_path(chromium, proxy):
    body = {"experimentName": "answers", "name": "nightly"}
    run = proxy.server.call("POST", "/projects/shop/runs", body, headers=AUTH)[1]["runId"]
    item = {"inputs": {"input": "a question"}, "actualOutputs": {"output": "an answer"}}
    proxy.server.call("POST", f"/runs/{run}/items", {"items": [item]}, headers=AUTH)
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = noting_page(context, f"{proxy.address}/")
    page.set_default_timeout(60_000)
    here = f"{proxy.address}/runs/{run}"

    page.goto(f"{here}?item=0")  # it goes on, so that events are followed
    form = page.get_by_role("region", name="Sign in")
    form.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="nightly", exact=True).wait_for()
    assert [(one["name"], one["path"]) for one in context.cookies()] == [
        ("dokimos_session", "/tools/dokimos/")
    ]

    page.reload()
    page.get_by_role("heading", name="nightly", exact=True).wait_for()
    assert page.url.startswith(f"{here}?item=")
    drawer = page.locator(".drawer")
    drawer.get_by_text("an answer").first.wait_for()
    drawer.press("Escape")
    drawer.wait_for(state="detached")
    page.wait_for_url(here)

    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search or jump to").fill("validity")
    page.get_by_role("option", name="Validity Settings", selected=True).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{proxy.address}/validity")
    page.locator("main h1").wait_for()
    assert (
        page.get_by_role("link", name="API", exact=True).get_attribute("href")
        == "/tools/dokimos/openapi.json"
    )
    page.go_back()
    page.get_by_role("heading", name="nightly", exact=True).wait_for()
    assert page.url == here

    page.get_by_role("link", name="shop").first.click()
    page.wait_for_url(f"{proxy.address}/projects/shop")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{proxy.address}/login")
    page.goto(f"{proxy.address}/login?returnTo=/traces%3Fperiod%3D7d")
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{proxy.address}/traces?period=7d")
    page.get_by_role("heading", name="Traces", exact=True).wait_for()

    assert proxy.strays == []
    assert [text for text in page.complaints if "status of 401" not in text] == []
    context.close()
