#!/usr/bin/env node
// Starts the binary of the package that npm installed for this machine: same arguments, same output, same exit code.
"use strict";

const { spawn } = require("node:child_process");

const UNAVAILABLE = 69;
const name = `segno-server-${process.platform}-${process.arch}`;

function binary() {
  try {
    return require.resolve(`${name}/bin/segno`);
  } catch {
    console.error(`segno-server has no binary for this machine: the package ${name} is not installed`);
    process.exit(UNAVAILABLE);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`segno-server: ${error.message}`);
  process.exit(UNAVAILABLE);
});
const forwarded = ["SIGTERM", "SIGHUP"];
for (const signal of forwarded) process.on(signal, () => child.kill(signal));
// A terminal sends this one to both processes.
process.on("SIGINT", () => {});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
