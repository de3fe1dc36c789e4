"""Completions of workflow tasks that come in pages, where the server allows them."""

from __future__ import annotations

from typing import Any

from ..build import Fields, complete, marker, timer
from ..harness import Session
from . import scenario

SWITCHED_ON = True


def page(s: Session, task: Any, number: int, *commands: Fields, **more: Any) -> None:
    """A page that is not the last one."""
    s.complete(task, *commands, page_number=number, intermediate_page=True, **more)


@scenario
def in_order(s: Session) -> None:
    """Three pages make one completion."""
    s.start()
    task = s.poll()
    page(s, task, 0, timer("a", 600), marker("one"))
    s.history()
    page(s, task, 1, timer("b", 600))
    s.complete(task, timer("c", 600), page_number=2)
    s.history()
    s.describe()


@scenario
def in_another_order(s: Session) -> None:
    """Pages may come in any order and twice; the first of each counts."""
    s.start()
    task = s.poll()
    page(s, task, 1, timer("b", 600))
    page(s, task, 0, timer("a", 600))
    page(s, task, 0, timer("other", 600))
    s.complete(task, complete("out"), page_number=2)
    s.history()


@scenario
def pages_missing(s: Session) -> None:
    """A page is missing: the worker sends all of them again."""
    s.start()
    task = s.poll()
    s.complete(task, timer("c", 600), page_number=1)
    page(s, task, 0, timer("a", 600))
    s.complete(task, timer("c", 600), page_number=2)
    s.complete(task, timer("c", 600), page_number=1)
    page(s, task, 0, timer("a", 600))
    page(s, task, 1, timer("b", 600))
    s.complete(task, timer("c", 600), page_number=2)
    s.history()


@scenario
def refused(s: Session) -> None:
    """Pages that are wrong, and pages of a task that is over."""
    s.start()
    task = s.poll()
    page(s, task, 0)
    page(s, task, -1, timer("a", 600))
    page(s, task, 1024, timer("a", 600))
    page(s, task, 0, timer("a", 600))
    s.complete(task, timer("b", 600))
    s.history()
    page(s, task, 0, timer("a", 600))
    s.complete(task, timer("c", 600), page_number=1)
