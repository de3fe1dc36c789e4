"""Continue-as-new."""

from __future__ import annotations

import time

from ..build import Fields, command, complete, fields, metadata, payload, payloads, retry, seconds
from ..harness import Session
from . import scenario

# A run at least this old continues without back-off.
OLD_ENOUGH = 1.2


def again(**more: object) -> Fields:
    """A ContinueAsNewWorkflowExecution command."""
    return command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", **more)


@scenario
def plain(s: Session) -> None:
    """An older run continues at once: both histories, description of both."""
    first = s.start(input=payloads("a"))
    time.sleep(OLD_ENOUGH)
    s.run_task(again(input=payloads("b")))
    s.history(run=first)
    s.history()
    s.describe(run=first)
    s.describe()
    s.run_task(complete())


@scenario
def young(s: Session) -> None:
    """A run younger than a second: the new run's first task waits for the rest of it."""
    first = s.begun(again())
    s.wait_event("workflow_task_scheduled")
    s.history(run=first)
    s.history()
    s.run_task(complete())
    s.describe(run=first)


@scenario
def changed(s: Session) -> None:
    """Everything that can change, changes."""
    first = s.start(memo=fields(m=1), retry_policy=retry(1))
    time.sleep(OLD_ENOUGH)
    s.run_task(
        again(
            workflow_type={"name": "other type"},
            task_queue={"name": s.name("other")},
            input=payloads("b"),
            workflow_run_timeout=seconds(50),
            workflow_task_timeout=seconds(6),
            retry_policy=retry(3),
            header=fields(h=2),
            memo=fields(m=2),
            search_attributes={"indexed_fields": {"TemporalChangeVersion": payload(["v"])}},
        )
    )
    s.history(run=first)
    s.history()
    s.run_task(complete(), queue="other")


@scenario
def inherited(s: Session) -> None:
    """What is not named is inherited, or not."""
    first = s.start(
        memo=fields(m=1),
        header=fields(h=1),
        retry_policy=retry(1, maximum_attempts=2),
        workflow_execution_timeout=seconds(100),
        workflow_run_timeout=seconds(50),
        workflow_task_timeout=seconds(6),
        user_metadata=metadata("sum"),
        priority={"priority_key": 3},
        search_attributes={"indexed_fields": {"TemporalChangeVersion": payload(["v"])}},
    )
    time.sleep(OLD_ENOUGH)
    s.run_task(again())
    s.history(run=first)
    s.history()
    s.describe()


@scenario
def backoff(s: Session) -> None:
    """A requested back-off delays the new run's first task."""
    s.start()
    time.sleep(OLD_ENOUGH)
    s.run_task(again(backoff_start_interval=seconds(60)))
    s.history()
    s.describe()


@scenario
def twice(s: Session) -> None:
    """The third run knows the first one."""
    s.begun(again())
    s.run_task(again())
    s.run_task(complete())
    s.history()


@scenario
def signal_and_ids(s: Session) -> None:
    """Signals without run id go to the new run; terminate guarded by the first run id works."""
    first = s.begun(again())
    s.wait_event("workflow_task_scheduled")
    s.signal()
    s.signal(run=first)
    s.terminate(first_execution_run_id=first)
    s.wait_event("workflow_execution_terminated")
    s.describe()


@scenario
def with_pending(s: Session) -> None:
    """An open activity does not follow into the new run."""
    first = s.begun(s.activity(), again())
    s.history(run=first)
    s.describe(run=first)
    s.by_id("RespondActivityTaskCompletedById")


@scenario
def result_chain(s: Session) -> None:
    """The close event of the old run, by filter, tells the new run."""
    first = s.begun(again())
    s.history(run=first, history_event_filter_type="HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT", wait_new_event=True)


@scenario
def priority_kept(s: Session) -> None:
    """The next run has the priority of the one before."""
    first = s.begun(again(), priority={"priority_key": 2, "fairness_key": "tenant"})
    s.wait_new_run(first)
    s.history()
    s.describe()
