/** `npm run demo`: makes the checkout ready, then hands over to examples/demo/server.js. */
import { spawn } from "node:child_process";
import { root } from "./run.js";
import { setup } from "./setup.js";

try {
  setup();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
const demo = spawn(process.execPath, ["examples/demo/server.js", ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
demo.on("exit", (code) => {
  process.exitCode = code ?? 1;
});
process.on("SIGTERM", () => demo.kill("SIGTERM"));
// A terminal sends Ctrl-C to the demo as well; passing it on would be a second one.
process.on("SIGINT", () => {
  if (!process.stdin.isTTY) demo.kill("SIGINT");
});

// `npm run` starts us through a shell, and a signal sent to npm ends that shell alone.
if (process.env.npm_lifecycle_event) {
  const shell = process.ppid;
  setInterval(() => process.ppid === shell || demo.kill("SIGTERM"), 500).unref();
}
