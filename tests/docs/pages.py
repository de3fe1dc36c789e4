"""What a documentation page asks to be run: its marked code blocks, in the order of the page.

A block is marked in its info string, after the language:

    ```sh run               commands; each must succeed (`exit=N`: the last one exits with N)
    ```console run          commands after `$ `, each followed by what it prints
    ```sh run background    goes on until the end of the page: a server, a worker
    ```python file=a.py     is saved under this name
    ```go example=a/b.go    is the text of this file of the repository; `python pages.py` writes it to the page
    ```text recipe          is what the program of a recipe prints, in every language (test_recipes.py)
    ```text output          is part of what the command before it printed
    ```text log             has been printed by the processes in the background, lines in this order
    ```sh skip=why          is not run, and why
    ```sh run needs=go      is run where DOCS_TOOLS names this tool, and may take longer; so is everything with this word

What a reader does without being shown a command is in a comment: `<!-- docs-test: COMMANDS -->`, or `<!-- docs-test server: COMMANDS -->`
for what stays in the background. What stands for something of the reader's machine is replaced:
`<!-- docs-test replace: /var/lib/segno => data -->`, with free ports as `$DOCS_PORT_1` and so on. `<!-- docs-test database: postgres://… -->` makes an empty database and puts its URL in the
place of this one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ("sh", "bash", "console")
# A command at the beginning of an indented code block: it could not be marked.
INDENTED = re.compile(r"^ {4}(segno|temporal|curl|\$) ")
COMMENT = re.compile(r"<!-- docs-test( server)?: (.*?)-->", re.DOTALL)
REPLACE = re.compile(r"<!-- docs-test replace: (.+?) => (.+?) -->")
EXAMPLE = re.compile(r"^(```\w+ (?:.* )?example=(\S+)\n)(?:.*\n)*?```\n", re.MULTILINE)
DATABASE = re.compile(r"<!-- docs-test database: (\S+) -->")


@dataclass
class Block:
    """A fenced block, or the commands of a comment (language `hidden`)."""

    language: str
    words: list[str]
    line: int
    text: str

    def has(self, word: str) -> bool:
        return word in self.words

    def value(self, name: str) -> str | None:
        """What follows `name=` among its words."""
        found = [word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")]
        return found[0] if found else None


@dataclass
class Page:
    """A page with its blocks and replacements."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    replacements: list[tuple[str, str]] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    unmarked: list[str] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        return any(block.has("run") for block in self.blocks)


def parse(name: str, text: str) -> Page:
    """Reads a page; blocks and comments keep the order in which they stand."""
    page = Page(name)
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        fence = re.match(r"^ *(```+)(.*)$", line)
        if fence:
            end = next(
                (later for later in range(at + 1, len(lines)) if lines[later].strip() == fence[1]), None
            )
            assert end is not None, f"{name}:{number}: the block has no end"
            language, *words = fence[2].split() or [""]
            block = Block(language, words, number, "\n".join(lines[at + 1 : end]) + "\n")
            page.blocks.append(block)
            if language in SHELLS and not block.has("run") and not block.value("skip"):
                page.unmarked.append(f"{name}:{number}: commands are marked `run`, or `skip=` and why")
            at = end + 1
            continue
        if line.startswith("<!-- docs-test"):
            end = next(later for later in range(at, len(lines)) if "-->" in lines[later])
            comment = "\n".join(lines[at : end + 1])
            if found := REPLACE.match(comment):
                page.replacements.append((found[1], found[2]))
            elif found := DATABASE.match(comment):
                page.databases.append(found[1])
            elif found := COMMENT.match(comment):
                words = ["run", "background"] if found[1] else ["run"]
                page.blocks.append(Block("hidden", words, number, found[2]))
            else:
                raise AssertionError(f"{name}:{number}: what is this? {comment}")
            at = end + 1
            continue
        if INDENTED.match(line):
            page.unmarked.append(f"{name}:{number}: commands stand in a fenced block, which is marked")
        at += 1
    return page


def files() -> list[Path]:
    """The README and every page of docs/; decisions, one folder deeper, have no commands."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted([*docs.glob("*.md"), *docs.glob("*/*.md")])]


def pages() -> list[Page]:
    """All of them, read."""
    return [parse(str(file.relative_to(ROOT)), file.read_text()) for file in files()]


def with_examples(text: str) -> str:
    """The text of a page, each of its blocks with `example=` replaced by the text of that file."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}{(ROOT / found[2]).read_text()}```\n"

    return EXAMPLE.sub(block, text)


if __name__ == "__main__":
    for page in files():
        before = page.read_text()
        if (after := with_examples(before)) != before:
            page.write_text(after)
            print(f"wrote {page.relative_to(ROOT)}")
