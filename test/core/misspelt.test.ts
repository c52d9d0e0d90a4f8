/** A name that is misspelt is told of: it would else be one that was left out. */
import {
  apiKey,
  apiKeyOf,
  createLimiter,
  type DecideRequest,
  ioredisClient,
  memoryStore,
  redisStore,
  type ScriptClient,
  slidingWindow,
} from "@tidegate/core";
import { describe, expect, it, onTestFinished } from "vitest";

function limiter() {
  const made = createLimiter({
    store: memoryStore(),
    policies: { tokens: slidingWindow({ limit: 100, window: "1m" }) },
  });
  onTestFinished(() => made.close());
  return made;
}

const left = async (of: ReturnType<typeof limiter>) =>
  (await of.peek({ identity: "anna" })).verdicts[0]!.remaining;

describe("a policy that there is not", () => {
  const unknown = (what: string) => ({
    name: "TidegateError",
    code: "TIDEGATE_POLICY_UNKNOWN",
    message: `${what}: there is no "token"; there are tokens.`,
  });

  it("is refused in a record of costs, and nothing is charged", async () => {
    const made = limiter();
    await expect(made.decide({ identity: "anna", cost: { token: 50 } })).rejects.toMatchObject(
      unknown("cost"),
    );
    expect(await left(made)).toBe(100);
  });

  it("is refused in a settlement, which can be made again", async () => {
    const made = limiter();
    const decision = await made.decide({ identity: "anna", cost: 10 });
    await expect(made.settle(decision, { token: 5 })).rejects.toMatchObject(unknown("settle"));
    await made.settle(decision, { tokens: 5 });
    expect(await left(made)).toBe(95);
  });

  it("is refused when a reservation is committed, which can be done again", async () => {
    const made = limiter();
    const reservation = await made.reserve({ identity: "anna", cost: 10 });
    await expect(reservation.commit({ token: 5 })).rejects.toMatchObject(unknown("settle"));
    await reservation.commit({ tokens: 5 });
    expect(await left(made)).toBe(95);
  });

  it("is refused by reset", async () => {
    await expect(limiter().reset("anna", "token")).rejects.toMatchObject(unknown("policy"));
  });
});

describe("an option that there is not", () => {
  it.each([
    ["decide", { identity: "anna", costs: 50 }, "costs", "identity, cost, idempotencyKey"],
    ["peek", { identity: "anna", maxWaitMs: 5 }, "maxWaitMs", "identity, cost, idempotencyKey"],
    ["reserve", { identity: "anna", key: "x" }, "key", "identity, cost, idempotencyKey"],
    [
      "wait",
      { identity: "anna", maxWait: 50 },
      "maxWait",
      "identity, cost, idempotencyKey, maxWaitMs, signal",
    ],
  ] as const)("is refused by %s", async (method, request, option, known) => {
    await expect(limiter()[method](request as DecideRequest)).rejects.toMatchObject({
      name: "ConfigError",
      code: "TIDEGATE_OPTION_UNKNOWN",
      option: `${method}.${option}`,
      message: expect.stringContaining(`known are ${known},`),
    });
  });

  it.each<[string, () => unknown]>([
    ["memoryStore.max", () => memoryStore({ max: 5 } as object)],
    ["redisStore.script", () => redisStore(ioredisClientOf(), { script: {} } as object)],
  ])("is refused: %s", (option, make) => {
    expect(make).toThrow(expect.objectContaining({ code: "TIDEGATE_OPTION_UNKNOWN", option }));
  });

  function ioredisClientOf(): ScriptClient {
    const client = ioredisClient("redis://127.0.0.1:1");
    onTestFinished(() => client.close());
    return client;
  }
});

it("a store over Redis is made of a client, and says so to a URL", () => {
  expect(() => redisStore("redis://localhost" as unknown as ScriptClient)).toThrow(
    expect.objectContaining({
      code: "TIDEGATE_CLIENT_UNKNOWN",
      option: "redisStore",
      value: "redis://localhost",
    }),
  );
});

it.each([[undefined], ["a secret of sixteen or more"]])(
  "apiKeyOf names who apiKey counts, with the secret %s",
  async (secret) => {
    const source = apiKey({ header: "x-api-key", ...(secret !== undefined && { secret }) });
    const context = { request: {}, state: {}, address: "::1", peer: "::1", query: () => undefined };
    const found = await source.identify({ ...context, header: () => "k-1" });
    expect(apiKeyOf("k-1", secret)).toEqual(found);
    expect(apiKeyOf("k-2", secret)).not.toEqual(found);
  },
);
