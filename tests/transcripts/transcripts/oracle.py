"""Runs the real Temporal dev server for recording."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PORTS = range(17300, 17400)
# One partition per task queue: tasks reach a single poller sooner and in order.
SETTINGS = ["matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"]
# What Segno allows by default, so that passing these limits can be recorded too.
SETTINGS += ["history.MaxBufferedQueryCount=32", "history.maxInFlightUpdates=100"]
# What Segno does by default: polls of a worker that shuts down end at once, and it is not listed as a poller.
SETTINGS += ["frontend.enableCancelWorkerPollsOnShutdown=true"]
# A new Nexus endpoint is known everywhere at once, as in Segno.
SETTINGS += ['system.refreshNexusEndpointsMinWait="1ms"']
# A version is drained after about as long as in Segno.
SETTINGS += [
    'matching.wv.VersionDrainageStatusVisibilityGracePeriod="8s"',
    'matching.wv.VersionDrainageStatusRefreshInterval="4s"',
]
# Scenarios register and change many namespaces.
SETTINGS += [
    "frontend.rps.namespaceReplicationInducingAPIs=1000",
    "frontend.globalNamespaceRPS.namespaceReplicationInducingAPIs=1000",
]
# Features that are off by default, for the scenarios that need them.
SWITCHED_ON = ["frontend.WorkflowPauseEnabled=true", "frontend.workflowRulesAPIsEnabled=true"]
SWITCHED_ON += ["history.enableWorkflowTaskCompletionPagination=true", "system.transactionSizeLimit=33554432"]
SWITCHED_ON += ["nexusoperation.enableStandalone=true", "activity.enableCallbacks=true"]
SWITCHED_ON += ["history.enableUpdateCallbacks=true", "history.enableSignalWithStartFromWorkflow=true"]


def free_port() -> int:
    """A free port of our range."""
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise SystemExit("no free port between 17300 and 17399")


@contextlib.contextmanager
def temporal(switched_on: bool = False) -> Iterator[str]:
    """Starts the server that stands next to this Python and yields its address."""
    binary = Path(sys.executable).with_name("temporal")
    port = free_port()
    arguments = ["--headless", "--ip", "127.0.0.1", "--port", str(port)]
    for setting in SETTINGS + (SWITCHED_ON if switched_on else []):
        arguments += ["--dynamic-config-value", setting]
    process = subprocess.Popen(
        [str(binary), "server", "start-dev", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)
