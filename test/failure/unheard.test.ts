/** An outage that nobody listens to: the process says so, once. */
import { type Config, createLimiter } from "@tidegate/core";
import { afterEach, beforeEach, expect, it, type MockInstance, onTestFinished, vi } from "vitest";

let warned: MockInstance;
beforeEach(() => void (warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {})));
afterEach(() => warned.mockRestore());

/** What a limiter whose Redis is not there says to the process, of three decisions. */
async function said(config: Partial<Config>): Promise<unknown[]> {
  const limiter = createLimiter({
    redis: "redis://127.0.0.1:1",
    limit: 5,
    window: "1m",
    timeoutMs: 2000,
    ...config,
  });
  onTestFinished(() => limiter.close());
  for (let i = 0; i < 3; i++) await limiter.decide({ identity: "anna" });
  return warned.mock.calls;
}

it.each<[Partial<Config>, string]>([
  [{}, 'the rule is "open", requests pass uncounted'],
  [{ onFailure: "closed" }, 'the rule is "closed", nobody passes'],
  [{ onFailure: "local", instances: 2 }, "this process decides by itself"],
])("is told with its reason and what answers: %j", async (config, rule) => {
  expect(await said(config)).toEqual([
    [
      `The store cannot be asked: there is no connection to Redis (ECONNREFUSED). Until it can, onFailure answers: ${rule}. Said once; onEvent and metrics tell of every outage.`,
      { type: "TidegateWarning", code: "TIDEGATE_STORE_AWAY" },
    ],
  ]);
});

it("is left to whoever listens", async () => {
  const types: string[] = [];
  expect(await said({ onEvent: ({ type }) => types.push(type) })).toEqual([]);
  expect(types).toEqual(["storeError", "degraded", "degraded", "degraded"]);
});

it("is not told of a limiter that was closed", async () => {
  const limiter = createLimiter({ redis: "redis://127.0.0.1:1", limit: 5, window: "1m" });
  await limiter.close();
  expect((await limiter.decide({ identity: "anna" })).degraded).toBeDefined();
  expect(warned).not.toHaveBeenCalled();
});

it("names no password", async () => {
  const [[message]] = (await said({ redis: "redis://somebody:secret@127.0.0.1:1" })) as [[string]];
  expect(message).not.toContain("secret");
});
