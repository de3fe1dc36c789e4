"""All scenarios, by name `topic.function`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ..harness import Session

Scenario = Callable[[Session], None]
_ALL: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Registers a scenario under the name of its module and function."""
    topic = function.__module__.rsplit(".", 1)[-1]
    _ALL[f"{topic}.{function.__name__}"] = function
    return function


def load() -> dict[str, Scenario]:
    """Imports every topic and returns the scenarios."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(_ALL)
