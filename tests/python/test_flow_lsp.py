"""`segno flow lsp` as editors use it: a process that speaks JSON-RPC in frames with Content-Length."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

from helpers import segno_binary

URI = "file:///scripts/order.flow"
SCRIPT = """workflow order(input) {
  const paid = await Task.run("charge", input)
  return [pad, "é👍", paid]
}
"""


class Editor:
    """One process of the language server. A test that hangs is ended by the time-out of tests."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [segno_binary(), "flow", "lsp", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.requests = 0

    def write(self, body: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def send(self, method: str, params: Any = None, **more: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        self.write(json.dumps(message, ensure_ascii=False).encode())

    def receive(self) -> Any:
        assert self.process.stdout
        headers = {}
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        message = json.loads(self.process.stdout.read(int(headers[b"content-length"])))
        assert message["jsonrpc"] == "2.0"
        return message

    def request(self, method: str, params: Any = None) -> Any:
        self.requests += 1
        self.send(method, params, id=self.requests)
        answer = self.receive()
        assert answer["id"] == self.requests
        return answer

    def ask(self, method: str, line: int, character: int) -> Any:
        at = {"textDocument": {"uri": URI}, "position": {"line": line, "character": character}}
        return self.request(f"textDocument/{method}", at)["result"]

    def open(self, text: str) -> Any:
        document = {"uri": URI, "languageId": "flow", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics()

    def diagnostics(self) -> Any:
        message = self.receive()
        assert message["method"] == "textDocument/publishDiagnostics"
        return message["params"]["diagnostics"]

    def end(self) -> tuple[int, str]:
        """The exit code, and what was printed for people."""
        _, error = self.process.communicate(timeout=20)
        return self.process.returncode, error.decode()


@pytest.fixture(params=[[], ["--stdio"]], ids=["plain", "stdio"])
def editor(request: pytest.FixtureRequest) -> Iterator[Editor]:
    editor = Editor(*request.param)
    try:
        answer = editor.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        assert answer["result"]["capabilities"]["positionEncoding"] == "utf-16"
        editor.send("initialized", {})
        yield editor
    finally:
        editor.process.kill()
        editor.process.wait()


def test_a_session(editor: Editor) -> None:
    [found] = editor.open(SCRIPT)
    assert (found["code"], found["severity"]) == ("F0201", 1)
    assert found["message"] == 'unknown name "pad"\nhint: did you mean "paid"?'
    assert found["range"] == {"start": {"line": 2, "character": 10}, "end": {"line": 2, "character": 13}}

    fixed = SCRIPT.replace("[pad,", "[paid,")
    change = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"text": fixed}]}
    editor.send("textDocument/didChange", change)
    assert editor.diagnostics() == []

    hover = editor.ask("hover", 1, 27)
    assert "Task.run(name: string, input?, options?: object)" in hover["contents"]["value"]
    # After two characters, of which the second has two code units in UTF-16.
    definition = editor.ask("definition", 2, 23)
    assert definition["range"]["start"] == {"line": 1, "character": 8}
    labels = [item["label"] for item in editor.ask("completion", 1, 26)]
    assert "run" in labels and "delay" in labels and "push" not in labels

    format_it = {"textDocument": {"uri": URI}, "options": {"tabSize": 2, "insertSpaces": True}}
    assert editor.request("textDocument/formatting", format_it)["result"] == []

    assert editor.request("textDocument/hover", {})["error"]["code"] == -32602
    assert editor.request("textDocument/unknown", {})["error"]["code"] == -32601
    assert editor.request("shutdown")["result"] is None
    editor.send("exit")
    assert editor.end() == (0, "")


def test_formatting_is_that_of_the_command(editor: Editor, tmp_path: Path) -> None:
    source = "workflow order(input){return {a:'x',b:input};}\n"
    file = tmp_path / "order.flow"
    file.write_text(source)
    subprocess.run([segno_binary(), "flow", "fmt", str(file)], check=True, capture_output=True)
    editor.open(source)
    format_it = {"textDocument": {"uri": URI}, "options": {"tabSize": 2, "insertSpaces": True}}
    [edit] = editor.request("textDocument/formatting", format_it)["result"]
    assert edit["newText"] == file.read_text() != source


def test_the_end_without_shutdown(editor: Editor) -> None:
    editor.send("exit")
    code, error = editor.end()
    assert code == 1 and "without the request shutdown" in error


def test_an_editor_that_crashed(editor: Editor) -> None:
    assert editor.end()[0] == 1


def test_what_is_not_json_ends_the_server(editor: Editor) -> None:
    editor.write(b"{")
    code, error = editor.end()
    assert code == 1 and "speaking with the editor" in error
