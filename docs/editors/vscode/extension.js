// Starts `segno flow lsp` for documents of the language Flow.

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const command = vscode.workspace.getConfiguration("segno").get("command", "segno");
  const server = { command, args: ["flow", "lsp"] };
  client = new LanguageClient("segno", "Segno scripts", server, { documentSelector: [{ language: "flow" }] });
  return client.start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
