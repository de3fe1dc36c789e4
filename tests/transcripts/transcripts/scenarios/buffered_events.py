"""Events that arrive while a workflow task is started."""

from __future__ import annotations

import time

from ..build import big, command, complete, failure, fail, payloads, seconds, timer
from ..harness import Session
from . import scenario


@scenario
def signal(s: Session) -> None:
    """A signal during a started task is invisible until the completion, then comes after its events."""
    s.start()
    task = s.poll()
    s.signal(input=payloads(1))
    s.history()
    s.complete(task, timer("t", 60))
    s.history()


@scenario
def order(s: Session) -> None:
    """Activity completion, signal and fired timer: closing events of activities move to the end."""
    s.begun(s.activity(), timer("t", 3))
    activity = s.poll_activity()
    s.signal("wake")
    task = s.poll()
    s.complete_activity(activity, "done")
    s.signal("one")
    time.sleep(3.5)
    s.signal("two")
    s.history()
    s.complete(task, timer("t2", 60))
    s.history()


@scenario
def activity_started(s: Session) -> None:
    """An activity picked up and completed during a started task."""
    s.begun(s.activity())
    s.signal()
    task = s.poll()
    s.complete_activity(s.poll_activity(), 1)
    s.signal("later")
    s.complete(task)
    s.history()
    s.poll()


@scenario
def activity_failed(s: Session) -> None:
    """An activity failing during a started task."""
    s.begun(s.activity())
    s.signal()
    task = s.poll()
    s.fail_activity(s.poll_activity(), failure("no", non_retryable=True))
    s.complete(task)
    s.history()


@scenario
def cancel_request(s: Session) -> None:
    """A cancel request during a started task."""
    s.start()
    task = s.poll()
    s.cancel()
    s.describe()
    s.complete(task)
    s.history()


@scenario
def unhandled_complete(s: Session) -> None:
    """Completing over a buffered signal fails the task; the next one succeeds."""
    s.start()
    task = s.poll()
    s.signal()
    s.complete(task, complete())
    s.history()
    s.run_task(complete())
    s.history()


