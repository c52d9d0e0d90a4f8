/** What becomes of a request's units once its response is through: given back, kept, charged more, slots freed. */
import { get, type IncomingMessage, type Server } from "node:http";
import { Readable } from "node:stream";
import {
  concurrency,
  type Config,
  fixedWindow,
  ipOf,
  type ResponseOutcome,
  type Store,
  tokenBucket,
} from "@tidegate/express";
import type { Express, Request, RequestHandler, Response } from "express";
import request from "supertest";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { expresses, limiting, listening, PATIENT, useRedis, watchingSettlements } from "../harness/http.ts";

const redis = useRedis();
const quota = () => fixedWindow({ limit: 100, window: "1h" });
const CLIENT = ipOf("127.0.0.1");

/** A limiter whose settlements can be watched, and what is used of each policy once all is through. */
function settling(config: Config<Request>, store: Store = redis.store) {
  const watched = watchingSettlements(store);
  const limit = limiting({ ...PATIENT, store: watched.store, ...config });
  let closed = 0;
  const watch: RequestHandler = (_, res, next) => {
    res.once("close", () => setImmediate(() => closed++));
    next();
  };
  return {
    limit,
    handlers: [watch, limit] as RequestHandler[],
    settled: watched.settled,
    /** Once `responses` are through and settled. */
    used: async (responses: number): Promise<number[]> => {
      await eventually(`${responses} responses are through`, () => closed === responses, 20_000);
      await new Promise(setImmediate);
      await watched.through();
      const { verdicts, degraded } = await limit.limiter.peek({ identity: CLIENT });
      expect(degraded).toBeUndefined();
      return verdicts.map(({ limit, remaining }) => limit - remaining);
    },
  };
}

/** Sends a request and goes away: once it has arrived, or once the answer has begun. */
async function goAway(server: Server, arrived: Promise<void>, when: "arrived" | "answered"): Promise<void> {
  const { port } = server.address() as { port: number };
  const client = get({ port, host: "127.0.0.1", agent: false });
  client.on("error", () => {});
  const answered = new Promise<IncomingMessage>((resolve) => client.once("response", resolve));
  await arrived;
  if (when === "answered") {
    const response = await answered;
    response.on("error", () => {});
    await new Promise((resolve) => response.once("data", resolve));
  }
  client.destroy();
}

interface Behaviour {
  readonly name: string;
  readonly handler: (res: Response, arrived: () => void) => unknown;
  readonly method?: "get" | "head";
  readonly headers?: Record<string, string>;
  readonly leaves?: "arrived" | "answered";
  readonly status: number | undefined;
  readonly aborted: boolean;
}

