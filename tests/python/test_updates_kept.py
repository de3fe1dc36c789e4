"""Updates beyond Temporal: admission that is stored, rejections that are remembered.

Temporal's server refuses the wait stage ADMITTED; against it these tests are skipped.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity, workflow
from temporalio.api.enums.v1 import ResetReapplyExcludeType, UpdateAdmittedEventOrigin
from temporalio.api.workflowservice.v1 import (
    ExecuteMultiOperationRequest,
    ResetWorkflowExecutionRequest,
)
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from helpers import (
    NAMESPACE,
    Env,
    SegnoServer,
    event_counts,
    event_names,
    eventually,
    find_events,
    raises,
)
from updating import (
    ACCEPTED,
    ADMITTED,
    COMPLETED,
    Basket,
    admit,
    poll,
    update_request,
    value,
    worker_process,
)


@pytest_asyncio.fixture
async def env(env: Env) -> Env:
    """Skips the test if the server does not store admissions."""
    refused = await raises(RPCError, admit(env.client, f"{env.id}-missing", "add", 1))
    if refused.status == RPCStatusCode.PERMISSION_DENIED:
        pytest.skip("the server does not store admissions")
    return env


async def connect(server: SegnoServer, name: str) -> Env:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    return Env(address=server.address, client=client, name=name)


async def crash(server: SegnoServer, env: Env) -> None:
    """Kills the server and starts it again on the same data."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    env.client = await Client.connect(server.address, namespace=NAMESPACE)


def result(handle: WorkflowHandle[Any, Any], id: str) -> Any:
    """The answer to the update of that id."""
    return asyncio.wait_for(handle.get_update_handle(id, result_type=int).result(), 20)


# --- admission ---


async def test_admission_needs_no_worker(env: Env):
    handle = await env.start(Basket)
    admitted = await admit(env.client, env.id, "add", 5, id="one")
    assert admitted.stage == ADMITTED
    assert not admitted.HasField("outcome")
    assert admitted.update_ref.update_id == "one"
    assert admitted.update_ref.workflow_execution.run_id == handle.first_execution_run_id
    [event] = await find_events(handle, "WorkflowExecutionUpdateAdmitted")
    assert event.request.meta.update_id == "one"
    assert event.request.input.name == "add"
    assert event.origin == UpdateAdmittedEventOrigin.UPDATE_ADMITTED_EVENT_ORIGIN_UNSPECIFIED
    assert (await poll(env.client, env.id, "one", ADMITTED)).stage == ADMITTED
    async with env.worker(Basket):
        assert await result(handle, "one") == 1
        polled = await poll(env.client, env.id, "one")
        assert (polled.stage, value(polled.outcome)) == (COMPLETED, 1)
        # The admission says what was asked; the acceptance need not.
        [acceptance] = await find_events(handle, "WorkflowExecutionUpdateAccepted")
        assert acceptance.protocol_instance_id == "one"
        assert not acceptance.HasField("accepted_request")
        # It ran in the first task of the workflow.
        assert (await event_counts(handle))["WorkflowTaskCompleted"] == 1
        await handle.signal(Basket.finish)
        assert await handle.result() == [5]


