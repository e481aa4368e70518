#!/usr/bin/env node
// Starts the program of the package that npm chose for this platform, with everything it was given.
"use strict";
const { spawn } = require("node:child_process");

const platform = `@tidings/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/tidings`);
} catch {
  console.error(`tidings: ${platform} is not installed; npm leaves it out with --omit=optional, and not every platform has one`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends these to the program by itself, and a second one means "at once": it must not come from here as well.
const isTold = (signal) => signal !== "SIGTERM" && process.stdin.isTTY;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => isTold(signal) || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`tidings: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