@scenario
def unhandled_each_close(s: Session) -> None:
    """Fail, cancel and continue-as-new over a buffered signal are unhandled, too."""
    closers = (fail(), command("CANCEL_WORKFLOW_EXECUTION"), command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION"))
    for number, closer in enumerate(closers, 1):
        wf = f"wf-{number}"
        s.start(wf, queue=wf)
        task = s.poll(wf)
        s.signal(wf=wf)
        s.complete(task, closer)
        s.history(wf)


@scenario
def unhandled_return_new(s: Session) -> None:
    """Whether the inline new task comes with an unhandled completion."""
    s.start()
    task = s.poll()
    s.signal()
    s.complete(task, complete(), return_new_workflow_task=True)
    s.history()


@scenario
def closing_refuses_signals(s: Session) -> None:
    """After an unhandled completion, signals during the next task."""
    s.start()
    task = s.poll()
    s.signal("one")
    s.complete(task, complete())
    task = s.poll()
    s.signal("two")
    s.complete(task, complete())
    s.history()


@scenario
def fail_task(s: Session) -> None:
    """A failed task flushes the buffer and the next attempt is normal."""
    s.start()
    task = s.poll()
    s.signal()
    s.fail_task(task)
    s.history()
    s.poll()


@scenario
def task_timeout(s: Session) -> None:
    """A timed-out task flushes the buffer."""
    s.start(workflow_task_timeout=seconds(1))
    s.poll()
    s.signal()
    s.poll()
    s.history()


@scenario
def transient_signal(s: Session) -> None:
    """A signal during a started transient task."""
    s.start()
    s.fail_task(s.poll())
    task = s.poll()
    s.signal()
    s.history()
    s.complete(task, timer("t", 60))
    s.history()


@scenario
def transient_fail_with_signal(s: Session) -> None:
    """A transient task that fails with a buffered signal."""
    s.start()
    s.fail_task(s.poll())
    task = s.poll()
    s.signal()
    s.fail_task(task)
    s.history()
    s.poll()


@scenario
def cancel_fired_timer(s: Session) -> None:
    """Cancelling a timer whose firing is buffered takes the firing away and allows completion."""
    s.begun(timer("t", 2))
    s.signal()
    task = s.poll()
    time.sleep(3)
    s.complete(task, command("CANCEL_TIMER", timer_id="t"), complete())
    s.history()


@scenario
def hundred_and_one_signals(s: Session) -> None:
    """The 101st buffered signal force-fails the task."""
    s.start(workflow_task_timeout=seconds(60))
    task = s.poll()
    for _ in range(101):
        s.silent("SignalWorkflowExecution", workflow_execution=s.execution(), signal_name="x", identity="caller")
    s.history(maximum_page_size=1000)
    s.complete(task)
    s.describe()


@scenario
def terminate(s: Session) -> None:
    """Terminating with a started task and a buffered signal."""
    s.start()
    task = s.poll()
    s.signal()
    s.terminate()
    s.history()
    s.complete(task)


@scenario
def terminate_transient(s: Session) -> None:
    """Terminating with a started transient task and a buffered signal."""
    s.start()
    s.fail_task(s.poll())
    s.poll()
    s.signal()
    s.terminate()
    s.history()


@scenario
def run_timeout(s: Session) -> None:
    """A run timing out with a started task and a buffered signal."""
    s.start(workflow_run_timeout=seconds(3))
    s.poll()
    s.signal()
    s.wait_event("workflow_execution_timed_out")
    s.history()


@scenario
def two_mebibytes_of_signals(s: Session) -> None:
    """Buffered signals of more than 2 MiB together force-fail the task; none is lost."""
    s.start(workflow_task_timeout=seconds(60))
    task = s.poll()
    for n in range(3):
        s.signal(f"s{n}", input=big(0.8))
    s.history()
    s.complete(task)
    s.describe()


def signalled(s: Session) -> None:
    """Starts `wf`, completes its first task, and signals it, which makes another task."""
    s.begun()
    s.signal()


@scenario
def terminate_signal_before_task(s: Session) -> None:
    """Termination, signal before the regular task started: the task fails, nothing else was waiting."""
    signalled(s)
    task = s.poll()
    s.terminate()
    s.history()
    s.complete(task)


@scenario
def terminate_signal_after_task(s: Session) -> None:
    """Termination, signal after the regular task started."""
    signalled(s)
    s.poll()
    s.signal("later")
    s.terminate()
    s.history()


@scenario
def terminate_signal_and_failed_task(s: Session) -> None:
    """Termination, signal after the regular task started, which then failed."""
    signalled(s)
    task = s.poll()
    s.signal("later")
    s.fail_task(task)
    s.history()
    s.terminate()
    s.history()


@scenario
def terminate_signal_before_transient(s: Session) -> None:
    """Termination, signal before the transient task started: that task is a normal one then."""
    signalled(s)
    s.fail_task(s.poll())
    s.signal("later")
    s.poll()
    s.terminate()
    s.history()


@scenario
def terminate_signal_after_transient(s: Session) -> None:
    """Termination, signal after the transient task started: its events vanish, the signal is written."""
    signalled(s)
    s.fail_task(s.poll())
    s.poll()
    s.signal("later")
    s.history()
    s.terminate()
    s.history()


@scenario
def terminate_signal_and_failed_transient(s: Session) -> None:
    """Termination, signal after the transient task started, which then failed."""
    signalled(s)
    s.fail_task(s.poll())
    task = s.poll()
    s.signal("later")
    s.fail_task(task)
    s.history()
    s.terminate()
    s.history()


@scenario
def transient_timed_out_with_signal(s: Session) -> None:
    """Transient task times out with a buffered signal: the next task is normal, and the one after it attempt 2."""
    s.start(workflow_task_timeout=seconds(1))
    s.fail_task(s.poll())
    s.poll()
    s.signal()
    s.poll()
    s.history()
    s.wait_event("workflow_task_timed_out", count=1)
    task = s.poll()
    s.history()
    s.complete(task, complete())
    s.history()
