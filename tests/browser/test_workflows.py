"""The list of workflows, and one of them: filter, live changes, actions, timeline."""

import json
import re
import time
import urllib.request


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_the_list_follows_changes(tab, living):
    tab.open("/ui/default/workflows")
    assert tab.page.locator("text=live-order").count() == 0
    living.call(living.order("live-order", approval=True))
    tab.page.wait_for_selector("text=live-order", timeout=5000)
    assert "Running" in tab.page.locator("tr", has_text="live-order").inner_text()
    living.call(living.client.get_workflow_handle("live-order").terminate())
    tab.until(
        "[...document.querySelectorAll('tr')].some(row => row.innerText.includes('live-order') && row.innerText.includes('Terminated'))"
    )


def test_filter_with_completion_and_counts(tab):
    tab.open("/ui/default/workflows")
    query = tab.page.locator("#query")
    query.focus()
    tab.page.keyboard.type("WorkflowTy")
    tab.page.wait_for_selector("#completions li")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    assert query.input_value() == "WorkflowType "
    tab.page.keyboard.type("= 'Shipment'")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(re.compile("query="))
    kinds = set(tab.page.locator("td[data-label=Type]").all_inner_texts())
    assert kinds == {"Shipment"}
    counts = tab.page.locator("nav.counts")
    assert "Running" not in counts.inner_text()
    counts.get_by_role("link", name=re.compile("Completed")).click()
    tab.page.wait_for_url(re.compile("ExecutionStatus"))
    assert set(tab.page.locator("td .badge").all_inner_texts()) == {"Completed"}


def test_a_wrong_filter_is_told_at_its_place(tab):
    tab.open("/ui/default/workflows?query=WorkflowType+%3D%3D+1")
    told = tab.page.locator("#query-error")
    assert told.is_visible() and tab.page.locator("#query").get_attribute("aria-invalid") == "true"
    assert tab.page.locator("#query").input_value() == "WorkflowType == 1"
    assert told.locator("mark").inner_text() == "= 1"


def test_what_is_tried_again_has_a_link(tab, living):
    tab.open("/ui/default/workflows?query=WorkflowType+%3D+%27Order%27")
    counts = tab.page.locator("nav.counts")
    counts.get_by_role("link", name=re.compile("Retrying")).click()
    tab.page.wait_for_url(re.compile("ActivityAttempts"))
    assert tab.page.locator("tr", has_text="order-2002").count() == 1
    assert set(tab.page.locator("td .badge").all_inner_texts()) == {"Running"}
    counts.get_by_role("link", name=re.compile("All")).click()
    tab.until("!location.search.includes('ActivityAttempts')")
    assert tab.page.locator("#query").input_value() == "WorkflowType = 'Order'"


def test_views_are_saved(tab):
    tab.open("/ui/default/workflows?query=WorkflowType+%3D+%27Order%27")
    tab.page.once("dialog", lambda dialog: dialog.accept("all orders"))
    tab.page.get_by_role("button", name="Save view").click()
    tab.open("/ui/default/workflows")
    tab.page.get_by_role("link", name="all orders", exact=True).click()
    tab.page.wait_for_url(re.compile("query="))
    assert tab.page.locator("#query").input_value() == "WorkflowType = 'Order'"


def test_pages_of_the_list(tab, living):
    async def many():
        for number in range(60):
            await living.client.start_workflow("Nobody", id=f"page-{number:02}", task_queue="nobody")

    living.call(many())
    tab.open("/ui/default/workflows?query=WorkflowType+%3D+%27Nobody%27")
    first = tab.page.locator("tbody tr").count()
    tab.page.get_by_role("link", name="Next page").click()
    tab.page.wait_for_url(re.compile("page="))
    assert (first, tab.page.locator("tbody tr").count()) == (50, 10)


def test_starting_from_the_page(tab, living):
    tab.is_refused = True
    tab.open("/ui/default/workflows")
    tab.page.locator("summary", has_text="Start workflow").click()
    form = tab.page.locator("details[open] form")
    form.get_by_label("Type").fill("Shipment")
    form.get_by_label("Task queue").fill("orders")
    form.get_by_label("Workflow id").fill("from-the-page")
    form.get_by_label("Input").fill("not json")
    form.get_by_role("button", name="Start").click()
    tab.page.wait_for_selector(".notice.bad")
    assert "not JSON" in tab.page.inner_text(".notice.bad")
    form.get_by_label("Input").fill('{"items": []}')
    form.get_by_role("button", name="Start").click()
    tab.page.wait_for_url(re.compile("workflows/from-the-page/"))
    tab.page.wait_for_selector("#status >> text=Completed")
    assert "delivered" in tab.page.inner_text("#in-and-out")


