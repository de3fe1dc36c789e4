"""Deleting namespaces."""

from __future__ import annotations

import time

import grpc

from ..harness import Session
from . import scenario
from .namespaces import REFRESH, id_of


@scenario
def by_name(s: Session) -> None:
    """A deleted namespace is renamed at once; its name is free."""
    name = s.new_namespace()
    s.namespace = name
    s.start()
    ident = id_of(s, name)
    s.call("DeleteNamespace", namespace_delete_delay={"seconds": 30})
    s.call("DescribeNamespace")
    s.new_namespace()
    s.call("DescribeNamespace")
    # The old one is still there for a while, but cannot be used.
    old = f"{name}-deleted-{ident[:5]}"
    s.namespace = old
    time.sleep(REFRESH)
    s.call("UpdateNamespace", update_info={"description": "new"})
    s.start()
    s.describe()


@scenario
def by_id(s: Session) -> None:
    """A deleted namespace goes away with all its runs."""
    name = s.new_namespace()
    s.namespace = name
    s.start("open")
    s.start("closed")
    s.terminate("closed")
    ident = id_of(s, name)
    s.call("DeleteNamespace", namespace=None, namespace_id=ident)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            s.silent("DescribeNamespace", namespace="", id=ident)
            time.sleep(0.2)
        except grpc.RpcError:
            break
    s.call("DescribeNamespace", namespace=None, id=ident)
    s.new_namespace()
    s.describe("open")
    s.describe("closed")


@scenario
def invalid(s: Session) -> None:
    """Both ways to name it, none, unknown ones."""
    s.call("DeleteNamespace", namespace=None)
    s.call("DeleteNamespace", namespace="default", namespace_id="11111111-2222-4333-8444-555555555555")
    s.call("DeleteNamespace", namespace="nowhere")
    s.call("DeleteNamespace", namespace="x" * 1001)
    s.call("DeleteNamespace", namespace=None, namespace_id="11111111-2222-4333-8444-555555555555")
    s.call("DeleteNamespace", namespace="temporal-system")