const behaviours: Behaviour[] = [
  { name: "200", handler: (res) => res.send("ok"), status: 200, aborted: false },
  { name: "201 without a body", handler: (res) => res.status(201).end(), status: 201, aborted: false },
  { name: "404", handler: (res) => res.status(404).send("no"), status: 404, aborted: false },
  { name: "500", handler: (res) => res.status(500).send("no"), status: 500, aborted: false },
  { name: "a handler that throws", handler: () => fail(), status: 500, aborted: false },
  {
    name: "a handler's next(error)",
    handler: (res) => res.req.next!(new Error("no")),
    status: 500,
    aborted: false,
  },
  { name: "a redirect", handler: (res) => res.redirect("/elsewhere"), status: 302, aborted: false },
  { name: "HEAD", handler: (res) => res.send("ok"), method: "head", status: 200, aborted: false },
  {
    name: "304",
    handler: (res) => res.set("ETag", '"v1"').send("ok"),
    headers: { "if-none-match": '"v1"' },
    status: 304,
    aborted: false,
  },
  {
    name: "a stream",
    handler: (res) => Readable.from(["a", "b", "c"]).pipe(res),
    status: 200,
    aborted: false,
  },
  {
    name: "a slow stream",
    handler: (res) =>
      Readable.from(
        (async function* () {
          for (const part of ["a", "b"]) {
            yield part;
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
        })(),
      ).pipe(res),
    status: 200,
    aborted: false,
  },
  {
    name: "a client that goes in the middle of a response",
    handler: (res, arrived) => {
      res.write("begun");
      arrived();
    },
    leaves: "answered",
    status: 200,
    aborted: true,
  },
  {
    name: "a client that goes before there is any response",
    handler: (_, arrived) => arrived(),
    leaves: "arrived",
    status: undefined,
    aborted: true,
  },
];

describe.each(expresses)("On %s", (_, express) => {
  /** Answers one request and tells how often it was asked to settle. */
  async function once(
    { handler, method = "get", headers = {}, leaves }: Behaviour,
    handlers: RequestHandler[],
  ) {
    const app = express();
    app.set("env", "test"); // Express logs no error then.
    let arrive = () => {};
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    app.use(...handlers, (_, res) => void handler(res, arrive));
    const server = listening(app);
    if (leaves) await goAway(server, arrived, leaves);
    else return (await request(server)[method]("/").set(headers)).status;
    return undefined;
  }

  describe.each(["success", "failure"] as const)("giveBackOn %s", (giveBackOn) => {
    it.each(behaviours)("$name", async (behaviour) => {
      const { handlers, settled, used, limit } = settling({
        policies: { quota: quota() },
        giveBackOn,
        cost: 3,
      });
      await once(behaviour, handlers);
      const failed = behaviour.aborted || behaviour.status! >= 400;
      const back = failed === (giveBackOn === "failure");
      expect(await used(1)).toEqual([back ? 0 : 3]);
      expect(settled.map(({ units }) => units)).toEqual(back ? [3] : []);
      expect(limit.events).toEqual([]);
    });
  });

  describe("settle is told", () => {
    it.each(behaviours)("of $name: $status, aborted $aborted", async (behaviour) => {
      const told: [number | undefined, boolean, string][] = [];
      const settle = ({ status, aborted, request }: ResponseOutcome<Request>) => {
        told.push([status, aborted, request.path]);
        return "giveBack" as const;
      };
      const { handlers, settled, used } = settling({ policies: { quota: quota() }, settle });
      const status = await once(behaviour, handlers);
      expect(await used(1)).toEqual([0]);
      expect(told).toEqual([[behaviour.status, behaviour.aborted, "/"]]);
      if (!behaviour.leaves) expect(status).toBe(behaviour.status);
      expect(settled).toHaveLength(1);
    });
  });

  describe("What settle returns", () => {
    const KEPT = [5, 5, 2];
    const answers: [string, () => unknown, used: number[], faults: number][] = [
      ["keep", () => "keep", KEPT, 0],
      ["giveBack", () => "giveBack", [0, 0, 0], 0],
      ["0", () => 0, [0, 0, 2], 0],
      ["fewer", () => 4, [4, 4, 2], 0],
      ["more", () => 30, [30, 30, 2], 0],
      ["a record", () => ({ a: 1, own: 7 }), [1, 5, 7], 0],
      ["a record of nothing", () => ({}), KEPT, 0],
      ["a record of names nobody knows", () => ({ elsewhere: 1 }), KEPT, 1],
      ["a promise", async () => 4, [4, 4, 2], 0],
      ["a promise that takes a while", () => later("giveBack", 30), [0, 0, 0], 0],
      ["a promise that takes too long", () => later("giveBack", 2000), KEPT, 1],
      ["a promise that is rejected", async () => fail(), KEPT, 1],
      ["nothing, for it throws", () => fail(), KEPT, 1],
      ["NaN", () => NaN, KEPT, 1],
      ["-1", () => -1, KEPT, 1],
      ["1.5", () => 1.5, KEPT, 1],
      ["Infinity", () => Infinity, KEPT, 1],
      ["undefined", () => undefined, KEPT, 1],
      ["null", () => null, KEPT, 1],
      ["a word that means nothing", () => "refund", KEPT, 1],
      ["a record with NaN in it", () => ({ a: NaN }), KEPT, 1],
      ["a list", () => [1, 2], KEPT, 1],
      ["true", () => true, KEPT, 1],
    ];

    it.each(answers)("%s", async (_, settle, expected, faults) => {
      const { limit, handlers, settled, used } = settling({
        policies: {
          a: quota(),
          b: tokenBucket({ capacity: 100, refillPerSecond: 1 }),
          own: fixedWindow({ limit: 100, window: "1h", cost: 2 }),
        },
        cost: 5,
        settle: settle as () => "keep",
        timeoutMs: 500,
      });
      await once(behaviours[0]!, handlers);
      const found = async () => JSON.stringify([await used(1), limit.events.length]);
      const due = JSON.stringify([expected, faults]);
      await eventually("settled", async () => (await found()) === due, 1000).catch(() => {});
      expect(await used(1)).toEqual(expected);
      expect(settled.length).toBe(expected === KEPT ? 0 : 1);
      expect(limit.events).toEqual(
        Array(faults).fill({ type: "warning", code: "TIDEGATE_SETTLE_FAULT", message: expect.any(String) }),
      );
    });

    it("more than there is, is owed: nothing remains, and the next has to wait longer", async () => {
      const bucket = tokenBucket({ capacity: 10, refillPerSecond: 1 });
      const { limit, handlers, used } = settling({ policies: { bucket }, settle: () => 15 });
      await once(behaviours[0]!, handlers);
      expect(await used(1)).toEqual([10]);
      expect(await limit.limiter.peek({ identity: CLIENT })).toMatchObject({
        allowed: false,
        retryAfterMs: 6000,
      });
    });
  });

  it("a request that is refused is never settled", async () => {
    const settle = vi.fn<() => "keep">(() => "keep");
    const policies = { one: fixedWindow({ limit: 1, window: "1h" }), slots: concurrency({ limit: 5 }) };
    const { handlers, settled, used } = settling({ policies, settle });
    const app = express();
    app.use(...handlers, (_, res) => void res.end());
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await request(app).get("/")).status);
    expect(statuses).toEqual([200, 429, 429, 429]);
    expect(await used(4)).toEqual([1, 0]);
    expect([settle.mock.calls.length, settled.length]).toEqual([1, 1]);
  });

  it("a request that is skipped is never settled", async () => {
    const settle = vi.fn<() => "giveBack">(() => "giveBack");
    const { handlers, used } = settling({ policies: { quota: quota() }, settle, skip: () => true });
    await once(behaviours[0]!, handlers);
    expect(await used(1)).toEqual([0]);
    expect(settle).not.toHaveBeenCalled();
  });

  it("two hundred at once, of which every third fails: the sum is exact", async () => {
    const { handlers, settled, used } = settling({
      policies: { quota: fixedWindow({ limit: 1000, window: "1h" }) },
      giveBackOn: "failure",
    });
    const app = express();
    app.use(...handlers, (req, res) => void res.status(req.get("x-status") ? 500 : 200).end());
    const server = listening(app);
    await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        request(server)
          .get("/")
          .set(i % 3 === 0 ? { "x-status": "500" } : {}),
      ),
    );
    expect(await used(200)).toEqual([133]);
    expect(settled).toHaveLength(67);
  });

  describe("A response that others have ended during the decision", () => {
    /** Decides so late that the response is through before. */
    const slowly = (store: Store): Store => ({
      ...store,
      decide: (batch, done) => void setTimeout(() => store.decide(batch, done), 40),
    });
    const ending =
      (how: (res: Response) => void): RequestHandler =>
      (_, res, next) => {
        setTimeout(() => how(res), 5);
        next();
      };

    it.each<[string, (res: Response) => void, "success" | "failure"]>([
      ["whole", (res) => void res.end("early"), "success"],
      ["with an error", (res) => void res.status(500).end("early"), "failure"],
      ["by cutting the connection", (res) => void res.destroy(), "failure"],
    ])("%s, is settled once", async (_, how, giveBackOn) => {
      const policies = { quota: quota(), slots: concurrency({ limit: 5 }) };
      const { handlers, settled, used } = settling({ policies, giveBackOn }, slowly(redis.store));
      const app = express();
      app.use(ending(how), ...handlers, (_, res) => void (res.writableEnded || res.end("late")));
      await request(listening(app))
        .get("/")
        .catch(() => {});
      await eventually("it is settled", () => settled.length > 0);
      expect(await used(1)).toEqual([0, 0]);
      expect(settled).toHaveLength(1);
    });
  });

  describe("Slots", () => {
    it.each(behaviours)("are free again after $name", async (behaviour) => {
      const { handlers, settled, used } = settling({ policies: { slots: concurrency({ limit: 2 }) } });
      let during: unknown;
      const look: RequestHandler = (req, _, next) => {
        during = req.rateLimit?.verdicts[0]?.remaining;
        next();
      };
      await once(behaviour, [...handlers, look]);
      expect(await used(1)).toEqual([0]);
      expect(during).toBe(1);
      expect(settled.map(({ units }) => units)).toEqual([1]);
    });

    it("are freed whatever settle says, and by it the rest is given back", async () => {
      const policies = { slots: concurrency({ limit: 2 }), quota: quota() };
      for (const [settle, left] of [
        [() => "keep", 1],
        [() => fail(), 1],
        [() => "giveBack", 0],
      ] as const) {
        await redis.client.flushall();
        const { handlers, used } = settling({ policies, settle: settle as () => "keep" });
        await once(behaviours[0]!, handlers);
        expect(await used(1)).toEqual([0, left]);
      }
    });

    it("of 20 slow requests at once with a limit of 5, five pass and 15 are refused", async () => {
      const { handlers, used } = settling({ policies: { slots: concurrency({ limit: 5 }) } });
      const { app, most, open } = slow(handlers);
      const server = listening(app);
      const answers = Array.from({ length: 20 }, () => request(server).get("/"));
      const statuses: number[] = [];
      const all = Promise.all(answers.map(async (answer) => statuses.push((await answer).status)));
      await eventually("fifteen are refused", () => statuses.length === 15, 20_000);
      open();
      await all;
      expect(statuses).toEqual([...Array(15).fill(429), ...Array(5).fill(200)]);
      expect(most()).toBe(5);
      expect(await used(20)).toEqual([0]);
    });

    it("20 slow requests that ask again when refused all pass, exactly five at a time", async () => {
      const { handlers } = settling({ policies: { slots: concurrency({ limit: 5 }) } });
      const { app, most, passed } = slow(handlers, 30);
      const server = listening(app);
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          while ((await request(server).get("/")).status !== 200)
            await new Promise((resolve) => setTimeout(resolve, 2));
        }),
      );
      expect([most(), passed()]).toEqual([5, 20]);
    });

    /** A handler that takes `ms`, or until `open` is called, and counts who is in it. */
    function slow(handlers: RequestHandler[], ms?: number) {
      let [inside, most, passed] = [0, 0, 0];
      let open = () => {};
      const opened = ms === undefined ? new Promise<void>((resolve) => (open = resolve)) : undefined;
      const app: Express = express();
      app.use(...handlers, async (_, res) => {
        most = Math.max(most, ++inside);
        passed++;
        await (opened ?? new Promise((resolve) => setTimeout(resolve, ms)));
        inside--;
        res.end();
      });
      return { app, most: () => most, passed: () => passed, open: () => open() };
    }
  });

  it("a store that fails to settle breaks nothing: the charge stays", async () => {
    const unhandled = vi.fn<(error: unknown) => void>();
    process.on("unhandledRejection", unhandled);
    onTestFinished(() => void process.off("unhandledRejection", unhandled));
    const memory = redis.storeOf("memory");
    const failing: Store = {
      ...memory,
      settle: (_, done) => done(Object.assign(new Error("gone"), { reason: "connection" }) as never, 0),
    };
    const { handlers, used, limit } = settling(
      { policies: { quota: quota() }, giveBackOn: "success" },
      failing,
    );
    expect(await once(behaviours[0]!, handlers)).toBe(200);
    expect(await used(1)).toEqual([1]);
    expect(limit.events.map(({ type }) => type)).toContain("storeError");
    expect(unhandled).not.toHaveBeenCalled();
  });
});

const later = <T>(value: T, ms: number) => new Promise<T>((resolve) => setTimeout(resolve, ms, value));

function fail(): never {
  throw new Error("a fault of the user's");
}
