"""All scenarios, by name `topic.function`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable

from ..harness import Session

Scenario = Callable[[Session], None]
_ALL: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Registers a scenario under the name of its module and function."""
    topic = function.__module__.rsplit(".", 1)[-1]
    _ALL[f"{topic}.{function.__name__}"] = function
    return function


def load(switched_on: bool = False) -> dict[str, Scenario]:
    """Imports every topic and returns the scenarios: of those that need features switched on, or of the others."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {name: each for name, each in _ALL.items() if needs_switches(each) == switched_on}


def needs_switches(function: Scenario) -> bool:
    """Whether its topic says `SWITCHED_ON = True`: it plays against a server with features that are off by default."""
    return getattr(sys.modules[function.__module__], "SWITCHED_ON", False)
