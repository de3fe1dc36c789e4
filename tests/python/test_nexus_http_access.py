"""Who may call handlers of Nexus operations over HTTP, and complete operations."""

from __future__ import annotations

import json
from typing import Callable

from nexus_http import JSON, error, send
from test_security import Guarded, guarded  # noqa: F401: a fixture

SHORT = {"Request-Timeout": "100ms"}


def test_callers_need_the_role_of_writers(guarded: Callable[..., Guarded]) -> None:  # noqa: F811
    server = guarded()
    http = f"127.0.0.1:{server.server.http_port}"
    assert server.segno("namespace", "create", "mine").returncode == 0
    created = server.segno(
        "nexus", "endpoint", "create", "--name", "pay", "--target-namespace", "mine", "--target-task-queue", "q", "-o", "json"
    )
    assert created.returncode == 0, created.stderr
    found = server.segno("nexus", "endpoint", "get", "--name", "pay", "-o", "json")
    endpoint = json.loads(found.stdout)["id"]
    paths = [f"/nexus/endpoints/{endpoint}/services/s/o", "/namespaces/mine/task-queues/q/nexus-services/s/o"]
    keys = {
        "write": server.key("writer", "--grant", "mine:write"),
        "read": server.key("reader", "--grant", "mine:read"),
        "work": server.key("worker", "--grant", "mine:work"),
        "elsewhere": server.key("elsewhere", "--grant", "default:admin"),
    }
    for path in paths:
        for role, key in keys.items():
            reply = send(http, path, SHORT | {"Authorization": f"Bearer {key}"})
            if role == "write":
                assert (reply.status, reply.failure()) == (520, error("UPSTREAM_TIMEOUT", "upstream timeout"))
            else:
                assert (reply.status, reply.failure()) == (403, error("UNAUTHORIZED", "permission denied")), role
        for headers in (SHORT, SHORT | {"Authorization": "Bearer segno_wrong"}):
            reply = send(http, path, headers)
            assert (reply.status, reply.failure()["details"]) == (401, {"type": "UNAUTHENTICATED"})
    # Strangers do not learn which endpoints and namespaces there are.
    for path, status in (("/nexus/endpoints/x/services/s/o", 404), ("/namespaces/nix/task-queues/q/nexus-services/s/o", 403)):
        assert send(http, path, SHORT).status == 401
        assert send(http, path, SHORT | {"Authorization": f"Bearer {keys['write']}"}).status == status
        assert send(http, path, SHORT | {"Authorization": f"Bearer {server.admin}"}).status == 404


def test_wrong_callback_tokens_are_slowed_down(guarded: Callable[..., Guarded]) -> None:  # noqa: F811
    """A completion needs no key, but a token."""
    http = f"127.0.0.1:{guarded().server.http_port}"
    headers = JSON | {"Nexus-Operation-State": "succeeded", "Temporal-Callback-Token": '{"v":1,"d":"xx"}'}
    statuses = [send(http, "/nexus/callback", headers, b"1").status for _ in range(20)]
    assert statuses[:9] == [400] * 9 and statuses[-1] == 429, statuses
