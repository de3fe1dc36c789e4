"""Deployments of workers: the picture, the versions, and the forms that change the routing."""

import re

from world import BUILDS, DEPLOYMENT

PAGE = f"/ui/default/deployments/{DEPLOYMENT}"
OLD, CURRENT, RAMPING = BUILDS


def test_a_deployment_as_a_picture(tab):
    tab.open("/ui/default/deployments")
    row = tab.page.locator("#rows tbody tr", has_text=DEPLOYMENT).inner_text()
    assert CURRENT in row and f"{RAMPING} 25 %" in row
    tab.page.get_by_role("link", name=DEPLOYMENT).click()
    tab.page.wait_for_selector("svg.routes")
    assert tab.page.locator("svg.routes path.flow").count() == 2
    described = tab.page.locator("svg.routes").get_attribute("aria-label")
    assert f"{CURRENT}: 75 % of the routing, 9 pinned workflows" in described
    assert f"{OLD}: 0 % of the routing, 4 pinned workflows" in described
    rows = tab.page.locator("#versions tbody tr").all_inner_texts()
    assert [text.split()[:2] for text in rows] == [[RAMPING, "Ramping"], [CURRENT, "Current"], [OLD, "Draining"]]
    tab.page.locator("#versions tr", has_text=OLD).get_by_role("link", name="4").click()
    tab.page.wait_for_url(re.compile("/workflows"))
    assert tab.page.locator("#rows tbody tr").count() == 4


def test_a_version(tab):
    tab.open(PAGE)
    tab.page.locator("svg.routes a", has_text=RAMPING).click()
    tab.page.wait_for_url(re.compile("/deployments/shipping/2026-11-19.1"))
    assert "Ramping" in tab.page.inner_text("#status")
    assert f"shipping-worker@{RAMPING}" in tab.page.inner_text("#queues")
    assert f"shipping-worker@{CURRENT}" not in tab.page.inner_text("#queues")
    assert "4f2a91c" in tab.page.inner_text("#metadata")
    # What is ramping cannot be deleted.
    assert tab.page.locator("summary", has_text="Delete").count() == 0


def test_the_routing_is_changed(tab, living):
    living.call(living.make_current("routed", "one", allow_no_pollers=True))
    living.call(living.make_current("routed", "two", allow_no_pollers=True))
    tab.open("/ui/default/deployments/routed")
    actions = tab.page.get_by_role("group", name="Actions")
    actions.locator("summary", has_text="Ramp").click()
    form = actions.locator("details[open] form")
    form.locator("select[name=build]").select_option("one")
    form.get_by_label("Percentage").fill("30")
    form.get_by_role("button", name="Ramp").click()
    tab.page.wait_for_selector("#facts >> text=one at 30 %")
    tab.page.get_by_role("button", name="End ramp").click()
    tab.until("!document.querySelector('#facts dl').innerText.includes('30 %')")
    actions.locator("summary", has_text="Set current").click()
    form = actions.locator("details[open] form")
    form.locator("select[name=build]").select_option("one")
    form.get_by_role("button", name="Set current").click()
    tab.until("document.querySelector('#facts dd').innerText === 'one'")
    # It has only just stopped being current.
    tab.open("/ui/default/deployments/routed/two")
    tab.page.locator("summary", has_text="Delete").click()
    form = tab.page.locator("details[open] form")
    form.get_by_label("Even though it is draining").check()
    form.get_by_role("button", name="Delete").click()
    tab.page.wait_for_url(re.compile("/deployments/routed$"))
    tab.until("document.querySelectorAll('#versions tbody tr').length === 1")


def test_a_change_of_another_client_is_not_overwritten(tab, living):
    living.call(living.make_current("contended", "one", allow_no_pollers=True))
    living.call(living.make_current("contended", "two", allow_no_pollers=True))
    tab.open("/ui/default/deployments/contended")
    tab.is_refused = True
    actions = tab.page.get_by_role("group", name="Actions")
    actions.locator("summary", has_text="Ramp").click()
    form = actions.locator("details[open] form")
    # A form that is being filled in keeps what it was opened with.
    form.get_by_label("Percentage").fill("40")
    living.call(living.ramp("contended", "one", 5))
    tab.until("document.querySelector('svg.routes').getAttribute('aria-label').includes('one: 5 %')")
    form.get_by_role("button", name="Ramp").click()
    tab.page.wait_for_selector("text=conflict token mismatch")


def test_the_forms_work_without_scripts(browser, server, living):
    living.call(living.make_current("plain", "one", allow_no_pollers=True))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url + "/ui/default/deployments/plain")
    assert page.locator("svg.routes rect.version").count() == 1
    page.locator("summary", has_text="Set current").click()
    form = page.locator("details[open] form")
    form.locator("select[name=build]").select_option("unversioned workers")
    form.get_by_role("button", name="Set current").click()
    page.wait_for_selector("text=Current: unversioned workers")
    context.close()