def test_acting_on_a_selection(tab, living):
    for number in range(3):
        living.call(living.order(f"selected-{number}", approval=True))
    tab.open("/ui/default/workflows?query=WorkflowId+STARTS_WITH+%27selected-%27+AND+WorkflowType+%3D+%27Order%27")
    tab.page.get_by_label("Select selected-0").check()
    tab.page.get_by_label("Select selected-1").check()
    assert tab.page.inner_text("[data-selection-count]") == "2"
    tab.page.once("dialog", lambda dialog: dialog.accept())
    tab.page.get_by_role("button", name="Terminate").click()
    tab.page.wait_for_selector("text=see its progress")
    status = lambda number: living.call(living.client.get_workflow_handle(f"selected-{number}").describe()).status.name
    wait_for(lambda: [status(number) for number in range(3)] == ["TERMINATED", "TERMINATED", "RUNNING"])
    tab.page.get_by_role("link", name="see its progress").click()
    tab.page.wait_for_selector("tr[aria-current] >> text=Completed")


def test_why_it_waits(tab, living):
    tab.open("/ui/default/workflows/order-2002")
    now = tab.page.inner_text("#now")
    assert "charge_card" in now and "card declined: insufficient funds" in now and "orders-worker@host-1" in now
    tab.open("/ui/default/workflows/invoice-1")
    assert 'no worker polls task queue "invoices"' in tab.page.inner_text("#now")
    tab.open("/ui/default/workflows/order-2001")
    assert "Timer 2 fires at" in tab.page.inner_text("#now")


def test_severity_has_a_word_and_a_colour_of_its_own(tab):
    seen = {}
    for name, word in [("order-2001", "Waiting"), ("order-2002", "Delayed"), ("crashing", "Stuck")]:
        tab.open(f"/ui/default/workflows/{name}")
        tab.until(f"document.querySelector('#now .severity')?.innerText.includes('{word}')", 30)
        style = "getComputedStyle(document.querySelector('#now .severity'))"
        tab.page.evaluate("document.documentElement.dataset.theme = 'light'")
        light = tab.page.evaluate(f"{style}.backgroundColor")
        tab.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        seen[word] = (light, tab.page.evaluate(f"{style}.backgroundColor"))
    assert len({light for light, _ in seen.values()}) == 3 and len({dark for _, dark in seen.values()}) == 3, seen
    assert all(light != dark for light, dark in seen.values())
    names = "'order-2001','order-2002','crashing','invoice-1'"
    tab.open(f"/ui/default/workflows?query=WorkflowId+IN+({names})")
    waits = lambda name: tab.page.locator("#rows tr", has=tab.page.get_by_role("link", name=name, exact=True)).locator(".waits")
    assert waits("order-2001").inner_text().split() == ["●", "Waiting", "a", "timer"]
    assert waits("order-2002").inner_text().split() == ["▲", "Delayed", "activity", "charge_card"]
    assert waits("crashing").inner_text().split()[:2] == ["■", "Stuck"]
    assert "Delayed a worker on invoices" in " ".join(waits("invoice-1").inner_text().split())


def test_a_parent_says_what_its_child_waits_for(tab, living):
    living.call(living.order("parent", slow=True))
    tab.open("/ui/default/workflows/parent")
    tab.page.wait_for_selector("#now .because >> text=fires at", timeout=15_000)
    assert 'It waits for the child workflow "parent-shipment"' in tab.page.inner_text("#now")


def test_failed_attempts_are_drawn(tab):
    tab.open("/ui/default/workflows/order-1003")
    tab.page.wait_for_selector("svg.drawing")
    # Two attempts failed before the third one; each has its own bar.
    row = tab.page.locator("svg.drawing g.activity", has_text="charge_card")
    assert row.locator("rect.attempt-bar").count() == 2
    lefts = [float(bar.get_attribute("x")) for bar in row.locator("rect.attempt-bar").all()]
    assert lefts[0] < lefts[1] < float(row.locator("rect.bar.done").get_attribute("x"))
    tab.open("/ui/default/workflows/order-2002")
    row = tab.page.locator("svg.drawing g.activity", has_text="charge_card")
    assert row.locator("rect.attempt-bar").count() >= 1


