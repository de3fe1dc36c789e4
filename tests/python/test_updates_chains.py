"""Updates along the runs of one workflow execution: an id that a run completed is answered by the runs that follow.

Temporal's server runs the handler again on each run; against it these tests are skipped.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from helpers import NAMESPACE, Env, SegnoServer, event_counts, event_names, eventually, raises
from updating import ADMITTED, COMPLETED, admit, poll, update_request, value

RETRIED = RetryPolicy(initial_interval=timedelta(milliseconds=200), backoff_coefficient=1.0)


@pytest_asyncio.fixture
async def env(env: Env, segno_only: None) -> Env:
    return env


@workflow.defn
class Chained:
    """A workflow whose updates say how it goes on: as new, by a retry, or not at all."""

    # Updates that handlers were run for, in workers of this process, by workflow id.
    handled: dict[str, list[str]] = {}

    def __init__(self) -> None:
        self.then = ""

    @workflow.run
    async def run(self, number: int = 1) -> int:
        self.number = number * 100 + workflow.info().attempt
        await workflow.wait_condition(lambda: self.then != "" and workflow.all_handlers_finished())
        if self.then == "continue":
            workflow.continue_as_new(number + 1)
        if self.then == "fail":
            raise ApplicationError("once more")
        return self.number

    @workflow.update
    async def ask(self, then: str) -> int:
        """Answers in which run and attempt it was asked."""
        info = workflow.current_update_info()
        assert info
        if not workflow.unsafe.is_replaying():
            Chained.handled.setdefault(workflow.info().workflow_id, []).append(info.id)
        await workflow.wait_condition(lambda: hasattr(self, "number"))
        self.then = then or self.then
        return self.number

    @workflow.signal
    def go(self, then: str) -> None:
        self.then = then


async def connect(server: SegnoServer, name: str) -> Env:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    return Env(address=server.address, client=client, name=name)


async def crash(server: SegnoServer, env: Env) -> None:
    """Kills the server and starts it again on the same data."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    env.client = await Client.connect(server.address, namespace=NAMESPACE)


def ask(env: Env, id: str, then: str = "") -> Any:
    """Calls for an update of the current run, under this id."""
    return asyncio.wait_for(env.handle().execute_update(Chained.ask, then, id=id), 20)


async def current_run(env: Env) -> str:
    run_id = (await env.handle().describe()).run_id
    assert run_id
    return run_id


async def next_run(env: Env, before: str) -> str:
    """The run that has followed."""

    async def follows() -> str:
        run_id = await current_run(env)
        return run_id if run_id != before else ""

    return await eventually(follows)


async def go_on(env: Env, then: str = "continue") -> str:
    """Lets another run follow; returns its id."""
    before = await current_run(env)
    await env.handle().signal(Chained.go, then)
    return await next_run(env, before)


# --- what was completed ---


async def test_a_repeat_after_continue_as_new(env: Env):
    """Its task completes the update and continues as new at the same time."""
    async with env.worker(Chained):
        handle = await env.start(Chained)
        assert await ask(env, "one", "continue") == 101
        await next_run(env, handle.first_execution_run_id or "")
        assert await ask(env, "one") == 101
        assert await ask(env, "two") == 201
        for _ in range(2):
            await go_on(env)
        assert (await ask(env, "one"), await ask(env, "two")) == (101, 201)
        assert await ask(env, "three", "end") == 401
        assert await handle.result() == 401
    assert Chained.handled[env.id] == ["one", "two", "three"]


async def test_a_repeat_after_a_retry(env: Env):
    async with env.worker(Chained):
        handle = await env.start(Chained, retry_policy=RETRIED)
        assert await ask(env, "one", "fail") == 101
        await next_run(env, handle.first_execution_run_id or "")
        assert await ask(env, "one", "fail") == 101
        assert await ask(env, "two") == 102
        assert await ask(env, "three", "end") == 102
        assert await handle.result() == 102
    assert Chained.handled[env.id] == ["one", "two", "three"]


async def test_a_repeat_after_the_chain_closed(env: Env):
    async with env.worker(Chained):
        handle = await env.start(Chained)
        assert await ask(env, "one", "continue") == 101
        await next_run(env, handle.first_execution_run_id or "")
        await env.handle().signal(Chained.go, "end")
        assert await handle.result() == 201
    assert await ask(env, "one") == 101
    polled = await poll(env.client, env.id, "one")
    assert (polled.stage, value(polled.outcome)) == (COMPLETED, 101)
    assert polled.update_ref.workflow_execution.run_id == handle.first_execution_run_id
    unknown = await raises(RPCError, ask(env, "two"))
    assert unknown.status == RPCStatusCode.NOT_FOUND
    unknown = await raises(RPCError, poll(env.client, env.id, "two"))
    assert unknown.status == RPCStatusCode.NOT_FOUND


