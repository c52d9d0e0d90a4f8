/** P47: a Redis user who may touch our keys alone, and run what lua/README.md says we need. */
import { readFileSync } from "node:fs";
import { concurrency, createLimiter, type Limiter, type TidegateEvent } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { everything, used } from "./asking.ts";

const documented = (): string[] => {
  const text = readFileSync(new URL("../../lua/README.md", import.meta.url), "utf8");
  const [, commands] = /The Redis user needs these commands[^`]*`([^`]+)`/.exec(text) ?? [];
  if (!commands) throw new Error("lua/README.md names no commands");
  return commands.split(/\s+/);
};

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
  const may = documented().map((command) => `+${command.toLowerCase()}`);
  await server.client.call(
    "ACL",
    "SETUSER",
    "narrow",
    "on",
    ">secret",
    "resetkeys",
    "~api:*",
    "-@all",
    ...may,
  );
});
afterAll(() => server.stop());

async function narrow(prefix = "api", which: (policy: string) => boolean = () => true) {
  await server.client.call("ACL", "LOG", "RESET");
  const events: TidegateEvent[] = [];
  const limiter = createLimiter({
    redis: `redis://narrow:secret@127.0.0.1:${server.port}`,
    prefix,
    policies: Object.fromEntries(
      everything(3)
        .map(([name, policy]) => [name.replaceAll(" ", "-"), policy] as const)
        .filter(([name]) => which(name)),
    ),
    blocking: true,
    timeoutMs: 5000,
    onEvent: (event) => events.push(event),
  });
  onTestFinished(() => limiter.close());
  return Object.assign(limiter, { events });
}

const all = everything(3).length;
const each = (count: number): number[] => Array(all).fill(count);

/** What the server refused. */
const refusals = async (): Promise<string[]> =>
  ((await server.client.call("ACL", "LOG")) as string[][]).map(
    (entry) => `${entry[3]} ${entry[5]} ${entry[7]}`,
  );

async function ask(limiter: Limiter, identity: string, more = {}) {
  const decision = await limiter.decide({ identity, ...more });
  expect(decision.degraded).toBeUndefined();
  return decision;
}

describe("P47 a user limited to ~api:* and the documented commands", () => {
  it("P47 T1 is let in and refused by every algorithm", async () => {
    const limiter = await narrow();
    const allowed = [];
    for (let i = 0; i < 5; i++) allowed.push((await ask(limiter, "decides")).allowed);
    expect(allowed).toEqual([true, true, true, false, false]);
    expect(await used(limiter, "decides")).toEqual(each(3));
    expect(await refusals()).toEqual([]);
  });

  it.each([
    ["giveBack", "giveBack", 0],
    ["keep", "keep", 2],
    ["less", 1, 1],
    ["more", 3, 3],
  ] as const)("P47 T2 settles: %s", async (name, outcome, left) => {
    const limiter = await narrow();
    const decision = await ask(limiter, `settles-${name}`, { cost: 2 });
    await limiter.settle(decision, outcome);
    // What is in flight comes free, whatever it cost.
    expect(await used(limiter, `settles-${name}`)).toEqual([...each(left).slice(1), 0]);
    expect(await refusals()).toEqual([]);
  });

  it("P47 T2 renews what is in flight", async () => {
    const limiter = createLimiter({
      redis: `redis://narrow:secret@127.0.0.1:${server.port}`,
      prefix: "api",
      policies: { inFlight: concurrency({ limit: 1, leaseMs: 300 }) },
      timeoutMs: 5000,
    });
    onTestFinished(() => limiter.close());
    await ask(limiter, "renews");
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect((await ask(limiter, "renews")).allowed).toBe(false);
    expect(await refusals()).toEqual([]);
  });

  it("P47 T3 blocks for a while, for ever, and unblocks", async () => {
    const limiter = await narrow();
    await limiter.block("blocks", 60_000, "a reason");
    expect((await ask(limiter, "blocks")).blocked).toBe(true);
    await limiter.block("blocks", "forever");
    expect(await ask(limiter, "blocks")).toMatchObject({ blocked: true, retryAfterMs: null });
    await limiter.unblock("blocks");
    expect((await ask(limiter, "blocks")).allowed).toBe(true);
    expect(await refusals()).toEqual([]);
  });

  it("P47 T4 resets", async () => {
    const limiter = await narrow();
    await ask(limiter, "resets");
    await limiter.reset("resets");
    expect(await used(limiter, "resets")).toEqual(each(0));
    expect(await refusals()).toEqual([]);
  });

  it("P47 T5 keeps a grant for an idempotency key, and gives it again", async () => {
    // Who takes a slot in flight is never given an earlier grant.
    const limiter = await narrow("api", (name) => !name.startsWith("concurrency"));
    const first = await ask(limiter, "nonce", { idempotencyKey: "k" });
    const again = await ask(limiter, "nonce", { idempotencyKey: "k" });
    expect([first.replayed, again.replayed]).toEqual([false, true]);
    expect(await used(limiter, "nonce")).toEqual(each(1).slice(1));
    expect(await refusals()).toEqual([]);
  });

  it("P47 T6 state that has to be mended is mended", async () => {
    const limiter = await narrow();
    for (let i = 0; i < 3; i++) await ask(limiter, "mends");
    for (const key of await server.client.keys("api:{id:mends}:*")) await server.client.persist(key);
    expect((await ask(limiter, "mends")).allowed).toBe(false);
    for (const key of await server.client.keys("api:{id:mends}:*"))
      expect([key, (await server.client.pttl(key)) > 0]).toEqual([key, true]);
    expect(await refusals()).toEqual([]);
  });

  it("P47 T7 under another prefix nothing is decided, and the failure rule answers", async () => {
    const limiter = await narrow("other");
    const decision = await limiter.decide({ identity: "x" });
    expect(decision.degraded).toEqual({ rule: "open", reason: "denied" });
    await expect(limiter.reset("x")).rejects.toMatchObject({ code: "TIDEGATE_STORE_DENIED" });
    expect(await server.client.keys("other:*")).toEqual([]);
    await eventually("the server says so", async () => (await refusals()).length > 0);
  });
});