def test_forms_offer_the_names_that_the_worker_told(tab, living):
    living.call(living.order("named", approval=True))
    tab.open("/ui/default/workflows/named")
    tab.page.locator("summary", has_text="Signal").click()
    tab.page.locator("details[open] form").get_by_label("Signal name").focus()
    names = lambda kind: f"[...document.querySelectorAll('#names-{kind} option')].map(option => option.value).join()"
    tab.until(f"{names('signal')} === 'approve'")
    assert tab.page.evaluate(names("update")) == "add_note"
    assert tab.page.evaluate(names("query")) == "state"
    living.call(living.client.get_workflow_handle("named").terminate())


def test_signal_update_query_and_live_status(tab, living):
    living.call(living.order("asked", approval=True))
    tab.open("/ui/default/workflows/asked")
    tab.page.wait_for_selector("#status >> text=Running")
    tab.page.locator("summary", has_text="Update").click()
    form = tab.page.locator("details[open] form")
    form.get_by_label("Update name").fill("add_note")
    form.get_by_label("Input").fill('"fragile"')
    form.get_by_role("button").click()
    tab.page.wait_for_selector("text=The update is completed")
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("link", name="Stack and queries").click()
    tab.page.get_by_role("button", name="Ask for the stack").click()
    tab.page.wait_for_selector("pre >> text=_run_top_level_workflow_function")
    tab.page.get_by_label("Query name").fill("state")
    tab.page.get_by_role("button", name="Ask", exact=True).click()
    tab.page.wait_for_selector("pre >> text=fragile")
    tab.page.locator("summary", has_text="Signal").click()
    form = tab.page.locator("details[open] form")
    form.get_by_label("Signal name").fill("approve")
    form.get_by_label("Input").fill('"Grace"')
    form.get_by_role("button").click()
    tab.page.wait_for_selector("#status >> text=Completed")
    # What cannot be done to a closed run is not offered.
    tab.page.locator("#actions summary", has_text="Delete").wait_for()
    tab.page.get_by_role("link", name="Summary").click()
    tab.page.wait_for_selector("pre >> text=approved by Grace")


def test_cancel_and_activity_pause(tab, living):
    living.call(living.order("paused", broken=True))
    tab.open("/ui/default/workflows/paused")
    tab.page.get_by_role("button", name="Pause", exact=True).last.wait_for()
    row = tab.page.locator("tr", has_text="charge_card")
    row.get_by_role("button", name="Pause").click()
    row.get_by_role("button", name="Unpause").wait_for()
    row.get_by_role("button", name="Unpause").click()
    row.get_by_role("button", name="Pause", exact=True).wait_for()
    tab.page.locator("summary", has_text="Cancel").click()
    tab.page.get_by_role("button", name="Request cancellation").click()
    tab.page.wait_for_selector("#status >> text=Canceled")


def test_a_workflow_is_paused_and_unpaused(tab, living):
    living.call(living.order("held", wait=True))
    tab.open("/ui/default/workflows/held")
    tab.page.wait_for_selector("#now >> text=timer")
    tab.page.locator("#actions summary", has_text="Pause").click()
    tab.page.locator("#actions details[open]").get_by_role("button", name="Pause").click()
    tab.page.wait_for_selector("#status >> text=Paused")
    tab.page.wait_for_selector("text=The workflow has been paused by")
    tab.page.locator("#actions summary", has_text="Unpause").click()
    tab.page.locator("#actions details[open]").get_by_role("button", name="Unpause").click()
    tab.page.wait_for_selector("#status >> text=Running")


def test_history_and_reset_by_a_click(tab, living):
    living.call(living.order("again", wait=True))
    tab.open("/ui/default/workflows/again")
    tab.page.wait_for_selector("#now >> text=timer")
    tab.page.get_by_role("link", name="History").click()
    events = tab.page.locator("ol.events > li")
    events.first.wait_for()
    completed = tab.page.locator("li", has_text="Workflow task completed").first
    completed.locator("summary").click()
    tab.page.once("dialog", lambda dialog: dialog.accept())
    before = tab.page.url
    completed.get_by_role("button", name="Reset to this event").click()
    tab.page.wait_for_url(lambda url: "/history" not in url and url != before)
    tab.page.wait_for_selector("#status >> text=Running")
    tab.page.get_by_role("link", name="Relations").click()
    tab.page.wait_for_selector("ol.chain li >> nth=1")
    assert tab.page.locator("ol.chain li").count() == 2
    living.call(living.client.get_workflow_handle("again").terminate())


