"""Every page: it opens, is quiet, fits, and can be used without a mouse and without eyes."""

import time
import urllib.error
import urllib.request

import pytest

PAGES = [
    "/ui/default/workflows",
    "/ui/default/workflows?query=nonsense+%3D+1",
    "/ui/default/workflows/order-1003",
    "/ui/default/workflows/order-2002",
    "/ui/default/workflows/order-1003/{run}/history",
    "/ui/default/workflows/order-1003/{run}/history?view=compact",
    "/ui/default/workflows/order-1003/{run}/relations",
    "/ui/default/workflows/order-1003/{run}/calls",
    "/ui/default/schedules",
    "/ui/default/schedules/nightly-report",
    "/ui/default/scripts",
    "/ui/default/task-queues",
    "/ui/default/workers",
    "/ui/default/deployments",
    "/ui/default/deployments/shipping",
    "/ui/default/deployments/shipping/2026-11-19.1",
    "/ui/default/batches",
    "/ui/default/namespaces",
    "/ui/default/cluster",
    "/ui/default/server",
]


def address(living, page):
    if "{run}" not in page:
        return page
    handle = living.client.get_workflow_handle("order-1003")
    return page.format(run=living.call(handle.describe()).run_id)


def violations(page, rules=None):
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = page.evaluate("options => axe.run(document, options)", options)
    return [(one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found["violations"]]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_usable(browser, server, living, axe, page):
    from conftest import Tab

    # The checker is no part of the page, so the policy is off for it; another test has the policy.
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True, reduced_motion="reduce")
    tab = Tab(context, server.url)
    try:
        assert tab.open(address(living, page)).ok
        assert tab.page.locator("h1").count() == 1
        tab.page.add_script_tag(content=axe)
        assert violations(tab.page) == []
        tab.page.emulate_media(color_scheme="dark")
        assert tab.page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
        assert violations(tab.page, ["color-contrast", "link-in-text-block"]) == []
        for width in (390, 768):
            tab.page.set_viewport_size({"width": width, "height": 844})
            overflow = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, f"the page is {overflow} pixels too wide for {width}"
        assert violations(tab.page, ["scrollable-region-focusable", "list", "definition-list", "label"]) == []
        tab.quiet()
    finally:
        context.close()


def test_the_first_page_is_small_and_fast(server, living):
    total, begun = 0, time.perf_counter()
    paths = ["/ui/default/workflows"]
    for path in paths:
        total += len(urllib.request.urlopen(server.url + path).read())
    took = time.perf_counter() - begun
    for name in ["style.css", "theme.js", "main.js", "actions.js", "figures.js", "filter.js", "live.js", "script.js", "timeline.js", "times.js", "logo.svg"]:
        total += len(urllib.request.urlopen(f"{server.url}/ui/assets/{name}").read())
    assert total < 100 * 1024
    # The limit is for the server as it is released; this one is built for debugging.
    assert took < 0.25


def test_the_root_leads_to_the_workflows(tab):
    tab.open("/")
    assert tab.page.url.endswith("/ui/default/workflows")
    assert tab.page.title() == "Workflows · Segno"


def test_what_others_must_not(server, living):
    def status(path, method="GET", **headers):
        request = urllib.request.Request(server.url + path, method=method, headers=headers)
        if method == "POST":
            request.data = b"do=terminate&reason=x"
        try:
            return urllib.request.urlopen(request).status
        except urllib.error.HTTPError as error:
            return error.code

    run = "/ui/default/workflows/order-2001/" + living.call(
        living.client.get_workflow_handle("order-2001").describe()
    ).run_id
    assert status("/ui/default/workflows", Host="evil.example") == 421
    assert status(run, "POST", Origin="http://evil.example") == 403
    assert status(run, "POST", **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert living.call(living.client.get_workflow_handle("order-2001").describe()).status.name == "RUNNING"


def test_the_policy_forbids_what_is_not_ours(server):
    answer = urllib.request.urlopen(server.url + "/ui/default/server")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = answer.read().decode()
    assert "style=" not in page and "onclick=" not in page and "http://" not in page.replace("http://www.w3.org", "")
    asset = urllib.request.urlopen(server.url + "/ui/assets/style.css")
    again = urllib.request.Request(server.url + "/ui/assets/style.css", headers={"If-None-Match": asset.headers["etag"]})
    with pytest.raises(urllib.error.HTTPError) as unchanged:
        urllib.request.urlopen(again)
    assert unchanged.value.code == 304


def test_there_is_a_page_for_what_is_not_there(tab):
    tab.is_refused = True
    assert tab.open("/ui/default/nowhere").status == 404
    assert "no such page" in tab.page.inner_text("main")
    assert tab.open("/ui/default/workflows/no-such-workflow").status == 404
    assert tab.page.inner_text("h1") == "Not found"
    assert "workflow not found for ID: no-such-workflow" in tab.page.inner_text(".notice.bad")
    assert tab.page.get_attribute("main p a", "href") == "/ui/default/workflows"
    assert tab.open("/ui/unknown/workflows").status == 404
    assert tab.page.get_attribute("main p a", "href") == "/"
    # Outside the pages, where calls of the API are: a person is shown a page, a program JSON.
    assert tab.open("/workflows").status == 404
    assert "There is no such page." in tab.page.inner_text("main")
    assert tab.page.get_attribute("main p a", "href") == "/"
    assert tab.page.request.get(f"{tab.url}/workflows", headers={"accept": "*/*"}).json() == {"code": 5, "message": "Not Found"}


def test_the_theme_can_be_chosen(tab):
    tab.open("/ui/default/server")
    toggle = tab.page.locator("[data-theme-toggle]")
    ground = lambda: tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = ground()
    toggle.click()
    toggle.click()
    assert toggle.inner_text() == "Theme: dark" and ground() != light
    tab.page.reload()
    assert ground() != light
    toggle.click()
    assert ground() == light


def test_the_menu_of_a_phone(browser, server, living):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(server.url + "/ui/default/workflows")
    assert not page.locator("nav[aria-label=Areas]").is_visible()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Schedules").click()
    page.wait_for_url("**/schedules")
    context.close()


def test_the_server_draws_its_figures(tab, living):
    tab.open("/ui/default/server")
    living.call(living.order("order-for-figures"))
    tab.until(
        "document.querySelector('[data-figure=commits] polyline').getAttribute('points').split(' ').length >= 3"
    )
    assert "MiB" in tab.page.inner_text("[data-figure=resident_bytes] output")
    # Times are drawn as well, and are times where something happened.
    for name in ("commit_p50", "commit_p99", "call_p50", "call_p99"):
        points = f"document.querySelector('[data-figure={name}] polyline').getAttribute('points')"
        tab.until(f"{points}.split(' ').length >= 3")
    living.call(living.order("order-for-times"))
    tab.until("/ms|µs/.test(document.querySelector('[data-figure=call_p99] output').innerText)")