async def test_admission_to_a_worker_that_is_there(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        for n in range(10):
            assert (await admit(env.client, env.id, "add", n, id=f"u{n}")).stage >= ADMITTED
        for n in range(10):
            assert await result(handle, f"u{n}") == n + 1
        await handle.signal(Basket.finish)
        assert await handle.result() == list(range(10))
    assert (await event_counts(handle))["WorkflowExecutionUpdateAdmitted"] == 10


async def test_one_id_is_admitted_once(env: Env):
    handle = await env.start(Basket)
    for item in [1, 1, 2]:
        assert (await admit(env.client, env.id, "add", item, id="one")).stage == ADMITTED
    assert (await event_counts(handle))["WorkflowExecutionUpdateAdmitted"] == 1
    call = asyncio.create_task(handle.execute_update(Basket.add, 3, id="one"))
    await asyncio.sleep(0.2)
    async with env.worker(Basket):
        assert await call == 1
        # Admission of what is answered: the answer comes at once.
        again = await admit(env.client, env.id, "add", 4, id="one")
        assert (again.stage, value(again.outcome)) == (COMPLETED, 1)
        await handle.signal(Basket.finish)
        assert await handle.result() == [1]
    assert (await event_counts(handle))["WorkflowExecutionUpdateAccepted"] == 1
    again = await admit(env.client, env.id, "add", 4, id="one")
    assert (again.stage, value(again.outcome)) == (COMPLETED, 1), "also after the end"


async def test_admission_of_what_is_accepted(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        await admit(env.client, env.id, "add_when_opened", 1, id="one")
        assert (await poll(env.client, env.id, "one", ACCEPTED)).stage == ACCEPTED
        again = await admit(env.client, env.id, "add_when_opened", 1, id="one")
        assert (again.stage, again.HasField("outcome")) == (ACCEPTED, False)
        await handle.signal(Basket.open)
        assert await result(handle, "one") == 1


async def test_stored_and_unstored_updates_keep_their_order(env: Env):
    handle = await env.start(Basket)
    calls = []
    for n in range(0, 6, 2):
        await admit(env.client, env.id, "add", n)
        calls.append(asyncio.create_task(handle.execute_update(Basket.add, n + 1, id=f"u{n + 1}")))
        known = lambda: poll(env.client, env.id, f"u{n + 1}", ADMITTED)
        assert (await eventually(known)).stage == ADMITTED
    async with env.worker(Basket):
        await asyncio.gather(*calls)
        content = await handle.query(Basket.content)
        assert [item for item in content if item % 2 == 0] == [0, 2, 4]
        assert [item for item in content if item % 2 == 1] == [1, 3, 5]
    # Which come first is the SDK's choice. It must make the same one when it replays.
    async with env.worker(Basket, max_cached_workflows=0):
        assert await handle.query(Basket.content) == content


async def test_an_admitted_update_that_is_rejected(env: Env):
    handle = await env.start(Basket)
    await admit(env.client, env.id, "add", -1, id="bad")
    async with env.worker(Basket):
        for _ in range(2):
            refused = await raises(WorkflowUpdateFailedError, result(handle, "bad"))
            assert "negative" in str(refused.cause)
        call = handle.execute_update(Basket.add, 1, id="bad")
        assert "negative" in str((await raises(WorkflowUpdateFailedError, call)).cause)
        assert Basket.validated[env.id] == [-1]
        counts = await event_counts(handle)
        assert counts["WorkflowExecutionUpdateAdmitted"] == 1
        assert counts["WorkflowExecutionUpdateAccepted"] == 0
        assert await handle.execute_update(Basket.add, 1) == 1


async def test_admission_that_is_refused_leaves_no_event(env: Env):
    handle = await env.start(Basket)
    before = await event_names(handle)
    for name, id in [("", "no-name"), ("add", "x" * 1001)]:
        refused = await raises(RPCError, admit(env.client, env.id, name, 1, id=id))
        assert refused.status == RPCStatusCode.INVALID_ARGUMENT
    assert await event_names(handle) == before
    await handle.terminate()
    refused = await raises(RPCError, admit(env.client, env.id, "add", 1))
    assert refused.status == RPCStatusCode.NOT_FOUND
    refused = await raises(RPCError, admit(env.client, f"{env.id}-other", "add", 1))
    assert refused.status == RPCStatusCode.NOT_FOUND


async def test_an_admitted_update_whose_workflow_is_terminated(env: Env):
    handle = await env.start(Basket)
    await admit(env.client, env.id, "add", 1, id="one")
    waiting = asyncio.create_task(raises(RPCError, poll(env.client, env.id, "one")))
    await asyncio.sleep(0.2)
    await handle.terminate()
    for error in [await waiting, await raises(RPCError, poll(env.client, env.id, "one"))]:
        assert error.status == RPCStatusCode.NOT_FOUND
        assert error.message == "workflow update was aborted by closing workflow"


@workflow.defn
class Hasty:
    """Ends after a local activity; its result is how many updates it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.execute_local_activity("hold", start_to_close_timeout=timedelta(seconds=10))
        return self.seen

    @workflow.update
    async def add(self, item: int) -> int:
        self.seen += 1
        return item


async def test_a_workflow_does_not_end_over_an_update_admitted_meanwhile(env: Env):
    """Like a signal: the task that would close the workflow is done again, with the update."""
    held, release = asyncio.Event(), asyncio.Event()

    @activity.defn
    async def hold() -> None:
        held.set()
        await release.wait()

    async with env.worker(Hasty, hold):
        handle = await env.start(Hasty)
        await held.wait()
        await admit(env.client, env.id, "add", 7, id="one")
        release.set()
        assert await handle.result() == 1
        assert await result(handle, "one") == 7


async def test_admission_with_start(env: Env):
    operation = ExecuteMultiOperationRequest(namespace=NAMESPACE)
    operation.operations.add().start_workflow.CopyFrom(env.raw_start_request("Basket"))
    operation.operations.add().update_workflow.CopyFrom(
        update_request(env.id, "add", 3, id="one", stage=ADMITTED)
    )
    answer = await env.client.workflow_service.execute_multi_operation(operation)
    started, admitted = answer.responses
    assert started.start_workflow.started
    assert admitted.update_workflow.stage == ADMITTED
    handle = env.handle(run_id=started.start_workflow.run_id)
    assert (await event_counts(handle))["WorkflowExecutionUpdateAdmitted"] == 1
    async with env.worker(Basket):
        assert await result(handle, "one") == 1
        await handle.signal(Basket.finish)
        assert await handle.result() == [3]


async def test_stored_updates_count_as_in_flight(env: Env):
    handle = await env.start(Basket)
    for n in range(100):
        await admit(env.client, env.id, "add", n, id=f"u{n}")
    request = update_request(env.id, "add", 100, stage=ADMITTED)
    refused = await raises(
        RPCError, env.client.workflow_service.update_workflow_execution(request, retry=False)
    )
    assert refused.status == RPCStatusCode.RESOURCE_EXHAUSTED
    assert (await admit(env.client, env.id, "add", 0, id="u0")).stage == ADMITTED
    assert (await event_counts(handle))["WorkflowExecutionUpdateAdmitted"] == 100
    async with env.worker(Basket):
        assert await result(handle, "u99") == 100
        assert await handle.execute_update(Basket.add, 100) == 101


async def test_reset_keeps_what_was_admitted(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        assert await handle.execute_update(Basket.add, 1, id="one") == 1
    await admit(env.client, env.id, "add", 2, id="two")

    async def reset(*excluded: Any) -> WorkflowHandle[Any, Any]:
        response = await env.client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=NAMESPACE,
                workflow_execution=env.execution(handle.first_execution_run_id),
                workflow_task_finish_event_id=4,
                request_id=f"{env.id}-{len(excluded)}",
                reset_reapply_exclude_types=excluded,
            )
        )
        return env.handle(run_id=response.run_id)

    again = await reset()
    async with env.worker(Basket):
        assert await result(again, "one") == 1
        assert await result(again, "two") == 2
        assert (await event_counts(again))["WorkflowExecutionUpdateAdmitted"] == 2
        without = await reset(ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE)
        assert await without.query(Basket.content) == []
        assert (await event_counts(without))["WorkflowExecutionUpdateAdmitted"] == 0


# --- crashes ---


async def test_admission_survives_a_kill_and_needs_no_worker(durable_server: SegnoServer):
    durable_server.start()
    env = await connect(durable_server, "kept")
    await env.start(Basket)
    for n in range(50):
        assert (await admit(env.client, env.id, "add", n, id=f"u{n}")).stage == ADMITTED
    for _ in range(2):
        await crash(durable_server, env)
        counts = await event_counts(env.handle())
        assert counts["WorkflowExecutionUpdateAdmitted"] == 50
        assert (await poll(env.client, env.id, "u7", ADMITTED)).stage == ADMITTED
    async with env.worker(Basket):
        for n in range(50):
            assert await result(env.handle(), f"u{n}") == n + 1
        await env.handle().signal(Basket.finish)
        assert await env.handle().result() == list(range(50))


async def test_an_update_in_memory_that_is_then_admitted_survives_a_kill(durable_server: SegnoServer):
    durable_server.start()
    env = await connect(durable_server, "made-durable")
    handle = await env.start(Basket)
    call = asyncio.create_task(handle.execute_update(Basket.add, 1, id="one"))
    known = lambda: poll(env.client, env.id, "one", ADMITTED)
    assert (await eventually(known)).stage == ADMITTED
    assert (await event_counts(handle))["WorkflowExecutionUpdateAdmitted"] == 0
    await admit(env.client, env.id, "add", 1, id="one")
    assert (await event_counts(handle))["WorkflowExecutionUpdateAdmitted"] == 1
    await crash(durable_server, env)
    async with env.worker(Basket):
        # The call of old was repeated by its client and found the same update.
        assert await asyncio.wait_for(call, 20) == 1
        assert await result(env.handle(), "one") == 1
        await env.handle().signal(Basket.finish)
        assert await env.handle().result() == [1]


async def test_acceptance_and_answer_survive_a_kill(durable_server: SegnoServer):
    durable_server.start()
    env = await connect(durable_server, "accepted")
    async with env.worker(Basket):
        handle = await env.start(Basket)
        assert await handle.execute_update(Basket.add, 1, id="answered") == 1
        await admit(env.client, env.id, "add_when_opened", 2, id="accepted")
        assert (await poll(env.client, env.id, "accepted", ACCEPTED)).stage == ACCEPTED
    await crash(durable_server, env)
    assert await result(env.handle(), "answered") == 1
    assert (await poll(env.client, env.id, "accepted", ACCEPTED)).stage == ACCEPTED
    async with env.worker(Basket):
        await env.handle().signal(Basket.open)
        assert await result(env.handle(), "accepted") == 2
        await env.handle().signal(Basket.finish)
        assert await env.handle().result() == [1, 2]


async def test_a_client_repeats_its_call_after_a_kill(durable_server: SegnoServer):
    """What waited in memory alone is gone; the SDK calls again under the same id."""
    durable_server.start()
    env = await connect(durable_server, "repeated")
    handle = await env.start(Basket)
    calls = [asyncio.create_task(handle.execute_update(Basket.add, n, id=f"u{n}")) for n in range(5)]
    known = lambda: poll(env.client, env.id, "u4", ADMITTED)
    await eventually(known)
    await crash(durable_server, env)
    async with env.worker(Basket):
        assert sorted(await asyncio.wait_for(asyncio.gather(*calls), 30)) == [1, 2, 3, 4, 5]
        await env.handle().signal(Basket.finish)
        assert sorted(await env.handle().result()) == [0, 1, 2, 3, 4]


async def test_admission_while_a_worker_is_frozen_survives_a_kill(durable_server: SegnoServer):
    """The update is with a worker, but not answered, when the server is killed."""
    durable_server.start()
    env = await connect(durable_server, "frozen")
    async with worker_process(env) as worker:
        handle = await env.start(Basket, task_timeout=timedelta(seconds=2))
        assert await handle.execute_update(Basket.add, 1) == 1
        worker.freeze()
        await admit(env.client, env.id, "add", 2, id="two")
        await asyncio.sleep(0.3)
        await crash(durable_server, env)
    async with env.worker(Basket):
        assert await result(env.handle(), "two") == 2
        await env.handle().signal(Basket.finish)
        assert await env.handle().result() == [1, 2]


async def test_a_stored_update_that_was_rejected_stays_so_after_a_kill(
    durable_server: SegnoServer,
):
    """Its admission was stored, and so is its rejection: the same id never runs again."""
    durable_server.start()
    env = await connect(durable_server, "rejected")
    async with env.worker(Basket):
        handle = await env.start(Basket)
        await admit(env.client, env.id, "add", -1, id="bad")
        await raises(WorkflowUpdateFailedError, result(handle, "bad"))
    await crash(durable_server, env)
    refused = await raises(WorkflowUpdateFailedError, result(env.handle(), "bad"))
    assert "negative" in str(refused.cause)
    async with env.worker(Basket):
        assert await env.handle().execute_update(Basket.add, 1) == 1
        assert (await admit(env.client, env.id, "add", 2, id="bad")).outcome.HasField("failure")
        assert Basket.validated[env.id] == [-1, 1], "the worker has heard of it once"
    async with env.worker(Basket, max_cached_workflows=0):
        assert await env.handle().query(Basket.content) == [1]
        await env.handle().signal(Basket.finish)
        assert await env.handle().result() == [1]


# --- rejections ---


async def test_a_rejection_is_remembered(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        await handle.execute_update(Basket.add, 0)
        for item in [-1, -1, 1]:  # with an item that would be fine, it is still the same update
            refused = await raises(
                WorkflowUpdateFailedError, handle.execute_update(Basket.add, item, id="bad")
            )
            assert "negative" in str(refused.cause)
        refused = await raises(WorkflowUpdateFailedError, result(handle, "bad"))
        assert "negative" in str(refused.cause)
        assert (await admit(env.client, env.id, "add", -1, id="bad")).outcome.HasField("failure")
        assert Basket.validated[env.id] == [0, -1], "the worker has heard of it once"
        await handle.signal(Basket.finish)
        assert await handle.result() == [0]
        refused = await raises(WorkflowUpdateFailedError, result(handle, "bad"))
        assert "negative" in str(refused.cause), "also after the end"


async def test_the_last_hundred_ends_are_remembered(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)

        async def reject(n: int) -> None:
            await raises(WorkflowUpdateFailedError, handle.execute_update(Basket.add, -n, id=f"u{n}"))

        for n in range(1, 101):
            await reject(n)
        await raises(WorkflowUpdateFailedError, result(handle, "u1"))
        await reject(101)
        forgotten = await raises(RPCError, poll(env.client, env.id, "u1"))
        assert forgotten.status == RPCStatusCode.NOT_FOUND
        await raises(WorkflowUpdateFailedError, result(handle, "u2"))
