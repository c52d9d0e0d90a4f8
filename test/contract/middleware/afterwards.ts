/** Once per request, however its response ends; a failing handler keeps what was said; and the same request twice. */
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import {
  concurrency,
  type Config,
  fixedWindow,
  type ResponseOutcome,
  tokenBucket,
  user,
} from "@tidegate/core";
import { Pool } from "undici";
import { describe, expect, it } from "vitest";
import { storeKinds, type useRedis, watchingSettlements } from "../../harness/http.ts";
import { ask, asks, type Handle, hello, type Io, type Kit, serving, type Site, statuses } from "./kit.ts";

const anna = () => user("anna");
const day = fixedWindow({ limit: 100, window: "1d" });
const FIRST = { "RateLimit-Policy": '"day";q=100;w=86400', RateLimit: '"day";r=99;t=86400' };

/** Answers as the request asks it to. */
const obedient: Handle = async (io) => {
  const how = io.incoming.url!.slice(1);
  if (how === "throw") throw new Error("the handler failed");
  if (how === "late") await sleep(5);
  if (how === "late-throw") {
    await sleep(5);
    throw new Error("the handler failed, later");
  }
  if (how === "hang") return new Promise<never>(() => {});
  if (how === "half") return half(io);
  io.send(Number(/^\d+$/.exec(how)?.[0] ?? 200), how === "204" ? undefined : "hello");
};

/** Begins a response that never ends. */
function half({ outgoing }: Io): Promise<never> {
  outgoing.writeHead(200);
  outgoing.write("hel");
  return new Promise(() => {});
}

