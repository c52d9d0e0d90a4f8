/** `npm test`, also on a fresh checkout. What follows `--` goes to vitest: `npm test -- core -t refuses`. */
import { spawnSync } from "node:child_process";
import { ensureChromium } from "./chromium.js";
import { ensurePromtool } from "./promtool.js";
import { ensureProxies } from "./proxies.js";
import { ensurePython } from "./python.js";
import { ensureRedisServer } from "./redis.js";
import { env, root } from "./run.js";
import { ensureServers } from "./servers.js";
import { setup } from "./setup.js";

try {
  setup();
  ensureRedisServer();
  ensureProxies();
  ensurePromtool();
  ensurePython();
  ensureServers();
  ensureChromium();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
const { status } = spawnSync("vitest", ["run", ...process.argv.slice(2)], {
  cwd: root,
  env,
  stdio: "inherit",
});
process.exitCode = status ?? 1;
