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
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
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
