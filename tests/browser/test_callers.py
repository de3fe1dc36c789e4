"""Pages of callers who may not do everything: where a login leads, what is shown, what is refused."""

import os
import pathlib
import subprocess

import pytest

from conftest import ROOT, Server, Tab


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that wants to know who calls, with the namespaces `default` and `shop`."""
    directory = tmp_path_factory.mktemp("guarded")
    server = Server(directory / "log", "--auth", "--admin-key-file", str(directory / "admin.key"))
    server.admin = pathlib.Path(directory / "admin.key").read_text().strip()
    segno(server, "namespace", "create", "shop")
    yield server
    server.stop()


def segno(server, *words):
    binary = os.environ.get("SEGNO_BIN") or str(ROOT / "target/debug/segno")
    environment = {**os.environ, "SEGNO_ADDRESS": f"127.0.0.1:{server.grpc}", "SEGNO_API_KEY": server.admin}
    return subprocess.run([binary, *words], env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def logged_in(browser, guarded):
    """Tabs of callers with some grants, after their login at the first page."""
    tabs = []

    def make(name, *grants, size=(1280, 900)):
        flags = [word for grant in grants for word in ("--grant", grant)]
        key = segno(guarded, "key", "create", name, *flags)
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, locale="en-GB")
        context.set_default_timeout(10_000)
        tab = Tab(context, guarded.url)
        # The login is an answer of 401, and so is what a page may not load.
        tab.is_refused = True
        tabs.append((context, tab))
        tab.open("/")
        tab.page.get_by_label("API key or token").fill(key)
        tab.page.get_by_role("button", name="Log in").click()
        return tab

    yield make
    for context, tab in tabs:
        context.close()
        tab.quiet()


def test_a_login_leads_to_a_namespace_that_the_caller_may_read(logged_in):
    page = logged_in("shop-reader", "shop:read").page
    page.wait_for_url("**/ui/shop/workflows")
    assert page.locator("[data-namespace] option").all_inner_texts() == ["shop"]
    areas = page.get_by_role("navigation", name="Areas").get_by_role("link").all_inner_texts()
    assert "Workflows" in areas and "Schedules" in areas
    assert not {"Namespaces", "Server", "Cluster"} & set(areas)
    # What would be refused is not offered.
    assert not page.locator("summary", has_text="Start workflow").is_visible()


def test_a_writer_sees_the_forms(logged_in):
    page = logged_in("shop-writer", "shop:write").page
    page.wait_for_url("**/ui/shop/workflows")
    assert page.locator("summary", has_text="Start workflow").is_visible()


def test_a_forbidden_page_is_a_page(logged_in, guarded):
    page = logged_in("stranger", "shop:read").page
    page.wait_for_url("**/ui/shop/workflows")
    answer = page.goto(guarded.url + "/ui/default/workflows")
    assert answer.status == 403
    text = page.inner_text("main")
    assert "You may not open this page" in text
    assert "key stranger has shop:read; GET /ui/default/workflows needs default:read" in text
    page.get_by_role("main").get_by_role("link", name="shop").click()
    page.wait_for_url("**/ui/shop/workflows")
    # So is one about the whole server.
    assert page.goto(guarded.url + "/ui/shop/server").status == 403
    assert "needs *:read" in page.inner_text("main")
    page.get_by_role("navigation", name="Areas").get_by_role("link", name="Workflows").click()
    page.wait_for_url("**/ui/shop/workflows")


def test_every_page_has_a_log_out(logged_in, guarded):
    page = logged_in("leaver", "shop:read").page
    page.wait_for_url("**/ui/shop/workflows")
    for area in ("schedules", "scripts", "task-queues", "workers", "deployments", "endpoints", "batches"):
        page.goto(f"{guarded.url}/ui/shop/{area}")
        assert page.get_by_role("button", name="Log out").is_visible(), area
    assert "leaver" in page.inner_text(".logout")
    page.goto(guarded.url + "/ui/default/workflows")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("text=API key or token")
    assert page.goto(guarded.url + "/ui/shop/workflows").status == 401
