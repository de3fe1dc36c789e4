"""The script of a run: its source, and a slider over its turns."""

import re
import urllib.parse
import urllib.request

import pytest

from test_pages import violations
from world import QUEUE

SOURCE = """// Buys what was ordered, once it is approved.
workflow purchase(order) {
  let status = "new", undo = []
  const stock = await Task.run("reserve_stock", order, { queue: "QUEUE" })
  undo.push(["release_stock", stock.warehouse])
  status = "reserved"
  if (order?.broken) return await pay(order)
  const approval = await Task.race({ by: wait_for_signal("approve"), late: Task.delay("2d") })
  if (approval.item_id == "late") throw Error("no approval in time", { type: "Late" })
  status = "approved"
  log(`order ${order.id} is approved`)
  return { id: order.id, by: approval.result }
}

async function pay(order) {
  return await Task.run("charge_card", order, { queue: "QUEUE", retry: false })
}
""".replace("QUEUE", QUEUE)


def deploy(server, source):
    url = f"{server.url}/api/v1/namespaces/default/flows?file_name=purchase.flow"
    urllib.request.urlopen(urllib.request.Request(url, data=source.encode(), method="POST")).read()


@pytest.fixture(scope="module")
def purchases(server, living):
    """A run that waits for an approval, and one that failed."""
    deploy(server, SOURCE)

    async def begin():
        order = {"id": 7, "items": [{"sku": "pen", "count": 2}]}
        start = living.client.start_workflow
        await start("purchase", order, id="purchase-7", task_queue="segno-flow")
        failed = await start("purchase", order | {"id": 8, "broken": True}, id="purchase-8", task_queue="segno-flow")
        try:
            await failed.result()
        except Exception:
            return
        raise AssertionError("it did not fail")

    living.call(begin())


def standing(tab):
    return [line.strip() for line in tab.page.locator("#script ol.source li.stands code").all_inner_texts()]


def open_script(tab, workflow_id, turns):
    tab.open(f"/ui/default/workflows/{workflow_id}")
    tab.page.get_by_role("link", name="Script", exact=True).click()
    tab.page.wait_for_selector(f"#script >> text={turns}")


def test_a_slider_goes_through_the_turns(tab, living, purchases):
    open_script(tab, "purchase-7", "Turn 2 of 2")
    assert "Executed by\nscript purchase" in tab.page.inner_text("#head-facts")
    assert standing(tab) == [SOURCE.splitlines()[7].strip()]
    told = tab.page.inner_text(".told")
    assert re.search(r"WOKEN BY|Woken by", told) and "Activity task completed" in told
    assert "Timer started" in told.split("Commanded")[1]
    assert '"reserved"' in told and "signal approve" in told and "timer-1" in told
    # To the left with the arrow key, as a slider goes.
    slider = tab.page.get_by_label("Turn", exact=True)
    slider.focus()
    slider.press("ArrowLeft")
    tab.page.wait_for_selector("#script >> text=Turn 1 of 2")
    assert standing(tab) == [SOURCE.splitlines()[3].strip()]
    told = tab.page.inner_text(".told")
    assert "Workflow execution started" in told and "Activity task scheduled" in told.split("Commanded")[1]
    assert '"new"' in told and "task-1" in told
    assert "turn=1" in tab.page.url
    # The links do the same, and the slider follows.
    tab.page.locator("h1").click()
    tab.page.get_by_role("link", name="Next", exact=True).click()
    tab.page.wait_for_selector("#script >> text=Turn 2 of 2")
    assert slider.input_value() == "2"

    async def approve():
        handle = living.client.get_workflow_handle("purchase-7")
        await handle.signal("approve", "grace")
        assert await handle.result() == {"id": 7, "by": "grace"}

    # A turn of the past stays while further ones come; the last one is that of the end.
    living.call(approve())
    tab.page.wait_for_selector("#script >> text=Turn 2 of 3")
    assert standing(tab) == [SOURCE.splitlines()[7].strip()]
    tab.page.get_by_role("link", name="Last", exact=True).click()
    tab.page.wait_for_selector("#script >> text=Turn 3 of 3")
    told = tab.page.inner_text(".told")
    assert "Workflow execution signaled" in told and "Workflow execution completed" in told.split("Commanded")[1]
    assert standing(tab) == [] and "order 7 is approved" in told


