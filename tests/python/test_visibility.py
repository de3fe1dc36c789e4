"""Finding workflows: lists, counts, search attributes, pages, and what only Segno can search."""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, RemoveSearchAttributesRequest
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from flows import CallActivity, Echo, Fails, Waiter, fail_until
from helpers import NAMESPACE, Env, SegnoServer, eventually

TYPES = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    "Text": IndexedValueType.INDEXED_VALUE_TYPE_TEXT,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
    "Bool": IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
    "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
}


async def add_attributes(client: Client, **names: str) -> None:
    """Adds custom search attributes; those that are there already stay."""
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=NAMESPACE,
                search_attributes={name: TYPES[kind] for name, kind in names.items()},
            )
        )
    except RPCError as error:
        assert error.status == RPCStatusCode.ALREADY_EXISTS, error


async def found(env: Env, filter: str, order: str = "", **options) -> list[str]:
    """Ids of this test's workflows that fit, without the part that all share."""
    query = f"TaskQueue = '{env.task_queue}'" + (f" AND ({filter})" if filter else "") + order
    runs = [run async for run in env.client.list_workflows(query, **options)]
    return [run.id.removeprefix(f"{env.id}-") for run in runs]


async def start(env: Env, name: str, *args, flow=Echo, **options):
    return await env.start(flow, *args, id=f"{env.id}-{name}", **options)


# --- what a call did is there ---


async def test_a_list_shows_what_a_call_just_did(env: Env):
    for n in range(20):
        handle = await start(env, str(n))
        assert str(n) in await found(env, "ExecutionStatus = 'Running'")
        await handle.terminate()
        assert str(n) in await found(env, "ExecutionStatus = 'Terminated'")
        assert str(n) not in await found(env, "ExecutionStatus = 'Running'")


async def test_open_first_then_last_closed(env: Env):
    handles = {name: await start(env, name) for name in ["a", "b", "c", "d"]}
    await handles["c"].terminate()
    await handles["a"].terminate()
    assert await found(env, "") == ["d", "b", "a", "c"]


async def test_count_and_groups(env: Env):
    async with env.worker(Echo, Fails, Waiter):
        for n in range(3):
            await (await start(env, f"done-{n}")).result()
        with pytest.raises(Exception):
            await (await start(env, "bad", flow=Fails)).result()
        await start(env, "waits", flow=Waiter)
    mine = f"TaskQueue = '{env.task_queue}'"
    assert (await env.client.count_workflows(mine)).count == 5
    grouped = await env.client.count_workflows(f"{mine} GROUP BY ExecutionStatus")
    assert grouped.count == 5
    groups = {group.group_values[0]: group.count for group in grouped.groups}
    assert groups == {"Completed": 3, "Failed": 1, "Running": 1}
    by_type = await env.client.count_workflows(f"{mine} GROUP BY WorkflowType")
    assert {g.group_values[0]: g.count for g in by_type.groups} == {"Echo": 3, "Fails": 1, "Waiter": 1}


# --- custom attributes ---


async def test_every_type_of_custom_attribute(env: Env):
    await add_attributes(
        env.client,
        VisKeyword="Keyword",
        VisList="KeywordList",
        VisText="Text",
        VisInt="Int",
        VisDouble="Double",
        VisBool="Bool",
        VisTime="Datetime",
    )
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
    keys = [
        (SearchAttributeKey.for_keyword("VisKeyword"), "red"),
        (SearchAttributeKey.for_keyword_list("VisList"), ["x", "y"]),
        (SearchAttributeKey.for_text("VisText"), "The quick brown fox"),
        (SearchAttributeKey.for_int("VisInt"), 42),
        (SearchAttributeKey.for_float("VisDouble"), 2.5),
        (SearchAttributeKey.for_bool("VisBool"), True),
        (SearchAttributeKey.for_datetime("VisTime"), moment),
    ]
    await start(
        env, "one", search_attributes=TypedSearchAttributes([SearchAttributePair(k, v) for k, v in keys])
    )
    await start(env, "two")
    for filter in [
        "VisKeyword = 'red'",
        "VisKeyword STARTS_WITH 're'",
        "VisKeyword IN ('blue', 'red')",
        "VisList = 'y'",
        "VisList IN ('z', 'x')",
        "VisText = 'QUICK'",
        "VisText = 'slow fox'",
        "VisInt = 42",
        "VisInt > 41 AND VisInt <= 42",
        "VisInt BETWEEN 40 AND 43",
        "VisInt IN (1, 42)",
        "VisDouble = 2.5",
        "VisDouble < 3",
        "VisBool = true",
        "VisTime = '2024-05-06T07:08:09Z'",
        "VisTime > '2024-05-06T09:08:08+02:00'",
        "`VisInt` = 42",
        "VisInt IS NOT NULL",
        # Beyond Temporal.
        "VisKeyword LIKE 'r_d'",
        "VisText LIKE '%quick brown%'",
        "VisList LIKE 'x%'",
    ]:
        assert await found(env, filter) == ["one"], filter
    for filter in ["VisKeyword IS NULL", "VisInt IS NULL", "VisList IS NULL", "VisText IS NULL"]:
        assert await found(env, filter) == ["two"], filter
    for filter in ["VisKeyword = 'Red'", "VisText = 'slow'", "VisInt != 42", "VisBool = false"]:
        assert await found(env, filter) == [], filter


