"""Endpoints of Nexus. They belong to the whole cluster."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, payload
from ..harness import Session
from ..nexus import (
    call_of,
    called,
    create,
    endpoint,
    fail,
    handler_failure,
    operation,
    poll,
    quietly,
    spec,
    succeed,
    worker_target,
)
from . import scenario
from .namespaces import REFRESH

NOBODY = "11111111-2222-4333-8444-555555555555"


def update(s: Session, known: Any, version: int, short: str = "ep", **more: Any) -> Any:
    """Changes an endpoint."""
    return call_of(s, "UpdateNexusEndpoint", id=known.id, version=version, spec=spec(s, short, **more))


def listed(s: Session, short: str) -> Any:
    """The endpoint of a name."""
    return call_of(s, "ListNexusEndpoints", name=s.name(short))


@scenario
def life(s: Session) -> None:
    """Created, read, deleted."""
    made = create(s, description=payload("what it is for"))
    call_of(s, "GetNexusEndpoint", id=made.id)
    listed(s, "ep")
    call_of(s, "DeleteNexusEndpoint", id=made.id, version=1)
    call_of(s, "GetNexusEndpoint", id=made.id)
    listed(s, "ep")
    call_of(s, "DeleteNexusEndpoint", id=made.id, version=1)


@scenario
def updated(s: Session) -> None:
    """Description and target change; the version counts."""
    made = create(s)
    update(s, made, 1, description=payload("new"), target=worker_target(s, "other"))
    call_of(s, "GetNexusEndpoint", id=made.id)
    update(s, made, 2)
    call_of(s, "GetNexusEndpoint", id=made.id)


@scenario
def updated_stale(s: Session) -> None:
    """An update of a version that is not the newest."""
    made = create(s)
    for version in (0, 2, -1):
        update(s, made, version)
    call_of(s, "GetNexusEndpoint", id=made.id)


@scenario
def renamed(s: Session) -> None:
    """A new name."""
    made = create(s)
    update(s, made, 1, "new")
    listed(s, "ep")
    listed(s, "new")


@scenario
def old_name(s: Session) -> None:
    """The name that an endpoint had before."""
    made = create(s)
    quietly(s, "UpdateNexusEndpoint", id=made.id, version=1, spec=spec(s, "new"))
    create(s)


@scenario
def renamed_to_taken(s: Session) -> None:
    """A name that another endpoint has."""
    made = create(s)
    create(s, "other")
    update(s, made, 1, "other")
    listed(s, "ep")


@scenario
def name_taken(s: Session) -> None:
    """A second endpoint of a name."""
    create(s)
    create(s)
    create(s, description=payload("other"))


@scenario
def deleted_by_version(s: Session) -> None:
    """Deletion with a version that is not the newest."""
    made = create(s)
    update(s, made, 1)
    call_of(s, "DeleteNexusEndpoint", id=made.id, version=1)
    call_of(s, "GetNexusEndpoint", id=made.id)


@scenario
def bad_ids(s: Session) -> None:
    """Ids that are none, or unknown; versions that are none."""
    for ident in ("", "x", NOBODY):
        call_of(s, "GetNexusEndpoint", id=ident)
        call_of(s, "UpdateNexusEndpoint", id=ident, version=1, spec=spec(s))
        call_of(s, "DeleteNexusEndpoint", id=ident, version=1)
    for version in (0, -1):
        call_of(s, "DeleteNexusEndpoint", id=NOBODY, version=version)
    call_of(s, "DeleteNexusEndpoint", id="x", version=0)
    call_of(s, "DeleteNexusEndpoint", id="", version=0)


@scenario
def bad_names(s: Session) -> None:
    """Names that are not allowed."""
    for name in ("", "a", "1a", "a-", "-a", "a_b", "a.b", "a b", "é", "a" * 201, "__temporal_system"):
        call_of(s, "CreateNexusEndpoint", spec={"name": name, "target": worker_target(s)})
    call_of(s, "UpdateNexusEndpoint", id=NOBODY, version=1, spec={"name": "a_b", "target": worker_target(s)})


@scenario
def bad_targets(s: Session) -> None:
    """Targets that are not allowed."""
    targets: list[Fields] = [
        {},
        {"worker": {}},
        {"worker": {"namespace": "default"}},
        {"worker": {"task_queue": "q"}},
        {"worker": {"namespace": "nowhere", "task_queue": "q"}},
        {"worker": {"namespace": "default", "task_queue": "q" * 1001}},
        {"worker": {"namespace": "default", "task_queue": "/_sys/q"}},
        {"external": {}},
        {"external": {"url": "x"}},
        {"external": {"url": "ftp://example.com/x"}},
        {"external": {"url": "http://example.com/" + "x" * 4096}},
        {"external": {"url": "http://a b/"}},
        {"external": {"url": "%zz"}},
    ]
    for target in targets:
        create(s, target=target)
    call_of(s, "CreateNexusEndpoint", spec={"name": s.name("ep")})


@scenario
def several_issues(s: Session) -> None:
    """All that is wrong with a specification is told at once."""
    long = {"metadata": {"encoding": b"json/plain"}, "data": b"x" * 20001}
    call_of(s, "CreateNexusEndpoint")
    call_of(s, "CreateNexusEndpoint", spec={})
    call_of(s, "CreateNexusEndpoint", spec={"name": "1_" + "x" * 200, "target": {"worker": {}}, "description": long})
    call_of(s, "CreateNexusEndpoint", spec={"name": "", "target": {"external": {}}, "description": long})
    create(s, description=long)
    call_of(s, "UpdateNexusEndpoint", id="", version=0, spec={"name": "", "target": {"worker": {}}})


@scenario
def unknown_namespace_among_issues(s: Session) -> None:
    """A target in a namespace that does not exist is told alone."""
    spec = {"name": "1_", "target": worker_target(s, namespace="nowhere", task_queue="")}
    call_of(s, "CreateNexusEndpoint", spec=spec)
    made = create(s)
    call_of(s, "UpdateNexusEndpoint", id=made.id, version=9, spec=spec)


@scenario
def pages(s: Session) -> None:
    """Every endpoint is on one page."""
    for number in range(5):
        endpoint(s, f"ep{number}")
    seen: list[str] = []
    token = b""
    while True:
        page = quietly(s, "ListNexusEndpoints", page_size=2, next_page_token=token)
        seen += [each.spec.name for each in page.endpoints if s.nonce in each.spec.name]
        token = page.next_page_token
        if not token:
            break
    s.observe("endpoints of all pages", sorted(name.replace("-" + s.nonce, "") for name in seen))


@scenario
def bad_pages(s: Session) -> None:
    """Sizes that are not allowed; a token with a name does not matter."""
    create(s)
    call_of(s, "ListNexusEndpoints", page_size=-1)
    call_of(s, "ListNexusEndpoints", page_size=1001)
    call_of(s, "ListNexusEndpoints", page_size=2, next_page_token=b"junk", name=s.name("ep"))
    call_of(s, "ListNexusEndpoints", page_size=-1, name=s.name("ep"))
    listed(s, "nobody")


@scenario
def bad_page_token(s: Session) -> None:
    """A token that no list has given."""
    call_of(s, "ListNexusEndpoints", page_size=2, next_page_token=b"junk")


@scenario
def namespace_deleted(s: Session) -> None:
    """A namespace stays while it is a target."""
    name = s.new_namespace()
    time.sleep(REFRESH)
    made = create(s, target={"worker": {"namespace": name, "task_queue": "q"}})
    s.call("DeleteNamespace", namespace=name)
    call_of(s, "DeleteNexusEndpoint", id=made.id, version=1)
    time.sleep(REFRESH)
    s.call("DeleteNamespace", namespace=name)


@scenario
def deleted_while_called(s: Session) -> None:
    """An operation whose endpoint is gone fails at its next attempt."""
    made = endpoint(s)
    task = called(s, operation(s))
    call_of(s, "DeleteNexusEndpoint", id=made.id, version=1)
    fail(s, task, failure=handler_failure())
    s.poll()


@scenario
def renamed_while_called(s: Session) -> None:
    """The next attempt goes to the endpoint under its new name."""
    made = endpoint(s)
    task = called(s, operation(s))
    quietly(s, "UpdateNexusEndpoint", id=made.id, version=1, spec=spec(s, "new"))
    fail(s, task, failure=handler_failure())
    task = poll(s)
    succeed(s, task)
    s.poll()


@scenario
def moved_while_called(s: Session) -> None:
    """The next attempt goes to the new target."""
    made = endpoint(s)
    task = called(s, operation(s))
    quietly(s, "UpdateNexusEndpoint", id=made.id, version=1, spec=spec(s, target=worker_target(s, "other")))
    fail(s, task, failure=handler_failure())
    task = poll(s, "other")
    succeed(s, task)
    s.poll()