async def test_a_poll_by_the_workflow_id(env: Env):
    async with env.worker(Chained):
        handle = await env.start(Chained)
        first = handle.first_execution_run_id or ""
        assert await ask(env, "one", "continue") == 101
        second = await next_run(env, first)
        for stage in [ADMITTED, COMPLETED]:
            polled = await poll(env.client, env.id, "one", stage)
            assert (polled.stage, value(polled.outcome)) == (COMPLETED, 101)
            assert polled.update_ref.workflow_execution.run_id == first
        assert await env.handle().get_update_handle("one", result_type=int).result() == 101
        # A poll that names a run is about that run.
        named = env.handle(run_id=second).get_update_handle("one", workflow_run_id=second)
        missing = await raises(RPCError, asyncio.wait_for(named.result(), 20))
        assert missing.status == RPCStatusCode.NOT_FOUND
        assert await event_counts(env.handle(run_id=second)) == await event_counts(env.handle())
        assert "WorkflowExecutionUpdateAccepted" not in await event_names(env.handle(run_id=second))


async def test_a_call_that_names_the_new_run_is_a_repeat_as_well(env: Env):
    async with env.worker(Chained):
        handle = await env.start(Chained)
        assert await ask(env, "one", "continue") == 101
        second = await next_run(env, handle.first_execution_run_id or "")
        assert await env.handle(run_id=second).execute_update(Chained.ask, "", id="one") == 101
    assert Chained.handled[env.id] == ["one"]


async def test_admission_of_what_an_earlier_run_completed(env: Env):
    async with env.worker(Chained):
        handle = await env.start(Chained)
        assert await ask(env, "one", "continue") == 101
        await next_run(env, handle.first_execution_run_id or "")
        again = await admit(env.client, env.id, "ask", "", id="one")
        assert (again.stage, value(again.outcome)) == (COMPLETED, 101)
        assert (await event_counts(env.handle()))["WorkflowExecutionUpdateAdmitted"] == 0


async def test_a_deleted_run_has_completed_nothing(env: Env):
    async with env.worker(Chained):
        handle = await env.start(Chained)
        first = handle.first_execution_run_id or ""
        assert (await ask(env, "one"), await ask(env, "two", "continue")) == (101, 101)
        await next_run(env, first)
        assert await ask(env, "one") == 101
        request = DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=env.execution(first))
        await env.client.workflow_service.delete_workflow_execution(request)

        async def is_gone() -> bool:
            error = await raises(RPCError, env.handle(run_id=first).describe())
            return error.status == RPCStatusCode.NOT_FOUND

        await eventually(is_gone)
        missing = await raises(RPCError, poll(env.client, env.id, "one"))
        assert missing.status == RPCStatusCode.NOT_FOUND
        assert (await ask(env, "one"), await ask(env, "one")) == (201, 201)
    assert Chained.handled[env.id] == ["one", "two", "one"]


async def test_a_new_start_knows_nothing_of_an_execution_that_ended(env: Env):
    async with env.worker(Chained):
        for _ in range(2):
            handle = await env.start(Chained)
            assert await ask(env, "one", "continue") == 101
            await next_run(env, handle.first_execution_run_id or "")
            await env.handle().signal(Chained.go, "end")
            assert await handle.result() == 201
    assert Chained.handled[env.id] == ["one", "one"]


async def test_update_with_start_of_a_workflow_that_continued(env: Env):
    def start() -> WithStartWorkflowOperation[Any, Any]:
        return WithStartWorkflowOperation(
            Chained.run,
            1,
            id=env.id,
            task_queue=env.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )

    async def both(id: str, then: str = "") -> Any:
        call = env.client.execute_update_with_start_workflow(
            Chained.ask, then, id=id, start_workflow_operation=start()
        )
        return await asyncio.wait_for(call, 20)

    async with env.worker(Chained):
        assert await both("one", "continue") == 101
        first = env.handle()
        await eventually(lambda: has_runs(env, 2))
        assert await both("one", "continue") == 101
        assert await both("two", "end") == 201
        assert await first.result() == 201
        # The execution is over, and what it completed is answered as before.
        assert (await both("one"), await both("two")) == (101, 201)
        assert await both("three", "end") == 101
    assert Chained.handled[env.id] == ["one", "two", "three"]


async def has_runs(env: Env, count: int) -> bool:
    """Whether the workflow has had so many runs."""
    found = env.client.list_workflows(f"WorkflowId = '{env.id}'")
    return len([run async for run in found]) >= count


