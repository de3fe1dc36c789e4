"""Renders the templates of deploy/helm as Helm does, as far as they use its language: without Helm there is no other way to read them.

Known are `if`, `else`, `range`, pipelines, parentheses and the functions of `FUNCTIONS`; anything else is an error. Where Helm is
installed, a test compares both.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import yaml


class Failed(Exception):
    """The template called `fail`."""


def fail(text: str) -> str:
    raise Failed(text)


def nindent(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line if line else line for line in text.split("\n"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "default": lambda usual, value: value or usual,
    "fail": fail,
    "nindent": nindent,
    "not": lambda value: not value,
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "quote": lambda value: json.dumps(str(value)),
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).rstrip("\n"),
}


def render(chart: Path, values: dict[str, Any], *, name: str = "segno", namespace: str = "default") -> dict[str, list[Any]]:
    """The documents of each template. `values` replace those of values.yaml, maps key by key."""
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    context = {
        "Values": merge(yaml.safe_load((chart / "values.yaml").read_text()), values),
        "Chart": {"AppVersion": str(described["appVersion"]), "Name": described["name"]},
        "Release": {"Name": name, "Namespace": namespace},
    }
    found = {}
    for path in sorted((chart / "templates").glob("*.yaml")):
        parser = Parser(path.read_text())
        found[path.name] = [document for document in yaml.safe_load_all(parser.block(context, True)) if document]
        assert not parser.parts, f"{path.name}: {parser.parts[0]}"
    return found


def merge(usual: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    both = {name: merge(usual[name], value) if isinstance(value, dict) else value for name, value in values.items()}
    return usual | both


@dataclass(frozen=True)
class Action:
    """What stands between braces."""

    words: list[str]


class Parser:
    """Reads a template once, and writes the branches that are taken."""

    def __init__(self, text: str) -> None:
        # A dash removes the blanks on its side.
        text = re.sub(r"\s*\{\{-", "{{", text)
        text = re.sub(r"-\}\}\s*", "}}", text)
        self.parts: list[str | Action] = []
        for number, part in enumerate(re.split(r"\{\{(.*?)\}\}", text)):
            words = re.findall(r'"[^"]*"|[()|,]|:=|[^\s()|,]+', part)
            self.parts.append(Action(words) if number % 2 else part)

    def block(self, context: dict[str, Any], taken: bool) -> str:
        """What stands up to the next `else` or `end`, which is left."""
        out = []
        while self.parts and not (isinstance(self.parts[0], Action) and self.parts[0].words[0] in ("else", "end")):
            part = self.parts.pop(0)
            if isinstance(part, str):
                out.append(part)
            elif part.words[0] == "if":
                holds = bool(taken and value(part.words[1:], context))
                out.append(self.block(context, holds))
                if self.ended() == "else":
                    out.append(self.block(context, taken and not holds))
                    assert self.ended() == "end"
            elif part.words[0] == "range":
                out.append(self.loop(part.words[1:], context, taken))
            elif taken:
                result = value(part.words, context)
                out.append(str(result))
        return "".join(out) if taken else ""

    def loop(self, words: list[str], context: dict[str, Any], taken: bool) -> str:
        key, _, item, _, *rest = words
        start, out = list(self.parts), []
        entries = sorted(value(rest, context).items()) if taken else []
        for name, each in entries:
            self.parts = list(start)
            out.append(self.block(context | {key: name, item: each}, True))
        if not entries:
            self.block(context, False)
        assert self.ended() == "end"
        return "".join(out)

    def ended(self) -> str:
        part = self.parts.pop(0)
        assert isinstance(part, Action)
        return part.words[0]


def value(words: list[str], context: dict[str, Any]) -> Any:
    """The value of a pipeline."""
    rest = list(words)
    result = pipeline(rest, context)
    assert not rest, rest
    return result


def pipeline(words: list[str], context: dict[str, Any]) -> Any:
    result = call(words, context, [])
    while words and words[0] == "|":
        words.pop(0)
        result = call(words, context, [result])
    return result


def call(words: list[str], context: dict[str, Any], last: list[Any]) -> Any:
    head = words[0]
    if head not in FUNCTIONS:
        assert not last, head
        return operand(words, context)
    words.pop(0)
    arguments = []
    while words and words[0] not in ("|", ")"):
        arguments.append(operand(words, context))
    return FUNCTIONS[head](*arguments, *last)


def operand(words: list[str], context: dict[str, Any]) -> Any:
    word = words.pop(0)
    if word == "(":
        result = pipeline(words, context)
        assert words.pop(0) == ")"
        return result
    if word.startswith('"'):
        return word[1:-1]
    if word.isdigit():
        return int(word)
    if word.startswith("$"):
        return context[word]
    assert word.startswith("."), word
    found: Any = context
    for name in word[1:].split("."):
        found = found[name]
    return found