async def test_many_attributes_are_usable_at_once(env: Env):
    tag = uuid.uuid4().hex[:8]
    names = {f"Many{tag}x{n}": "Keyword" for n in range(60)}
    await add_attributes(env.client, **names)
    last = SearchAttributeKey.for_keyword(f"Many{tag}x59")
    await start(env, "one", search_attributes=TypedSearchAttributes([SearchAttributePair(last, "v")]))
    assert await found(env, f"Many{tag}x59 = 'v'") == ["one"]


async def test_a_removed_attribute_is_unknown_and_comes_back_empty(env: Env):
    name = f"Gone{uuid.uuid4().hex[:8]}"
    await add_attributes(env.client, **{name: "Keyword"})
    key = SearchAttributeKey.for_keyword(name)
    await start(env, "one", search_attributes=TypedSearchAttributes([SearchAttributePair(key, "v")]))
    assert await found(env, f"{name} = 'v'") == ["one"]
    await env.client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(namespace=NAMESPACE, search_attributes=[name])
    )
    with pytest.raises(RPCError) as refused:
        await found(env, f"{name} = 'v'")
    assert refused.value.status == RPCStatusCode.INVALID_ARGUMENT
    await add_attributes(env.client, **{name: "Int"})
    assert await found(env, f"{name} IS NULL") == ["one"]


@workflow.defn
class Upserts:
    """Sets an attribute when told to."""

    def __init__(self) -> None:
        self.values: list[int | None] = []

    @workflow.run
    async def run(self) -> None:
        while True:
            await workflow.wait_condition(lambda: bool(self.values))
            value = self.values.pop(0)
            key = SearchAttributeKey.for_int("VisInt")
            workflow.upsert_search_attributes([key.value_unset() if value is None else key.value_set(value)])
            if value is None:
                return

    @workflow.signal
    def put(self, value: int | None) -> None:
        self.values.append(value)


async def test_upserted_attributes_follow(env: Env):
    await add_attributes(env.client, VisInt="Int")
    async with env.worker(Upserts):
        handle = await start(env, "one", flow=Upserts)
        for value in [5, 6]:
            await handle.signal(Upserts.put, value)

            async def is_found(value: int = value) -> bool:
                return await found(env, f"VisInt = {value}") == ["one"]

            await eventually(is_found)
        assert await found(env, "VisInt = 5") == []
        await handle.signal(Upserts.put, None)
        await handle.result()
    assert await found(env, "VisInt IS NULL") == ["one"]


# --- order and pages ---


async def test_order_by_any_attribute(env: Env):
    await add_attributes(env.client, VisInt="Int")
    key = SearchAttributeKey.for_int("VisInt")
    for name, value in [("b", 2), ("c", 3), ("a", 1)]:
        await start(env, name, search_attributes=TypedSearchAttributes([SearchAttributePair(key, value)]))
    await start(env, "none")
    assert await found(env, "", " ORDER BY VisInt") == ["a", "b", "c", "none"]
    assert await found(env, "", " ORDER BY VisInt DESC") == ["c", "b", "a", "none"]
    assert await found(env, "VisInt > 1", " ORDER BY VisInt ASC") == ["b", "c"]
    assert await found(env, "", " ORDER BY WorkflowId") == ["a", "b", "c", "none"]
    assert await found(env, "", " ORDER BY StartTime", page_size=1) == ["b", "c", "a", "none"]


async def test_pages_stay_stable_while_things_change(env: Env):
    handles = {str(n): await start(env, f"{n}") for n in range(12)}
    query = f"TaskQueue = '{env.task_queue}'"
    seen: list[str] = []
    token = b""
    step = 0
    while True:
        page = await env.client.workflow_service.list_workflow_executions(
            ListWorkflowExecutionsRequest(
                namespace=NAMESPACE, query=query, page_size=2, next_page_token=token
            )
        )
        seen += [run.execution.workflow_id.removeprefix(f"{env.id}-") for run in page.executions]
        token = page.next_page_token
        if not token:
            break
        # One that was shown and one that was not yet shown close, and a new one begins.
        await handles[str(11 - step)].terminate()
        if step < 4:
            await handles[str(step)].terminate()
        await start(env, f"new-{step}")
        step += 1
    assert sorted(seen, key=int) == [str(n) for n in range(12)]


