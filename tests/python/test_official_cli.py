"""The official command line on this server and on Temporal's: the same commands say the same.

Both servers are started here and get the same commands, one after the other. What differs from run to run (ids, times, tokens,
durations) is masked before the answers are compared.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from helpers import SegnoServer, answers, free_port, segno_binary

pytestmark = pytest.mark.timeout(180)

TEMPORAL = Path(sys.executable).parent / "temporal"


@activity.defn
async def flaky(times: int) -> str:
    if activity.info().attempt <= times:
        raise RuntimeError("not yet")
    return "done"


@workflow.defn
class Talker:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.is_over = False

    @workflow.run
    async def run(self, name: str) -> str:
        await workflow.wait_condition(lambda: self.is_over)
        return f"bye {name}"

    @workflow.signal
    def say(self, text: str) -> None:
        self.said.append(text)

    @workflow.signal
    def end(self) -> None:
        self.is_over = True

    @workflow.query
    def all(self) -> list[str]:
        return self.said

    @workflow.update
    async def add(self, text: str) -> int:
        self.said.append(text)
        return len(self.said)

    @add.validator
    def check(self, text: str) -> None:
        if text == "bad":
            raise ValueError("not that")


@workflow.defn
class Stuck:
    """Has an activity that fails for ever."""

    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(
            flaky, 10_000, activity_id="a1", start_to_close_timeout=timedelta(seconds=30)
        )


class Pair:
    """The two servers."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.addresses = addresses

    async def run(self, *words: str) -> dict[str, tuple[int, str, str]]:
        found = {}
        for name, address in self.addresses.items():
            environment = {**os.environ, "TEMPORAL_ADDRESS": address, "NO_COLOR": "1", "USER": "ann", "TZ": "UTC"}
            process = await asyncio.create_subprocess_exec(
                str(TEMPORAL),
                *words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
            output, errors = await asyncio.wait_for(process.communicate(), 60)
            found[name] = (process.returncode or 0, masked(output.decode()), masked(errors.decode()))
        return found


def masked(text: str) -> str:
    for pattern, mask in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}( UTC)?|Z)?", "TIME"),
        (r"time=\S+ level=\S+ msg=", ""),
        (r"\b\d+@[\w.-]+", "IDENTITY"),
        (r"temporal-cli:[\w.@-]+", "IDENTITY"),
        (r'"(eventId|taskId|stateTransitionCount|stateSizeBytes|historySizeBytes|sizeBytes)": "?\d+"?', r'"\1": N'),
        (r'"(conflictToken|taskToken|nextPageToken|binaryChecksum|sdkVersion|sdkName|buildId|historySizeBytes|id)": "[^"]*"', r'"\1": X'),
        (r"(StateTransitionCount|HistoryLength|HistorySize|Run Time|RunTime|Duration)( +).*", r"\1 N"),
        # A second later "now" is "1 second ago".
        (r"(CreatedAt +|  )now\b", r"\1SPAN"),
        (r"\b(a few|an?|\d+(\.\d+)?) ?(microseconds?|milliseconds?|seconds?|minutes?|hours?|µs|ms|s|m|h)( ago)?\b", "SPAN"),
        (r"127\.0\.0\.1:\d+|localhost:\d+", "ADDRESS"),
        (r"-?\d+\.\d+(e[+-]?\d+)?", "NUMBER"),
        # Columns are as wide as what is in them.
        (r" {2,}", "  "),
        (r"[ \t]+\n", "\n"),
    ]:
        text = re.sub(pattern, mask, text)
    return text.strip()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if not segno_binary().exists():
        pytest.exit(f"no server: build {segno_binary()}", returncode=3)
    place = tmp_path_factory.mktemp("cli")
    segno = SegnoServer(log=place / "segno.log")
    segno.start()
    port = free_port()
    with (place / "temporal.log").open("wb") as log:
        command = [str(TEMPORAL), "server", "start-dev", "--headless", "--port", str(port), "--log-level", "error"]
        temporal = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not answers(f"127.0.0.1:{port}"):
            assert temporal.poll() is None and time.monotonic() < until, (place / "temporal.log").read_text()
            time.sleep(0.1)
        yield {"temporal": f"127.0.0.1:{port}", "segno": segno.address}
    finally:
        segno.kill()
        temporal.kill()
        temporal.wait()


