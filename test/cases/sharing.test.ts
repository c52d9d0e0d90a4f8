/** P22: which routes share a budget. P27: limiters beside each other. P30, P33: requests that are more, or less, than one HTTP request. */
import { EventEmitter, once } from "node:events";
import { fixedWindow, globally, type Policy, rateLimit, tokenBucket, user } from "@tidegate/express";
import { describe, expect, it, onTestFinished } from "vitest";
import request from "supertest";
import { expresses, storeKinds, useRedis } from "../harness/http.ts";
import { callsOf, resetStats } from "../harness/live.ts";
import { startRedis } from "../harness/redis.ts";
import { admitted, everything, guardOf, limiterOf, ruling, used, windows } from "./asking.ts";

const redis = useRedis();

describe.each(storeKinds)("P22 on %s", (kind) => {
  it.each(windows(3, 3_600_000))(
    "P22 T1 %s: routes that name a policy alike share it: send three times, and resend is refused",
    async (_, otp) => {
      const store = redis.storeOf(kind);
      const [send, resend] = [0, 1].map(() => limiterOf({ store, policies: { otp } }));
      expect([await admitted(send!, 3), await admitted(resend!, 1)]).toEqual([3, 0]);
    },
  );

  it.each(windows(3, 3_600_000))(
    "P22 T2 %s: routes that name their policies differently have three each",
    async (_, otp) => {
      const store = redis.storeOf(kind);
      const [send, resend] = ["send.otp", "resend.otp"].map((name) =>
        limiterOf({ store, policies: { [name]: otp } }),
      );
      expect([await admitted(send!, 4), await admitted(resend!, 4)]).toEqual([3, 3]);
    },
  );

  it.each(expresses)("P22 T3 %s: one limiter on three paths is one budget", async (_, express) => {
    const limit = rateLimit({
      store: redis.storeOf(kind),
      timeoutMs: 10_000,
      policies: { three: fixedWindow({ limit: 3, window: "1h" }) },
    });
    const app = express();
    for (const path of ["/a", "/b", "/c"]) app.get(path, limit, (_, res) => void res.end(path));
    const statuses = [];
    for (const path of ["/a", "/b", "/c", "/a", "/b"]) statuses.push((await request(app).get(path)).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
  });

  it("P22 T4 of two policies, one shared and one not, each counts by its own name", async () => {
    const store = redis.storeOf(kind);
    const shared = fixedWindow({ limit: 4, window: "1h" });
    const own = fixedWindow({ limit: 3, window: "1h" });
    const [a, b] = ["a.own", "b.own"].map((name) => limiterOf({ store, policies: { shared, [name]: own } }));
    expect([await admitted(a!, 5), await admitted(b!, 5)]).toEqual([3, 1]);
    expect([await used(a!), await used(b!)]).toEqual([
      [4, 3],
      [4, 1],
    ]);
  });
});

describe.each(storeKinds)("P27 on %s", (kind) => {
  it.each(everything(5))(
    "P27 T1 %s: two limiters with different names on one store and key: one unit each, and no warning",
    async (_, policy) => {
      const warnings: unknown[] = [];
      const listen = (warning: unknown) => warnings.push(warning);
      process.on("warning", listen);
      onTestFinished(() => void process.off("warning", listen));
      const store = redis.storeOf(kind);
      const [wide, narrow] = ["wide", "narrow"].map((name) =>
        limiterOf({ store, policies: { [name]: policy } }),
      );
      await wide!.decide({ identity: "x" });
      await narrow!.decide({ identity: "x" });
      expect([await used(wide!), await used(narrow!)]).toEqual([[1], [1]]);
      await new Promise(setImmediate);
      expect([wide!.events, narrow!.events, warnings]).toEqual([[], [], []]);
    },
  );
});

describe("P30 many operations in one request", () => {
  const operations = (request: { body?: unknown }): number =>
    Array.isArray(request.body) ? request.body.length : 1;
  const batch = (count: number) => ({
    body: Array.from({ length: count }, () => ({ query: "{ me { id } }" })),
  });
  const guardFor = (policy: Policy) =>
    guardOf({ store: redis.store, policies: { operations: policy }, cost: operations });

  it.each(windows(8, 3_600_000))("P30 T1 %s: an array of five costs five", async (_, policy) => {
    const guard = guardFor(policy);
    expect(await ruling(guard, batch(5))).toMatchObject({ kind: "pass", decision: { cost: 5 } });
    expect(await ruling(guard, batch(5))).toMatchObject({ kind: "refuse" });
    expect(await ruling(guard, batch(3))).toMatchObject({ kind: "pass" });
    expect(await ruling(guard, { body: { query: "{ me { id } }" } })).toMatchObject({ kind: "refuse" });
  });

  it("P30 T1 five units are one step in Redis", async () => {
    const server = await startRedis();
    onTestFinished(() => server.stop());
    const policies = { operations: tokenBucket({ capacity: 100, refillPerSecond: 1 }) };
    const guard = guardOf({ redis: server.url, policies, cost: operations });
    await ruling(guard, batch(5));
    await resetStats(server);
    await ruling(guard, batch(5));
    expect([await callsOf(server, "evalsha"), await callsOf(server, "hset")]).toEqual([1, 1]);
  });

  it.each(windows(3, 3_600_000))(
    "P30 T2 %s: an array of five at a limit of three is refused whole, and nothing is taken",
    async (_, policy) => {
      const guard = guardFor(policy);
      expect(await ruling(guard, batch(5))).toMatchObject({
        kind: "refuse",
        refusal: { status: 429 },
        decision: { retryAfterMs: null, verdicts: [{ remaining: 3, reason: "never" }] },
      });
      expect(await redis.keys()).toEqual([]);
    },
  );

  it.each(storeKinds.flatMap((kind) => everything(1).map(([name, policy]) => [kind, name, policy] as const)))(
    "P30 T3 %s, %s: of three aliases of a field limited to one, one resolves",
    async (kind, _, field) => {
      const limiter = limiterOf({ store: redis.storeOf(kind), policies: { field } });
      const resolve = async (alias: string) =>
        (await limiter.decide({ identity: user("anna") })).allowed ? alias : undefined;
      const resolved = await Promise.all(["a", "b", "c"].map(resolve));
      expect(resolved.filter(Boolean)).toEqual(["a"]);
    },
  );
});

describe.each(storeKinds)("P33 on %s", (kind) => {
  it.each(everything(2))("P33 T1 %s decides with no request anywhere", async (_, policy) => {
    const limiter = limiterOf({ store: redis.storeOf(kind), policies: { policy } });
    expect(await admitted(limiter, 4)).toBe(2);
  });

  it("P33 T1 policies for everybody need not even an identity", async () => {
    const policies = { all: fixedWindow({ limit: 2, window: "1h", by: globally() }) };
    const limiter = limiterOf({ store: redis.storeOf(kind), policies });
    const allowed = [];
    for (let i = 0; i < 3; i++) allowed.push((await limiter.decide({} as never)).allowed);
    expect(allowed).toEqual([true, true, false]);
  });

  it("P33 T2 of the messages on a socket with a limit of three, the fourth is refused; another socket is another", async () => {
    const limiter = limiterOf({
      store: redis.storeOf(kind),
      policies: { messages: fixedWindow({ limit: 3, window: "1m" }) },
    });
    /** What a WebSocket server does with a connection. */
    function converse(id: string) {
      const socket = new EventEmitter();
      const answers: string[] = [];
      socket.on("message", async (text: string) => {
        const { allowed, retryAfterMs } = await limiter.decide({ identity: { kind: "socket", value: id } });
        answers.push(allowed ? `echo ${text}` : `wait ${retryAfterMs}`);
        socket.emit("answered");
      });
      return {
        answers,
        async say(text: string) {
          const answered = once(socket, "answered");
          socket.emit("message", text);
          await answered;
        },
      };
    }
    const [one, two] = [converse("1"), converse("2")];
    for (const text of ["a", "b", "c", "d"]) await one.say(text);
    await two.say("e");
    expect(one.answers).toEqual(["echo a", "echo b", "echo c", "wait 60000"]);
    expect(two.answers).toEqual(["echo e"]);
  });
});
