/** The example of a user's tests: by vitest in this run, from source, and as programs of their own, from the build. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
// Its tests are tests of this file.
import "../../examples/testing/limits.test.js";

const folder = fileURLToPath(new URL("../../examples/testing/", import.meta.url));

async function run(...args: string[]): Promise<{ code: unknown; said: string }> {
  const child = spawn(process.execPath, args, { cwd: folder });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const [code] = await once(child, "close"); // Everything has been said by then.
  return { code, said };
}

it("passes with node:test alone", { timeout: 60_000 }, async () => {
  const { code, said } = await run("--test", "--test-reporter=tap", "limits.node-test.js");
  expect(code, said).toBe(0);
  expect(said).toContain("# pass 2\n");
  expect(said).toContain("# fail 0\n");
});

/** What both module formats of the kit are asked: whether a limiter of the same format goes by its clock. */
const ASK = `
  const store = testStore();
  const limiter = createLimiter({ store, limit: 1, window: "1m" });
  const admits = async () => (await limiter.decide({ identity: "anna" })).allowed;
  (async () => {
    const seen = [await admits(), await admits()];
    store.clock.advance("2m");
    console.log(JSON.stringify([...seen, await admits()]));
  })();`;

it.each([
  [
    "commonjs",
    `const { createLimiter } = require("@tidegate/core");
     const { testStore } = require("@tidegate/core/testing");`,
  ],
  [
    "module",
    `import { createLimiter } from "@tidegate/core";
     import { testStore } from "@tidegate/core/testing";`,
  ],
])("the kit is loaded as %s", { timeout: 60_000 }, async (format, imports) => {
  const { code, said } = await run(`--input-type=${format}`, "--eval", imports + ASK);
  expect(said).toBe("[true,false,true]\n");
  expect(code).toBe(0);
});
