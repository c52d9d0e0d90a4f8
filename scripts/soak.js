/**
 * `npm run test:soak -- --minutes 30`: random histories on both stores for as long as asked, each
 * run with seeds of its own. A disagreement ends it and says how to repeat it.
 */
import { parseArgs } from "node:util";
import { spawnSync } from "node:child_process";
import { ensureRedisServer } from "./redis.js";
import { env, root } from "./run.js";
import { setup } from "./setup.js";

const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" } } });
const minutes = Number(values.minutes);
if (!(minutes > 0)) {
  console.error(`--minutes: give a number above 0, got ${values.minutes}.`);
  process.exit(2);
}

/** The tests of test/core/twins.test.ts, which run one after the other. */
const TESTS = 9;

setup();
ensureRedisServer();
const { status } = spawnSync("vitest", ["run", "test/core/twins.test.ts"], {
  cwd: root,
  env: { ...env, TIDEGATE_SOAK_MS: String(Math.ceil((minutes * 60_000) / TESTS)) },
  stdio: "inherit",
});
process.exitCode = status ?? 1;