@pytest_asyncio.fixture
async def pair(addresses: dict[str, str]) -> AsyncIterator[Pair]:
    workers = []
    for address in addresses.values():
        client = await Client.connect(address)
        workers.append(
            Worker(
                client,
                task_queue="q",
                workflows=[Talker, Stuck],
                activities=[flaky],
                workflow_runner=UnsandboxedWorkflowRunner(),
                identity="1@host",
            )
        )
    running = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield Pair(addresses)
    finally:
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*running)


async def compare(pair: Pair, lines: str) -> None:
    """Runs each line on both servers. `~`: only the exit code is the same, the words are ours. `+`: repeated until it is."""
    wrong = []
    for line in filter(None, (line.strip() for line in lines.splitlines())):
        mark, words = (line[0], line[1:]) if line[0] in "~+" else ("", line)
        until = time.monotonic() + (10 if mark == "+" else 0)
        while True:
            found = await pair.run(*split(words))
            same = found["segno"] == found["temporal"]
            if mark == "~" and found["segno"][0] == found["temporal"][0]:
                same = True
            if same or time.monotonic() > until:
                break
            await asyncio.sleep(0.3)
        if not same:
            shown = "\n".join(f"--- {name} (exit {code})\n{out}\n{err}" for name, (code, out, err) in found.items())
            wrong.append(f"$ temporal {words}\n{shown}")
    assert not wrong, "\n\n".join(wrong)


def split(words: str) -> list[str]:
    import shlex

    return shlex.split(words)


async def test_workflow(pair: Pair) -> None:
    await compare(
        pair,
        """
        workflow start --type Talker --task-queue q --workflow-id w1 --input '"ann"'
        workflow start --type Talker --task-queue q --workflow-id w1 --input '"ann"' --id-conflict-policy Fail
        workflow start --type Talker --task-queue q --workflow-id w1 -o json --id-conflict-policy UseExisting
        workflow signal --workflow-id w1 --name say --input '"hello"'
        +workflow query --workflow-id w1 --type all
        +workflow query --workflow-id w1 --type all -o json
        workflow query --workflow-id w1 --type nothing
        workflow update execute --workflow-id w1 --name add --input '"more"' --update-id u1
        workflow update execute --workflow-id w1 --name add --input '"more"' --update-id u1 -o json
        workflow update execute --workflow-id w1 --name add --input '"bad"' --update-id u2
        workflow update result --workflow-id w1 --update-id u1
        workflow describe --workflow-id w1 -o json
        workflow signal --workflow-id w1 --name end
        workflow result --workflow-id w1
        workflow result --workflow-id w1 -o json
        ~workflow show --workflow-id w1
        workflow signal --workflow-id w1 --name end
        workflow cancel --workflow-id no-such
        workflow terminate --workflow-id no-such
        workflow describe --workflow-id no-such
        workflow show --workflow-id no-such
        workflow start --type Talker --task-queue q --workflow-id w2 --input '"bob"'
        workflow cancel --workflow-id w2
        +workflow list --query "WorkflowId = 'w2'" --fields '' --limit 1
        workflow start --type Talker --task-queue q --workflow-id w3 --input '"cat"' --memo 'note="x"' --cron '0 0 1 1 *'
        workflow terminate --workflow-id w3 --reason enough
        +workflow count --query "WorkflowType = 'Talker'"
        +workflow count --query "WorkflowType = 'Talker'" -o json
        ~workflow count --query "Nonsense = 1"
        ~workflow list --query "((("
        +workflow delete --workflow-id w3
        workflow signal-with-start --type Talker --task-queue q --workflow-id w4 --signal-name end --input '"dan"'
        workflow execute --type Talker --task-queue no-such-queue --workflow-id w5 --run-timeout 1s
        workflow reset --workflow-id w1 --type FirstWorkflowTask --reason again
        workflow terminate --workflow-id w1
        """,
    )


