"""Scripts, schedules, namespaces, task queues and workers."""

import re
from datetime import timedelta

from world import SCRIPT


def test_edit_check_deploy_and_look_into_a_script(tab, living):
    tab.open("/ui/default/scripts")
    source = tab.page.get_by_label("Source")
    source.fill("workflow greeting(name) { return nme }")
    tab.page.get_by_role("button", name="Check").click()
    tab.page.wait_for_selector(".notice.bad .findings >> text=line 1")
    tab.page.get_by_role("button", name="Deploy and activate").click()
    tab.page.wait_for_selector(".notice.bad >> text=It is not deployed")
    assert tab.page.locator(".notice.good").count() == 0
    source.fill(SCRIPT)
    tab.page.get_by_label("File name").fill("greeting.flow")
    tab.page.get_by_role("button", name="Check").click()
    tab.page.wait_for_selector("text=No mistakes")
    tab.page.get_by_role("button", name="Deploy and activate").click()
    tab.page.wait_for_url(re.compile("scripts/greeting"))
    assert "current" in tab.page.inner_text("#versions")

    async def start():
        await living.client.start_workflow("greeting", "Ada", id="greet-1", task_queue="greeting")

    living.call(start())
    tab.page.wait_for_selector("ol.source li.stands >> text=greet-1", timeout=10_000)
    assert "Task.delay" in tab.page.inner_text("ol.source li.stands")
    tab.page.locator("ol.source li.stands a").click()
    tab.page.wait_for_selector("#script >> text=Hello, Ada")
    # The line where a script waits is no failure.
    tab.open("/ui/default/workflows/greet-1")
    assert "waits at line 3 of greeting.flow for timer since" in tab.page.inner_text("main")
    assert tab.page.locator("details.failure summary").all_inner_texts() == ["The line of the script"]
    # A second version, and back.
    tab.open("/ui/default/scripts/greeting")
    tab.page.get_by_label("Source").last.fill(SCRIPT.replace("Hello", "Good day"))
    tab.page.get_by_role("button", name="Deploy and activate").click()
    tab.until("document.querySelectorAll('#versions tbody tr').length === 2")
    tab.page.get_by_role("button", name="Roll back").click()
    tab.until("document.querySelectorAll('#versions tbody tr')[1].innerText.includes('current')")


def test_a_schedule_on_its_calendar(tab, living):
    tab.open("/ui/default/schedules")
    tab.page.get_by_role("link", name="nightly-report").click()
    tab.page.wait_for_selector("svg.calendar")
    assert tab.page.locator("svg.calendar .count").count() >= 20
    tab.page.get_by_role("button", name="Pause").click()
    tab.page.wait_for_selector("#status >> text=Paused")
    tab.page.get_by_role("button", name="Unpause").click()
    tab.page.wait_for_selector("#status >> text=Active")
    tab.page.get_by_role("button", name="Trigger now").click()
    tab.page.wait_for_selector("#recent tbody tr")


def test_a_schedule_is_created_paused_and_edited(tab, living):
    tab.is_refused = True
    tab.open("/ui/default/schedules")
    tab.page.locator("summary", has_text="Create schedule").click()
    form = tab.page.locator("details[open] form")
    form.get_by_label("Schedule id").fill("weekly")
    form.get_by_label("Workflow type").fill("Report")
    form.get_by_label("Task queue").fill("reports")
    form.get_by_label("Times").fill("every now and then")
    form.get_by_role("button", name="Create").click()
    tab.page.wait_for_selector(".notice.bad >> text=is no interval")
    form.get_by_label("Times").fill("0 6 * * 1\nevery 90m")
    form.get_by_label("If the workflow before").select_option(label="one waits, further ones are skipped")
    form.get_by_label("Begin paused").check()
    form.get_by_role("button", name="Create").click()
    tab.page.wait_for_url(re.compile("/schedules/weekly$"))
    assert tab.page.inner_text("#status") == "Paused"
    assert "The schedule does not act at these times" in tab.page.inner_text("#calendar")
    tab.open("/ui/default/schedules")
    assert "none while paused" in tab.page.locator("tr.paused", has_text="weekly").inner_text()
    tab.open("/ui/default/schedules/weekly")
    tab.page.locator("summary", has_text="Edit").click()
    form = tab.page.locator("details[open] form")
    assert form.get_by_label("Times").input_value() == "every 90m\n0 6 * * 1"
    form.get_by_label("Times").fill("0 7 * * 1")
    form.get_by_label("Notes").fill("an hour later")
    form.get_by_role("button", name="Save").click()
    # The page is drawn anew, and the form with its notice goes.
    tab.until("!document.querySelector('details.action[open]')")

    async def described():
        return (await living.client.get_schedule_handle("weekly").describe()).schedule

    schedule = living.call(described())
    assert (schedule.state.note, schedule.state.paused, schedule.policy.overlap.name) == ("an hour later", True, "BUFFER_ONE")
    assert not schedule.spec.intervals and schedule.spec.calendars[0].hour[0].start == 7


def test_namespaces_and_attributes(tab):
    tab.open("/ui/default/namespaces")
    tab.page.locator("form.row").get_by_label("Name").fill("Customer")
    tab.page.get_by_role("button", name="Add", exact=True).click()
    tab.page.wait_for_selector("#attributes >> text=Customer")
    tab.page.locator("#attributes tr", has_text="Customer").get_by_role("button", name="Remove").click()
    tab.until("!document.querySelector('#attributes').innerText.includes('Customer')")
    tab.page.locator("summary", has_text="New namespace").click()
    form = tab.page.locator("details[open] form")
    form.get_by_label("Name").fill("second")
    form.get_by_role("button", name="Register").click()
    tab.page.wait_for_url(re.compile("/ui/second/namespaces"))
    tab.page.locator("[data-namespace]").select_option(label="default")
    tab.page.wait_for_url(re.compile("/ui/default/namespaces"))


def test_task_queues_and_workers(tab, living):
    async def wait_for_nobody():
        await living.client.start_activity(
            "pack", id="pack-1", task_queue="packers", start_to_close_timeout=timedelta(seconds=9)
        )

    # Only an activity names this queue.
    living.call(wait_for_nobody())
    tab.open("/ui/default/task-queues")
    assert "No worker polls it" in tab.page.get_by_label("Queue packers").inner_text()
    tab.open("/ui/default/task-queues?name=orders")
    assert "orders-worker@host-1" in tab.page.inner_text("#rows")
    tab.open("/ui/default/task-queues?name=invoices")
    assert "No worker polls it" in tab.page.inner_text("#rows")
    tab.open("/ui/default/task-queues?name=segno-flow")
    assert "The server itself executes scripts" in tab.page.inner_text("#rows")
    tab.open("/ui/default/workers")
    tab.page.get_by_role("link", name="orders-worker@host-1").first.click()
    tab.page.wait_for_url(re.compile("/workers/.+"))
    assert "orders" in tab.page.inner_text("#facts") and "Active" in tab.page.inner_text("#status")