def test_a_failed_run_stops_at_the_line_that_failed(tab, purchases):
    open_script(tab, "purchase-8", "Turn 3 of 3")
    failing, caller = SOURCE.splitlines()[15].strip(), SOURCE.splitlines()[6].strip()
    assert standing(tab) == [caller, failing]
    notes = tab.page.locator("#script .failed li.stands .note").all_inner_texts()
    assert notes == ["purchase called from here", "failed: card declined: insufficient funds"]
    told = tab.page.inner_text(".told")
    assert "card declined: insufficient funds" in told and "Variables before this turn" in told
    assert '"reserved"' in told


def test_the_turns_work_without_javascript_and_on_a_phone(browser, server, purchases, axe):
    context = browser.new_context(viewport={"width": 400, "height": 844}, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server.url}/ui/default/workflows/purchase-8")
    page.goto(page.url + "/script?turn=2")
    assert "Turn 2 of 3" in page.inner_text("#script")
    page.get_by_role("link", name="Previous").click()
    page.wait_for_selector("#script >> text=Turn 1 of 3")
    assert page.get_by_role("button", name="Show").is_visible()
    page.get_by_role("button", name="Show").click()
    assert urllib.parse.urlsplit(page.url).query == "turn=1"
    context.close()
    context = browser.new_context(viewport={"width": 400, "height": 844}, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{server.url}/ui/default/workflows/purchase-8")
    page.goto(page.url + "/script")
    page.add_script_tag(content=axe)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert violations(page) == []
    context.close()


def test_a_run_of_workers_has_no_script(tab, living):
    tab.open("/ui/default/workflows/order-1003")
    assert "Executed by\nworkers" in tab.page.inner_text("#head-facts")
    assert tab.page.get_by_role("link", name="Script", exact=True).count() == 0


def test_turns_whose_events_were_removed_are_left_out(tab, server, living):
    """The state of a turn is computed from the checkpoint before it, however long the run has been."""
    living.call(living.settings({"segno.flow.history-events-kept": "30"}))
    try:
        deploy(server, 'workflow counts(n) { let done = 0; while (done < n) { await Task.delay(0.001); done++ }; return done }')

        async def count():
            start = living.client.execute_workflow
            assert await start("counts", 100, id="counts-1", task_queue="segno-flow") == 100

        living.call(count())
    finally:
        living.call(living.settings({"segno.flow.history-events-kept": ""}))
    tab.open("/ui/default/workflows/counts-1")
    tab.page.get_by_role("link", name="Script", exact=True).click()
    tab.page.wait_for_selector("#script h2")
    count = int(tab.page.get_attribute("#script h2", "data-count"))
    assert 3 < count < 50, count
    values = []
    for turn in range(1, count):
        tab.open(f"{urllib.parse.urlsplit(tab.page.url).path}?turn={turn}")
        assert tab.page.locator("#script .notice").count() == 0, tab.page.inner_text("#script")
        values.append(int(re.search(r"done\s+(\d+)", tab.page.inner_text(".variables")).group(1)))
    # Those before the first checkpoint that is kept have nothing to begin with.
    assert values == list(range(100 - len(values), 100)), values


def test_a_refused_deployment_says_how_to_take_over(tab, server, living):
    """`Order` is a workflow in code of the workers."""
    tab.is_refused = True
    tab.open("/ui/default/scripts")
    tab.page.get_by_label("Source").fill("workflow Order(x) { return x }")
    tab.page.get_by_role("button", name="Deploy and activate").click()
    tab.page.wait_for_selector(".notice.bad >> text=open runs of \"Order\" are not scripts")
    assert "tick “Take over” and deploy it again" in tab.page.inner_text(".notice.bad")
    # A name that only this test uses is taken over.
    name = "TakenShipment"

    async def run():
        handle = await living.client.start_workflow(name, id="taken-1", task_queue="nobody-polls-this")
        return handle

    living.call(run())
    tab.page.get_by_label("Source").fill(f"workflow {name}(x) {{ return x }}")
    tab.page.get_by_label("Take over").check()
    tab.page.get_by_role("button", name="Deploy and activate").click()
    tab.page.wait_for_url(re.compile(f"scripts/{name}"))
    assert "Queues\nall" in tab.page.inner_text("main")


def test_schedules_in_scripts_are_on_the_page_of_schedules(tab, server, living):
    deploy(server, 'schedule("0 6 * * *", { zone: "UTC" })\nworkflow nightly() { return 1 }')
    tab.open("/ui/default/schedules")
    row = tab.page.locator("tr", has_text="flow-schedule/nightly")
    assert "script nightly" in row.inner_text() and "0 6 * * *" in row.inner_text()
    row.get_by_role("link", name="nightly", exact=True).click()
    tab.page.wait_for_url(re.compile("scripts/nightly"))