async def test_activity(pair: Pair) -> None:
    await compare(
        pair,
        """
        workflow start --type Stuck --task-queue q --workflow-id s1
        ~workflow describe --workflow-id s1
        activity pause --workflow-id s1 --activity-id a1
        activity update-options --workflow-id s1 --activity-id a1 --retry-maximum-attempts 7
        activity reset --workflow-id s1 --activity-id a1 --keep-paused
        activity unpause --workflow-id s1 --activity-id a1
        activity complete --workflow-id s1 --activity-id nothing --result 1
        activity fail --workflow-id s1 --activity-id nothing
        activity pause --workflow-id s1 --activity-id nothing
        workflow terminate --workflow-id s1
        """,
    )


async def test_schedule(pair: Pair) -> None:
    await compare(
        pair,
        """
        schedule create --schedule-id x --calendar '{"hour":"3","year":"2099"}' --workflow-id sw --task-queue q --type Talker --input '"s"'
        schedule create --schedule-id x --interval 1h --workflow-id sw --task-queue q --type Talker
        schedule describe --schedule-id x
        ~schedule describe --schedule-id x -o json
        +schedule list
        schedule toggle --schedule-id x --pause --reason later
        schedule toggle --schedule-id x --unpause --reason now
        schedule trigger --schedule-id x
        schedule backfill --schedule-id x --start-time 2024-01-01T00:00:00Z --end-time 2024-01-02T00:00:00Z
        schedule update --schedule-id x --interval 24h --workflow-id sw --task-queue q --type Talker
        schedule delete --schedule-id x
        schedule describe --schedule-id x
        schedule delete --schedule-id x
        """,
    )


async def test_batch(pair: Pair) -> None:
    await compare(
        pair,
        """
        workflow start --type Talker --task-queue q --workflow-id b1 --input '"b"' --id-reuse-policy AllowDuplicate
        +workflow count --query "WorkflowId = 'b1' AND ExecutionStatus = 'Running'"
        workflow signal --query "WorkflowId = 'b1'" --name end --reason all --yes
        +workflow count --query "WorkflowId = 'b1' AND ExecutionStatus = 'Completed'"
        +batch list
        batch describe --job-id no-such
        batch terminate --job-id no-such --reason x
        """,
    )


async def test_operator_and_queues(pair: Pair) -> None:
    await compare(
        pair,
        """
        operator namespace create --namespace team --retention 72h --description 'a team'
        operator namespace create --namespace team
        operator namespace describe --namespace team
        ~operator namespace list
        operator namespace update --namespace team --description other
        operator namespace describe --namespace no-such
        operator search-attribute create --name Customer --type Keyword
        operator search-attribute create --name Customer --type Keyword
        operator search-attribute list
        operator search-attribute remove --name Customer --yes
        operator search-attribute remove --name NoSuch --yes
        operator cluster health
        ~operator cluster system
        ~operator cluster describe
        operator namespace delete --namespace team --yes
        task-queue describe --task-queue q --legacy-mode
        ~task-queue describe --task-queue q
        ~task-queue config get --task-queue q --task-queue-type activity
        ~task-queue config set --task-queue q --task-queue-type activity --queue-rps-limit 100 --queue-rps-limit-reason test
        ~worker list
        """,
    )


async def versioned(address: str, build: str) -> Worker:
    """A worker of a version."""
    config = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name="orders", build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )
    return Worker(
        await Client.connect(address),
        task_queue="versioned",
        workflows=[Talker],
        workflow_runner=UnsandboxedWorkflowRunner(),
        deployment_config=config,
        identity="1@host",
    )