def test_the_history_is_searched(tab, living):
    living.call(living.order("searched", approval=True))
    tab.open("/ui/default/workflows/searched")
    tab.page.wait_for_selector("#now >> text=the code waits")
    tab.page.get_by_role("link", name="History").click()
    events = tab.page.locator("ol.events > li")
    events.first.wait_for()
    every = events.count()
    tab.page.get_by_label("Text").fill("CHARGE_CARD")
    tab.page.get_by_role("button", name="Show").click()
    tab.page.wait_for_url(re.compile("find=CHARGE_CARD"))
    assert 0 < events.count() < every and f"of {every} events" in tab.page.inner_text("#events")
    assert all("Activity task" in text for text in events.all_inner_texts())
    tab.page.get_by_role("link", name="All events").click()
    tab.page.wait_for_url(lambda url: "find" not in url)
    tab.page.get_by_label("Type").select_option("Activity task scheduled")
    tab.page.get_by_role("button", name="Show").click()
    tab.page.wait_for_url(re.compile("kind=Activity"))
    assert events.count() == 3, events.all_inner_texts()
    tab.page.get_by_label("Text").fill("nothing like it")
    tab.page.get_by_role("button", name="Show").click()
    tab.page.wait_for_selector("text=No event matches")
    tab.open(tab.page.url.split("?")[0].removeprefix(tab.url) + "?at=5")
    found = tab.page.locator("ol.events > li[aria-current]")
    assert found.get_attribute("id") == "event-5" and found.locator("details").get_attribute("open") is not None
    living.call(living.client.get_workflow_handle("searched").terminate())


def test_history_as_a_file(server, living):
    handle = living.client.get_workflow_handle("order-1003")
    run = living.call(handle.describe()).run_id
    content = urllib.request.urlopen(f"{server.url}/ui/default/workflows/order-1003/{run}/history.json").read()
    events = json.loads(content)["events"]
    assert [int(event["eventId"]) for event in events] == list(range(1, len(events) + 1))
    # The SDK reads it as it reads the file of Temporal's own tool.
    from temporalio.client import WorkflowHistory

    history = WorkflowHistory.from_json("order-1003", json.loads(content))
    assert len(history.events) == len(events)


def test_a_question_that_nobody_answers(tab):
    tab.is_refused = True
    tab.open("/ui/default/workflows/invoice-1")
    tab.page.get_by_role("link", name="Stack and queries").click()
    tab.page.get_by_role("button", name="Ask for the stack").click()
    told = tab.page.wait_for_selector(".outcome .notice.bad", timeout=20_000)
    assert told.inner_text() == "No answer in time of any worker. The summary says whether one polls the task queue"


def test_relations_are_a_tree(tab):
    tab.open("/ui/default/workflows/order-1001")
    tab.page.get_by_role("link", name="Relations").click()
    tab.page.wait_for_url(re.compile("relations"))
    tree = tab.page.locator("ul.tree")
    assert "order-1001-shipment" in tree.inner_text()
    # What is shown of a run id tells runs apart.
    lists = tab.page.locator("main a + code").all_inner_texts()
    assert len(set(lists)) == 2, lists
    tree.get_by_role("link", name="order-1001-shipment").click()
    tab.page.get_by_role("link", name="Relations").click()
    tab.page.wait_for_selector("ul.tree >> text=parent")


def test_a_timeline_of_ten_thousand_events(tab, living):
    run, length = living.call(living.long("long", 330), timeout=80)
    assert length >= 10_000
    begun = time.monotonic()
    tab.open(f"/ui/default/workflows/long/{run}")
    tab.page.wait_for_selector("svg.drawing rect.bar")
    took = time.monotonic() - begun
    bars = tab.page.locator("svg.drawing rect.bar").count()
    assert 10 < bars < 5000 and took < 5, (bars, took)
    size = len(urllib.request.urlopen(tab.page.url).read())
    assert size < 1024 * 1024
    # Zooming by dragging shows more of less.
    box = tab.page.locator("svg.drawing").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + 60, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_url(re.compile("from=.*to="))
    tab.page.get_by_role("link", name="Whole run").click()
    tab.until("!location.search.includes('from')")
    # A part of the history, with the event that a bar leads to.
    tab.page.goto(tab.page.url.split("?")[0] + "/history?at=9000#event-9000")
    assert tab.page.locator("#event-9000 details").get_attribute("open") is not None
    assert tab.page.locator("ol.events > li").count() == 100