async def test_a_page_token_belongs_to_its_query(env: Env):
    for n in range(3):
        await start(env, str(n))
    service = env.client.workflow_service
    first = await service.list_workflow_executions(
        ListWorkflowExecutionsRequest(
            namespace=NAMESPACE, query=f"TaskQueue = '{env.task_queue}'", page_size=1
        )
    )
    for query, token in [("WorkflowId = 'x'", first.next_page_token), ("", b"junk")]:
        with pytest.raises(RPCError) as refused:
            await service.list_workflow_executions(
                ListWorkflowExecutionsRequest(namespace=NAMESPACE, query=query, next_page_token=token)
            )
        assert refused.value.status == RPCStatusCode.INVALID_ARGUMENT


# --- what is stuck ---


async def test_retrying_activities_are_found(env: Env):
    async with env.worker(CallActivity, fail_until):
        await start(
            env,
            "stuck",
            "fail_until",
            [99],
            {"retry": {"initial_interval": 0.1, "backoff_coefficient": 1.0}},
            flow=CallActivity,
        )
        await start(env, "fine", "fail_until", [1], {}, flow=CallActivity)

        async def is_found() -> bool:
            return await found(env, "ActivityAttempts >= 3") == ["stuck"]

        await eventually(is_found)
        assert await found(env, "ActivityLastFailure LIKE 'attempt % fails'") == ["stuck"]
        assert await found(env, "ActivityAttempts IS NULL") == ["fine"]


@workflow.defn
class Crashes:
    """Its workflow tasks fail."""

    @workflow.run
    async def run(self) -> None:
        raise RuntimeError("the wheels came off")


async def test_failing_workflow_tasks_are_found(env: Env):
    async with env.worker(Crashes, Waiter):
        await start(env, "stuck", flow=Crashes)
        await start(env, "fine", flow=Waiter)

        async def is_found() -> bool:
            return await found(env, "WorkflowTaskAttempts > 1") == ["stuck"]

        await eventually(is_found)
        assert await found(env, "WorkflowTaskLastFailure = 'wheels'") == ["stuck"]


# --- filters that are refused ---


@pytest.mark.parametrize(
    "query",
    [
        "WorkflowId",
        "WorkflowId =",
        "WorkflowId = 'open",
        "NoSuchAttribute = 1",
        "StartTime > 'yesterday'",
        "ExecutionStatus = 'Nonsense'",
        "WorkflowId = 'a' AND",
        "(WorkflowId = 'a'",
        "WorkflowId = 'a')",
        "WorkflowId = 5",
        "HistoryLength = 'x'",
        "WorkflowId = 'a' LIMIT 5",
        "WorkflowId = 'a'; DROP TABLE runs",
        "ORDER BY",
        "(" * 5000,
        "NOT " * 5000 + "WorkflowId = 'a'",
        "\x00\x01\x02",
    ],
)
async def test_bad_filters_are_refused_with_a_position(env: Env, query: str):
    with pytest.raises(RPCError) as refused:
        _ = [run async for run in env.client.list_workflows(query)]
    assert refused.value.status == RPCStatusCode.INVALID_ARGUMENT
    assert "invalid query" in str(refused.value)
    assert any(character.isdigit() for character in str(refused.value)), "says where"


# --- it is durable ---


async def test_lists_survive_a_kill(durable_server: SegnoServer):
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    await add_attributes(client, VisInt="Int")
    key = SearchAttributeKey.for_int("VisInt")
    for n in range(10):
        await client.start_workflow(
            Echo.run,
            n,
            id=f"kept-{n}",
            task_queue="kept",
            search_attributes=TypedSearchAttributes([SearchAttributePair(key, n)]),
        )
    await client.get_workflow_handle("kept-4").terminate()
    durable_server.kill()
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)

    async def ids(query: str) -> list[str]:
        return [run.id async for run in client.list_workflows(query)]

    assert await ids("VisInt > 6 ORDER BY VisInt") == ["kept-7", "kept-8", "kept-9"]
    assert await ids("ExecutionStatus = 'Terminated'") == ["kept-4"]
    assert (await client.count_workflows("")).count == 10
    assert (await client.count_workflows("ExecutionStatus = 'Running'")).count == 9
    run = [run async for run in client.list_workflows("WorkflowId = 'kept-3'")][0]
    assert run.status == WorkflowExecutionStatus.RUNNING
    assert run.typed_search_attributes[key] == 3