async def test_deployments(pair: Pair) -> None:
    """All commands about worker deployments."""
    running: list[asyncio.Task[None]] = []
    workers: list[Worker] = []
    for build in ("b1", "b2"):
        for address in pair.addresses.values():
            workers.append(await versioned(address, build))
            running.append(asyncio.create_task(workers[-1].run()))
        # The newer version is the same one on both servers.
        await until_there(pair, build)
    try:
        await compare(
            pair,
            """
            worker deployment describe --name orders
            worker deployment describe --name no-such
            worker deployment describe-version --deployment-name orders --build-id no-such
            +worker deployment list
            worker deployment set-current-version --deployment-name orders --build-id b1 --yes
            worker deployment set-current-version --deployment-name orders --build-id b9 --yes
            worker deployment set-current-version --deployment-name no-such --build-id b1 --yes
            +worker deployment describe --name orders
            workflow start --type Talker --task-queue versioned --workflow-id dv1 --input '"ann"'
            +workflow query --workflow-id dv1 --type all
            worker deployment set-ramping-version --deployment-name orders --build-id b2 --percentage 10 --yes
            worker deployment set-ramping-version --deployment-name orders --build-id b1 --percentage 10 --yes
            worker deployment set-ramping-version --deployment-name orders --build-id b2 --percentage 101 --yes
            +worker deployment describe --name orders
            worker deployment set-ramping-version --deployment-name orders --build-id b2 --delete --yes
            +worker deployment describe --name orders
            worker deployment set-current-version --deployment-name orders --build-id b2 --yes
            +worker deployment describe --name orders
            worker deployment update-version-metadata --deployment-name orders --build-id b2 --metadata 'commit="4f2a"'
            +worker deployment describe-version --deployment-name orders --build-id b2
            worker deployment update-version-metadata --deployment-name orders --build-id b2 --remove-entries commit
            worker deployment update-version-metadata --deployment-name orders --build-id b9 --remove-entries commit
            worker deployment manager-identity set --deployment-name orders --manager-identity other --yes
            worker deployment set-current-version --deployment-name orders --unversioned --yes
            worker deployment manager-identity set --deployment-name orders --self --yes
            worker deployment manager-identity unset --deployment-name orders --yes
            workflow update-options --workflow-id dv1 --versioning-override-behavior auto_upgrade
            +workflow query --workflow-id dv1 --type all
            workflow update-options --workflow-id dv1 --versioning-override-behavior unspecified
            workflow terminate --workflow-id dv1
            worker deployment delete-version --deployment-name orders --build-id b2
            worker deployment delete-version --deployment-name orders --build-id b9
            worker deployment delete --name orders
            worker deployment delete --name no-such
            worker deployment create --name second
            worker deployment create --name second
            worker deployment create-version --deployment-name second --build-id c1
            worker deployment create-version --deployment-name second --build-id c1 --aws-lambda-function-arn f
            worker deployment update-version-compute-config --deployment-name second --build-id c1
            worker deployment set-current-version --deployment-name second --build-id c1 --allow-no-pollers --yes
            worker deployment set-current-version --deployment-name second --unversioned --yes
            +worker deployment delete-version --deployment-name second --build-id c1 --skip-drainage
            +worker deployment delete --name second
            worker deployment describe --name second
            """,
        )
    finally:
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*running)


async def test_compute_configurations_are_refused(pair: Pair) -> None:
    """Temporal's development server knows no provider either, so both refuse; Segno says that it starts no workers."""
    function = (
        "--aws-lambda-function-arn arn:aws:lambda:us-east-1:123456789012:function:f:1"
        " --aws-lambda-assume-role-arn arn:aws:iam::123456789012:role/r --aws-lambda-assume-role-external-id x"
    )
    await compare(pair, "worker deployment create --name computed")
    for words in (f"create-version {function}", f"update-version-compute-config {function}", "update-version-compute-config --remove"):
        found = await pair.run(*split(f"worker deployment {words} --deployment-name computed --build-id c1"))
        assert {code for code, _, _ in found.values()} == {1}, found
        assert "compute configurations are not supported" in found["segno"][2], found
    # None of them made a version.
    await compare(pair, "worker deployment describe-version --deployment-name computed --build-id c1")
    await compare(pair, "worker deployment delete --name computed")


async def until_there(pair: Pair, build: str) -> None:
    """Waits until a version is described at both servers."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        words = f"worker deployment describe-version --deployment-name orders --build-id {build}"
        if all(code == 0 for code, _, _ in (await pair.run(*split(words))).values()):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"version {build} is not described")
