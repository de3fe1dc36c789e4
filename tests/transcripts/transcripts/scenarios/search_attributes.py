"""Custom search attributes: adding, removing and listing them, and setting them once they are there."""

from __future__ import annotations

import time

from ..build import Fields, command, payload
from ..harness import Session
from . import scenario

# The real server looks at changed namespaces once a second.
REFRESH = 2.5
KINDS = ("TEXT", "KEYWORD", "INT", "DOUBLE", "BOOL", "DATETIME", "KEYWORD_LIST")


def kind(name: str) -> str:
    """A type's full name."""
    return f"INDEXED_VALUE_TYPE_{name}"


def values(**given: object) -> Fields:
    """SearchAttributes."""
    return {"indexed_fields": {name: payload(value) for name, value in given.items()}}


def add(s: Session, **attributes: str) -> None:
    """Adds attributes by name and type, and waits until the real server has noticed."""
    s.call("AddSearchAttributes", search_attributes={name: kind(of) for name, of in attributes.items()})
    time.sleep(REFRESH)


@scenario
def fresh_namespace(s: Session) -> None:
    """A namespace begins with the server's own attributes."""
    s.namespace = s.new_namespace()
    s.call("ListSearchAttributes")


@scenario
def add_all_kinds(s: Session) -> None:
    """One attribute of each type."""
    s.namespace = s.new_namespace()
    add(s, **{f"My{of.title().replace('_', '')}": of for of in KINDS})
    s.call("ListSearchAttributes")


@scenario
def add_again(s: Session) -> None:
    """An attribute that is there stays as it is, regardless of the type that is asked for."""
    s.namespace = s.new_namespace()
    add(s, Mine="KEYWORD")
    add(s, Mine="KEYWORD")
    add(s, Mine="INT", Other="INT")
    s.call("ListSearchAttributes")


@scenario
def add_reserved(s: Session) -> None:
    """The server's own names cannot be had."""
    s.namespace = s.new_namespace()
    names = ("WorkflowId", "StartTime", "BuildIds", "TemporalChangeVersion", "TemporalMine", "Temporal", "Memo")
    for name in (*names, "NamespaceId", "MemoEncoding", "VisibilityTaskKey"):
        s.call("AddSearchAttributes", search_attributes={name: kind("KEYWORD")})
    s.call("AddSearchAttributes", search_attributes={"Mine": kind("KEYWORD"), "RunId": kind("KEYWORD")})
    s.call("ListSearchAttributes")


@scenario
def add_invalid(s: Session) -> None:
    """No attributes, no namespace, unknown ones."""
    s.call("AddSearchAttributes")
    s.call("AddSearchAttributes", search_attributes={"Mine": 99})
    s.call("AddSearchAttributes", search_attributes={"Mine": 0})
    mine = {"Mine": kind("KEYWORD")}
    s.call("AddSearchAttributes", namespace="", search_attributes=mine)
    s.call("AddSearchAttributes", namespace="nowhere", search_attributes=mine)
    s.call("AddSearchAttributes", namespace="x" * 1001, search_attributes=mine)
    s.call("ListSearchAttributes", namespace="")
    s.call("ListSearchAttributes", namespace="nowhere")


@scenario
def odd_names(s: Session) -> None:
    """Any other text is a name."""
    s.namespace = s.new_namespace()
    for name in ("with space", "back`tick", "AND", "x" * 300):
        s.call("AddSearchAttributes", search_attributes={name: kind("KEYWORD")})
    time.sleep(REFRESH)
    s.call("ListSearchAttributes")


@scenario
def remove(s: Session) -> None:
    """Attributes that are there go; others do not matter."""
    s.namespace = s.new_namespace()
    add(s, One="KEYWORD", Two="INT", Three="BOOL")
    s.call("RemoveSearchAttributes", search_attributes=["One", "NoSuch"])
    s.call("RemoveSearchAttributes", search_attributes=["NoSuch"])
    time.sleep(REFRESH)
    s.call("ListSearchAttributes")


@scenario
def remove_invalid(s: Session) -> None:
    """The server's own stay, and the request is refused as a whole."""
    s.namespace = s.new_namespace()
    add(s, One="KEYWORD")
    s.call("RemoveSearchAttributes")
    s.call("RemoveSearchAttributes", search_attributes=["WorkflowId"])
    s.call("RemoveSearchAttributes", search_attributes=["BuildIds"])
    s.call("RemoveSearchAttributes", search_attributes=["One", "StartTime"])
    s.call("RemoveSearchAttributes", namespace="", search_attributes=["One"])
    s.call("RemoveSearchAttributes", namespace="nowhere", search_attributes=["One"])
    time.sleep(REFRESH)
    s.call("ListSearchAttributes")


@scenario
def start_with(s: Session) -> None:
    """A start sets custom attributes; their types show in what is described."""
    s.namespace = s.new_namespace()
    s.start(search_attributes=values(Color="red"))
    attributes = values(Color="red", Size=3)
    add(s, Color="KEYWORD", Size="INT")
    s.start(search_attributes=attributes)
    s.describe()
    s.history()


@scenario
def start_with_wrong_values(s: Session) -> None:
    """Values that do not fit their types."""
    s.namespace = s.new_namespace()
    add(s, Color="KEYWORD", Size="INT", At="DATETIME", Tags="KEYWORD_LIST", Good="BOOL", Ratio="DOUBLE")
    for name, value in (
        ("Color", 1),
        ("Size", "large"),
        ("Size", 1.5),
        ("At", "yesterday"),
        ("Tags", "one"),
        ("Good", "yes"),
        ("Ratio", "half"),
    ):
        s.start(search_attributes=values(**{name: value}))
    good = values(Color="red", Size=1, At="2024-01-02T03:04:05Z", Tags=["a", "b"], Good=True, Ratio=0.5)
    s.start(search_attributes=good)
    s.describe()


@scenario
def upsert(s: Session) -> None:
    """A worker sets custom attributes."""
    s.namespace = s.new_namespace()
    add(s, Color="KEYWORD")
    s.start()
    attributes = values(Color="blue")
    s.run_task(command("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", search_attributes=attributes))
    s.describe()
    s.history()


@scenario
def removed_is_unknown(s: Session) -> None:
    """What was removed cannot be set."""
    s.namespace = s.new_namespace()
    add(s, Color="KEYWORD")
    s.start("before", search_attributes=values(Color="red"))
    s.call("RemoveSearchAttributes", search_attributes=["Color"])
    time.sleep(REFRESH)
    s.start("after", search_attributes=values(Color="red"))


@scenario
def per_namespace(s: Session) -> None:
    """An attribute of one namespace is unknown in another, or of another type."""
    one, two, three = s.new_namespace("one"), s.new_namespace("two"), s.new_namespace("three")
    s.namespace = one
    add(s, Color="KEYWORD")
    s.namespace = two
    add(s, Color="INT")
    attributes = values(Color="red")
    for namespace in (one, two, three):
        s.namespace = namespace
        s.start(search_attributes=attributes)