export function afterwards(kit: Kit, redis: ReturnType<typeof useRedis>): void {
  describe.each(storeKinds)("after the response, on %s", (kind) => {
    const serve = async (config: Config, more: Omit<Site, "config"> = {}) => {
      const watched = watchingSettlements(redis.storeOf(kind));
      const served = await serving(kit, {
        config: { store: watched.store, by: anna, policies: { day }, ...config },
        handle: obedient,
        ...more,
      });
      const used = async () => {
        const { verdicts } = await served.limiter.peek({ identity: user("anna") });
        return verdicts[0]!.limit - verdicts[0]!.remaining;
      };
      return { ...served, settled: watched.settled, used };
    };

    /** Asks, and hangs up once the answer has begun or, where none begins, after a while. */
    const hangUp = (port: number, path: string) =>
      new Promise<void>((resolve) => {
        const asked = http.get({ port, path, agent: false });
        const leave = () => {
          asked.destroy();
          resolve();
        };
        asked.on("error", () => {});
        asked.on("response", (answer) => answer.once("data", leave));
        if (path === "/hang") setTimeout(leave, 50);
      });

    it.each(["failure", "success"] as const)(
      "P38 T1 giveBackOn %s gives back once, by the status",
      async (giveBackOn) => {
        const served = await serve({ giveBackOn });
        const good = ["/200", "/204", "/302"];
        for (const path of [...good, "/404", "/500", "/throw", "/late-throw"]) {
          const [usedBefore, settledBefore] = [await served.used(), served.settled.length];
          await ask(served, path);
          const times = good.includes(path) === (giveBackOn === "success") ? 1 : 0;
          await expect.poll(served.used, { message: path }).toBe(usedBefore + 1 - times);
          await sleep(10);
          expect(served.settled.length - settledBefore, path).toBe(times);
        }
      },
    );

    it.each(["/hang", "/half"])(
      "P38 T2 a client that hangs up (%s) is a failure: one give-back",
      async (path) => {
        const served = await serve({ giveBackOn: "failure" });
        await hangUp(served.port, path);
        await expect.poll(() => served.settled.length).toBe(1);
        await sleep(20);
        expect([served.settled.length, await served.used()]).toEqual([1, 0]);
      },
    );

    it("P38 T3 a refusal of ours gives nothing back", async () => {
      const served = await serve({
        giveBackOn: "failure",
        policies: { day: fixedWindow({ limit: 1, window: "1d" }) },
      });
      await ask(served);
      expect(statuses(await asks(3, served))).toEqual([429, 429, 429]);
      await sleep(20);
      expect([served.settled.length, await served.used()]).toEqual([0, 1]);
    });

    const many = kind === "memory" ? 10_000 : 2000;
    it(`P38 T4 of ${many} mixed requests exactly those that failed come back`, async () => {
      const served = await serve({
        giveBackOn: "failure",
        policies: { day: fixedWindow({ limit: many, window: "1d" }) },
      });
      const paths = ["/200", "/500", "/late", "/404", "/late-throw", "/throw", "/204", "/200"];
      const pool = new Pool(`http://127.0.0.1:${served.port}`, { connections: 8 });
      const lane = async (first: number) => {
        for (let i = first; i < many; i += 8) {
          const { body } = await pool.request({ method: "GET", path: paths[(i >> 3) % paths.length]! });
          await body.dump();
        }
      };
      await Promise.all(paths.map((_, first) => lane(first)));
      await expect.poll(served.used, { timeout: 10_000 }).toBe(many / 2);
      expect(served.settled).toHaveLength(many / 2);
      await pool.destroy();
    });

    it("settle hears the request, the status and whether the client went away, and says what it cost", async () => {
      const heard: Omit<ResponseOutcome, "request">[] = [];
      const served = await serve({
        cost: 5,
        settle: ({ request, status, aborted }) => {
          expect(request).toBeTypeOf("object");
          heard.push({ status, aborted });
          return aborted ? "giveBack" : 2;
        },
      });
      await ask(served, "/201");
      await expect.poll(served.used).toBe(2);
      await hangUp(served.port, "/hang");
      await expect
        .poll(() => heard)
        .toEqual([
          { status: 201, aborted: false },
          { status: undefined, aborted: true },
        ]);
      await expect.poll(served.used).toBe(2);
    });

    it("a slot in flight is free again after every kind of end", async () => {
      const served = await serve({ policies: { inflight: concurrency({ limit: 2 }) } });
      for (const path of ["/200", "/500", "/throw", "/late-throw", "/304"]) await ask(served, path);
      await hangUp(served.port, "/hang");
      await hangUp(served.port, "/half");
      await expect.poll(served.used, { timeout: 5000 }).toBe(0);
    });

    it("a slot in flight is taken for as long as a response takes", async () => {
      let finish = () => {};
      const gate = new Promise<void>((resolve) => (finish = resolve));
      const handle: Handle = async (io) => {
        await gate;
        io.send(200, "hello");
      };
      const served = await serve({ policies: { inflight: concurrency({ limit: 1 }) } }, { handle });
      const first = ask(served);
      await expect.poll(served.used).toBe(1);
      const second = await ask(served);
      expect([second.status, second.fields["Retry-After"]]).toEqual([429, "1"]);
      finish();
      expect((await first).status).toBe(200);
      await expect.poll(async () => (await ask(served)).status).toBe(200);
    });

    it("the same key twice, in turn and at once, is one debit and the same answer", async () => {
      const headerOf = (request: any) => request.headers["idempotency-key"];
      const served = await serve({
        policies: { day, burst: tokenBucket({ capacity: 20, refillPerSecond: 2 }) },
        idempotencyKey: headerOf,
      });
      const keyed = (key: string) => ({ headers: { "idempotency-key": key } });
      const [first, again] = await asks(2, served, "/", keyed("k-1"));
      expect(first!.fields["RateLimit"]).toBe('"burst";r=19;t=10, "day";r=99;t=86400');
      expect(again).toEqual(first);
      const [one, ...others] = await Promise.all([1, 2, 3, 4].map(() => ask(served, "/", keyed("k-2"))));
      expect(others).toEqual(Array(3).fill(one));
      expect(await served.used()).toBe(2);
    });

    it("P30 T1 a cost function sees the body that was read: five operations cost five, in one step", async () => {
      const cost = (request: unknown) => {
        const body = kit.bodyOf(request);
        return Array.isArray(body) ? body.length : 1;
      };
      const served = await serve(
        { policies: { day: fixedWindow({ limit: 8, window: "1d" }) }, cost },
        { json: true },
      );
      const five = { method: "POST", body: [1, 2, 3, 4, 5] };
      expect((await ask(served, "/200", five)).fields["RateLimit"]).toBe('"day";r=3;t=86400');
      expect(await ask(served, "/200", five)).toMatchObject({
        status: 429,
        fields: { RateLimit: '"day";r=3;t=86400' },
      });
      expect((await ask(served, "/200", { method: "POST", body: [1, 2, 3] })).status).toBe(200);
      expect(await served.used()).toBe(8);
    });

    it.each(["/throw", "/late-throw"])(
      "a handler that fails (%s) keeps the fields on its 500",
      async (path) => {
        expect(await ask(await serve({}), path)).toMatchObject({ status: 500, fields: FIRST });
      },
    );

    it("P37 T1 whoever has answered before the limiter is left alone, and what was begun is counted", async () => {
      const before: Site["before"] = (io) => {
        if (io.incoming.url === "/early") io.send(200, "early");
      };
      const served = await serve({}, { before });
      expect(await ask(served, "/early")).toMatchObject({ status: 200, fields: {}, body: "early" });
      expect([served.reached, served.events]).toEqual([[], []]);
    });

    it("P37 T2 a response that had begun is decided, not written to, and noted once", async () => {
      const before: Site["before"] = ({ outgoing }) => {
        outgoing.writeHead(200, { "content-type": "text/event-stream" });
        outgoing.write("data: 1\n\n");
      };
      const handle: Handle = ({ outgoing }) => {
        outgoing.end("data: 2\n\n");
        return handled;
      };
      // Frameworks that answer for a handler have to be kept from it: the response is already the handler's own.
      const handled = new Promise<void>((resolve) => setTimeout(resolve, 5));
      const served = await serve(
        { policies: { day: fixedWindow({ limit: 2, window: "1d" }) } },
        { before, handle },
      );
      const bodies = (await asks(3, served)).map(({ body, fields }) => [body, fields]);
      expect(bodies).toEqual([
        ["data: 1\n\ndata: 2\n\n", {}],
        ["data: 1\n\ndata: 2\n\n", {}],
        ["data: 1\n\n", {}],
      ]);
      expect(await served.used()).toBe(2);
      expect(served.events).toEqual([
        { type: "warning", code: "TIDEGATE_HEADERS_SENT", message: expect.any(String) },
      ]);
    });

    it("P37 T3 a stream of events behind the limiter is not touched", async () => {
      const handle: Handle = async ({ outgoing }) => {
        outgoing.writeHead(200, { "content-type": "text/event-stream" });
        for (let i = 1; i <= 5; i++) {
          outgoing.write(`data: ${i}\n\n`);
          await sleep(10);
        }
        outgoing.end();
      };
      const served = await serve({ giveBackOn: "failure" }, { handle });
      const answer = await ask(served);
      expect(answer).toMatchObject({ status: 200, fields: FIRST });
      expect(await served.used()).toBe(1);
    });

    it("P33 T1 decides without any response fields to set", async () => {
      const served = await serve({});
      const decision = await served.limiter.decide({ identity: user("anna"), cost: 3 });
      expect(decision).toMatchObject({ allowed: true, verdicts: [{ remaining: 97 }] });
      expect((await ask(served)).fields["RateLimit"]).toBe('"day";r=96;t=86400');
    });

    it("says hello with what is left", async () => {
      expect(await ask(await serve({}))).toEqual(hello(FIRST));
    });
  });
}