@pytest.mark.timeout(120)
async def test_the_newest_thousand_are_known(env: Env):
    async with env.worker(Chained):
        await env.start(Chained)

        async def ask_many(prefix: str, count: int) -> set[int]:
            answers = set()
            for begin in range(0, count, 50):
                ids = [f"{prefix}{n}" for n in range(begin, min(begin + 50, count))]
                answers.update(await asyncio.gather(*[ask(env, id) for id in ids]))
            return answers

        assert await ask_many("a", 505) == {101}
        await go_on(env)
        assert await ask_many("b", 505) == {201}
        await go_on(env)
        assert {await ask(env, id) for id in ["a100", "a504"]} == {101}
        assert {await ask(env, id) for id in ["b0", "b504"]} == {201}
        # Those of the first batch are the oldest ten and forty others.
        polls = [await standing(env, f"a{n}") for n in range(50)]
        assert polls.count("forgotten") == 10
        # An older one is found in the run that completed it.
        runs = [run async for run in env.client.list_workflows(f"WorkflowId = '{env.id}'")]
        first = min(runs, key=lambda run: run.start_time).run_id
        for n in range(50):
            named = env.handle().get_update_handle(f"a{n}", workflow_run_id=first, result_type=int)
            assert await named.result() == 101


async def standing(env: Env, id: str) -> str:
    """Whether a poll by the workflow id finds an outcome."""
    try:
        await poll(env.client, env.id, id)
        return "answered"
    except RPCError as error:
        assert error.status == RPCStatusCode.NOT_FOUND
        return "forgotten"


# --- what was admitted ---


async def test_a_stored_admission_goes_to_the_retried_run(env: Env):
    """No worker has seen it before its run was out of time. Who waits for it goes on waiting."""
    handle = await env.start(Chained, retry_policy=RETRIED, run_timeout=timedelta(seconds=4))
    first = handle.first_execution_run_id or ""
    await admit(env.client, env.id, "ask", "", id="one")
    waiting = asyncio.create_task(ask(env, "one"))
    polling = asyncio.create_task(poll(env.client, env.id, "one"))
    named = asyncio.create_task(raises(RPCError, raw_update(env, "one", first)))
    second = await next_run(env, first)
    polled = await poll(env.client, env.id, "one", ADMITTED)
    assert (polled.stage, polled.update_ref.workflow_execution.run_id) == (ADMITTED, second)
    # It is the second event, before the first workflow task.
    assert (await event_names(env.handle(run_id=second)))[:2] == [
        "WorkflowExecutionStarted",
        "WorkflowExecutionUpdateAdmitted",
    ]
    # Who named the run is told that it closed.
    assert (await named).status == RPCStatusCode.RESOURCE_EXHAUSTED
    async with env.worker(Chained):
        answer = await waiting
        assert answer > 101
        assert value((await polling).outcome) == answer
        assert await ask(env, "two", "end") >= answer
    assert Chained.handled[env.id][0] == "one" and Chained.handled[env.id].count("one") == 1


async def raw_update(env: Env, id: str, run_id: str) -> Any:
    """An update of a named run, without the retries of the SDK."""
    request = update_request(env.id, "ask", "", id=id, run_id=run_id)
    return await env.client.workflow_service.update_workflow_execution(
        request, retry=False, timeout=timedelta(seconds=15)
    )


# --- crashes ---


async def test_a_repeat_after_a_kill(durable_server: SegnoServer):
    durable_server.start()
    env = await connect(durable_server, "chained-kill")
    async with env.worker(Chained):
        handle = await env.start(Chained)
        assert await ask(env, "one", "continue") == 101
        await next_run(env, handle.first_execution_run_id or "")
    await crash(durable_server, env)
    assert await ask(env, "one") == 101
    async with env.worker(Chained):
        assert await ask(env, "two", "continue") == 201
        await eventually(lambda: has_runs(env, 3))
    await crash(durable_server, env)
    polled = await poll(env.client, env.id, "two")
    assert (polled.stage, value(polled.outcome)) == (COMPLETED, 201)
    async with env.worker(Chained):
        assert (await ask(env, "one"), await ask(env, "two")) == (101, 201)
        assert await ask(env, "three", "end") == 301
    await crash(durable_server, env)
    assert [await ask(env, id) for id in ["one", "two", "three"]] == [101, 201, 301]
    assert Chained.handled[env.id] == ["one", "two", "three"]


async def test_a_stored_admission_goes_to_the_retried_run_after_a_kill(durable_server: SegnoServer):
    durable_server.start()
    env = await connect(durable_server, "moved-kill")
    handle = await env.start(Chained, retry_policy=RETRIED, run_timeout=timedelta(seconds=3))
    await admit(env.client, env.id, "ask", "", id="one")
    await crash(durable_server, env)
    # The SDK of a caller that waits calls again when the server is back.
    waiting = asyncio.create_task(ask(env, "one"))
    second = await next_run(env, handle.first_execution_run_id or "")
    await crash(durable_server, env)
    assert "WorkflowExecutionUpdateAdmitted" in await event_names(env.handle(run_id=second))
    async with env.worker(Chained):
        assert await waiting > 101
        await ask(env, "two", "end")
    assert Chained.handled[env.id].count("one") == 1
