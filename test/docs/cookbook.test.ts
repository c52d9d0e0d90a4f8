/** docs/cookbook: the code of every page is run as it stands, and does what the page says of it. */
import { createHmac } from "node:crypto";
import { readdirSync } from "node:fs";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type Limiter, memoryStore, tenant } from "@tidegate/core";
import type { Express, Request, RequestHandler, Response } from "express";
import { WebSocket } from "undici";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { ownRedis, type StoreKind, storeKinds, useRedis } from "../harness/http.ts";
import { freePort } from "../harness/redis.ts";
import { read, root } from "./markdown.ts";
import { type Asked, asking, codeOf, cook, limitersIn, type Reply } from "./recipes.ts";

const redis = useRedis();
const page = (name: string) => `docs/cookbook/${name}.md`;

/** A recipe on a store in the test's own time, and a way to ask its application. */
async function served(name: string, kind: StoreKind, values = {}, place = 0) {
  const made = await cook(page(name), place, { store: redis.storeOf(kind), values });
  return { made, ask: asking(made["app"] as Express) };
}

/** The same where nobody listens at its Redis. What limiters warn of is of no use here. */
async function servedAway(name: string, values = {}, rewrite?: readonly [string, string]) {
  vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  onTestFinished(() => void vi.restoreAllMocks());
  const made = await cook(page(name), 0, { values, ...(rewrite && { rewrite }) });
  return { made, ask: asking(made["app"] as Express) };
}

type Ask = ReturnType<typeof asking>;

/** One after the other. */
async function inTurn(count: number, act: (i: number) => Promise<Reply>): Promise<Reply[]> {
  const replies: Reply[] = [];
  for (let i = 0; i < count; i++) replies.push(await act(i));
  return replies;
}

const atOnce = (count: number, act: (i: number) => Promise<Reply>): Promise<Reply[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => act(i)));

/** The same, while the first of them wait in a handler: `answered` are those that have been answered by now. */
function begin(count: number, act: (i: number) => Promise<Reply>) {
  const answered: Reply[] = [];
  const replies = atOnce(count, async (i) => {
    const reply = await act(i);
    answered.push(reply);
    return reply;
  });
  return { replies, answered };
}

/** How many got each status. */
const tally = (replies: readonly Reply[]): Record<number, number> =>
  replies.reduce<Record<number, number>>((sum, { status }) => {
    return { ...sum, [status]: (sum[status] ?? 0) + 1 };
  }, {});

const violated = ({ body }: Reply): string[] => body["violated-policies"];

/** Moves the test's clock, and lets Redis forget what has had its time. */
async function advance(ms: number): Promise<void> {
  redis.clock.advance(ms);
  await redis.expire();
}

it("every page of the cookbook is in its index, has the same parts, and its code is run here", () => {
  const pages = readdirSync(join(root, "docs/cookbook")).filter((name) => name !== "README.md");
  const index = read("docs/cookbook/README.md");
  expect(pages.filter((name) => !index.includes(`(${name})`))).toEqual([]);
  const run = read("test/docs/cookbook.test.ts");
  for (const name of pages) {
    expect(run, name).toContain(`"${name.replace(".md", "")}"`);
    expect(read(`docs/cookbook/${name}`), name).toContain("\n## What an attacker tries\n");
    expect(read(`docs/cookbook/${name}`), name).toContain("\n## When Redis is away\n");
  }
});

describe("login", () => {
  const signIn = async (email: unknown, password: unknown) =>
    password === "right" ? String(email) : undefined;
  const login = (ask: Ask, email: unknown, password = "wrong", from = "203.0.113.1") =>
    ask("/login", { body: { email, password }, from });

  describe.each(storeKinds)("on %s", (kind) => {
    it("refuses the sixth failure of an account at an address, also with the right password", async () => {
      const { ask } = await served("login", kind, { signIn });
      const failed = await inTurn(5, () => login(ask, "anna@x.example"));
      expect(tally(failed)).toEqual({ 401: 5 });
      const refused = await login(ask, " ANNA@x.example", "right");
      expect([refused.status, violated(refused), refused.headers["retry-after"]]).toEqual([
        429,
        ["pair"],
        "900",
      ]);
      await advance(15 * 60_000);
      expect((await login(ask, "anna@x.example", "right")).status).toBe(200);
    });

    it("counts failures only, and leaves the owner at another address alone", async () => {
      const { ask } = await served("login", kind, { signIn });
      await inTurn(4, () => login(ask, "anna@x.example"));
      expect(tally(await inTurn(8, () => login(ask, "anna@x.example", "right")))).toEqual({ 200: 8 });
      expect((await login(ask, "anna@x.example")).status).toBe(401);
      expect((await login(ask, "anna@x.example")).status).toBe(429);
      expect((await login(ask, "anna@x.example", "right", "203.0.113.2")).status).toBe(200);
    });

    it("looks at five of ten guesses at one moment", async () => {
      const { ask } = await served("login", kind, { signIn });
      expect(tally(await atOnce(10, () => login(ask, "anna@x.example")))).toEqual({ 401: 5, 429: 5 });
    });

    it("blocks an address for an hour that has failed with thirty accounts, and no account", async () => {
      const { ask } = await served("login", kind, { signIn });
      expect(tally(await inTurn(30, (i) => login(ask, `user-${i}@x.example`)))).toEqual({ 401: 30 });
      const refused = await login(ask, "anna@x.example", "right");
      expect([refused.status, violated(refused)]).toEqual([429, ["address"]]);
      await eventually("the address is blocked", async () => {
        const { headers } = await login(ask, "anna@x.example", "right");
        return headers["retry-after"] === "3600";
      });
      expect((await login(ask, "user-1@x.example", "right", "203.0.113.2")).status).toBe(200);
      await advance(60 * 60_000);
      expect((await login(ask, "anna@x.example", "right")).status).toBe(200);
    });

    it("a good login of one's own wins back no guess at another account", async () => {
      const { ask } = await served("login", kind, { signIn });
      for (let i = 0; i < 5; i++) {
        expect((await login(ask, "anna@x.example")).status).toBe(401);
        expect((await login(ask, "eve@x.example", "right")).status).toBe(200);
      }
      expect((await login(ask, "anna@x.example", "right")).status).toBe(429);
      expect((await login(ask, { $ne: null })).status).toBe(401);
    });

    it("caps the guesses at one account, whatever the address", async () => {
      const { ask } = await served("login", kind, { signIn });
      const from = (i: number) => `203.0.113.${i}`;
      expect(tally(await atOnce(100, (i) => login(ask, "anna@x.example", "wrong", from(i))))).toEqual({
        401: 100,
      });
      const refused = await login(ask, "anna@x.example", "wrong", from(200));
      expect([refused.status, violated(refused)]).toEqual([429, ["account"]]);
    });

    it("counts by address what names no account", async () => {
      const { ask } = await served("login", kind, { signIn });
      const without = await inTurn(5, (i) => login(ask, i % 2 ? "" : undefined));
      expect(tally(without)).toEqual({ 401: 5 });
      expect(violated(await login(ask, " "))).toEqual(["pair"]);
    });
  });

  it("lets five failures of an address pass while Redis is away", async () => {
    const { ask } = await servedAway("login", { signIn });
    expect((await login(ask, "anna@x.example", "right")).status).toBe(200);
    const failed = await inTurn(7, (i) => login(ask, `user-${i}@x.example`));
    expect(tally(failed)).toEqual({ 401: 5, 429: 2 });
  });
});

describe("one-time-codes", () => {
  const values = () => {
    const sent: string[] = [];
    return {
      sent,
      sendCode: async (phone: string) => void sent.push(phone),
      isRight: async (_: string, code: unknown) => code === "123456",
    };
  };
  const post = (ask: Ask, path: string, phone: string, code?: string) => ask(path, { body: { phone, code } });

  describe.each(storeKinds)("on %s", (kind) => {
    it("sends one a minute and five a day to a number, whichever route and spelling", async () => {
      const given = values();
      const { ask } = await served("one-time-codes", kind, given);
      for (let i = 0; i < 5; i++) {
        expect((await post(ask, i % 2 ? "/codes/again" : "/codes", "+49 (170) 1234567")).status).toBe(202);
        const soon = await post(ask, i % 2 ? "/codes" : "/codes/again/", "+491701234567");
        expect(soon.status).toBe(429);
        expect(violated(soon)).toEqual(i < 4 ? ["pause"] : ["pause", "phone"]);
        await advance(60_000);
      }
      expect(given.sent).toEqual(Array(5).fill("+491701234567"));
      const refused = await post(ask, "/codes", "+491701234567");
      expect([violated(refused), refused.headers["retry-after"]]).toEqual([["phone"], "86100"]);
    });

    it("sends ten an hour for an address, however many numbers", async () => {
      const { ask } = await served("one-time-codes", kind, values());
      const replies = await inTurn(11, (i) => post(ask, "/codes", `+4917012345${i + 10}`));
      expect(tally(replies)).toEqual({ 202: 10, 429: 1 });
      expect(violated(replies.at(-1)!)).toEqual(["address"]);
    });

    it("looks at ten wrong guesses a day, and right ones cost nothing", async () => {
      const { ask } = await served("one-time-codes", kind, values());
      const check = (code: string) => post(ask, "/codes/check", "+491701234567", code);
      expect(tally(await inTurn(5, () => check("123456")))).toEqual({ 200: 5 });
      expect(tally(await atOnce(30, () => check("000000")))).toEqual({ 401: 10, 429: 20 });
      expect((await check("123456")).status).toBe(429);
      expect((await post(ask, "/codes/check", "+491701234568", "123456")).status).toBe(200);
    });

    it("has a budget for everybody", async () => {
      const { ask } = await served("one-time-codes", kind, values());
      expect((await post(ask, "/codes", "+491701234567")).left).toBe(
        "address 9, everybody 4999, pause 0, phone 4",
      );
      expect((await post(ask, "/codes", "+491701234568")).left).toBe(
        "address 8, everybody 4998, pause 0, phone 4",
      );
    });
  });

  it("sends nothing while Redis is away, and says when to come again", async () => {
    const given = values();
    const { ask } = await servedAway("one-time-codes", given);
    const refused = await post(ask, "/codes", "+491701234567");
    expect([refused.status, refused.headers["retry-after"], given.sent]).toEqual([503, "5", []]);
  });
});

describe("plans", () => {
  const customers = () =>
    new Map([
      ["free-1", { tenant: "acme", plan: "free" }],
      ["free-2", { tenant: "acme", plan: "free" }],
      ["pro-1", { tenant: "globex", plan: "pro" }],
    ]);
  const report = (ask: Ask, key: string) => ask("/report", { headers: { "x-api-key": key } });

  describe.each(storeKinds)("on %s", (kind) => {
    it("gives each plan its numbers, and tells them", async () => {
      const { ask } = await served("plans", kind, { customers: customers() });
      const free = await report(ask, "free-1");
      expect(free.headers["ratelimit-policy"]).toBe('"burst";q=10;w=10, "month";q=10000;w=2678400');
      expect([free.status, free.left]).toEqual([200, "burst 5, month 9995"]);
      const pro = await report(ask, "pro-1");
      expect(pro.headers["ratelimit-policy"]).toBe('"burst";q=100;w=5, "month";q=1000000;w=2678400');
      expect(pro.left).toBe("burst 95, month 999995");
    });

    it("counts the keys of a tenant together", async () => {
      const { ask } = await served("plans", kind, { customers: customers() });
      await report(ask, "free-1");
      expect((await report(ask, "free-2")).left).toBe("burst 0, month 9990");
      expect(violated(await report(ask, "free-1"))).toEqual(["burst"]);
      expect((await report(ask, "pro-1")).status).toBe(200);
    });

    it("keeps what was used when a customer changes plans", async () => {
      const known = customers();
      const { ask } = await served("plans", kind, { customers: known });
      await inTurn(2, () => report(ask, "free-1"));
      known.set("free-1", { tenant: "acme", plan: "pro" });
      await advance(1000);
      const { status, left } = await report(ask, "free-1");
      expect([status, left]).toEqual([200, "burst 15, month 999985"]);
    });

    it("counts strangers by address, by the free plan", async () => {
      const { ask } = await served("plans", kind, { customers: customers() });
      const replies = await inTurn(3, (i) => report(ask, `invented-${i}`));
      expect(replies.map(({ status }) => status)).toEqual([401, 401, 429]);
    });
  });

  it("serves everybody while Redis is away, and invents no numbers", async () => {
    const { ask } = await servedAway("plans", { customers: customers() });
    const replies = await inTurn(5, () => report(ask, "free-1"));
    expect(tally(replies)).toEqual({ 200: 5 });
    expect(replies[0]!.headers).not.toHaveProperty("ratelimit");
  });

  it("serves nobody while Redis is away where a policy says closed", async () => {
    const rewrite = [
      'limit: 10_000, window: "month"',
      'limit: 10_000, window: "month", onFailure: "closed"',
    ] as const;
    const { ask } = await servedAway("plans", { customers: customers() }, rewrite);
    expect((await report(ask, "pro-1")).status).toBe(503);
  });
});

describe("graphql", () => {
  const send = (ask: Ask, body: unknown) => ask("/graphql", { body });
  const costOf = async (ask: Ask, body: unknown) => {
    const { status, left, headers } = await send(ask, body);
    expect(status === 200 || headers["retry-after"] === undefined, `${status}`).toBe(true);
    return status === 200 ? 1000 - Number(left.split(" ")[1]) : "never";
  };
  /** Each doubles the next: 2^20 fields in a few lines. */
  const bomb = `query { books { ...f0 } } ${Array.from({ length: 20 }, (_, i) =>
    i < 19
      ? `fragment f${i} on Book { ...f${i + 1} a${i}: title ...g${i} } fragment g${i} on Book { ...f${i + 1} }`
      : `fragment f${i} on Book { title }`,
  ).join(" ")}`;

  describe.each(storeKinds)("on %s", (kind) => {
    it.each<[string, unknown, number | "never"]>([
      ["a list of three", { query: "{ books(first: 3) { title } }" }, 4],
      ["the schema's default", { query: "{ books { title } }" }, 11],
      ["lists in lists", { query: "{ books(first: 5) { title authors(first: 4) { name } } }" }, 31],
      [
        "a number in a variable",
        { query: "query ($n: Int!) { books(first: $n) { title } }", variables: { n: 7 } },
        8,
      ],
      ["two aliases", { query: "{ a: books(first: 3) { title } b: books(first: 3) { title } }" }, 8],
      [
        "a fragment, twice",
        { query: "{ a: books(first: 2) { ...f } b: books(first: 2) { ...f } } fragment f on Book { title }" },
        6,
      ],
      [
        "an array of two operations",
        [{ query: "{ books(first: 3) { title } }" }, { query: "{ books(first: 4) { title } }" }],
        9,
      ],
      ["a broken one among them", [{ query: "{ books(first: 3) { title } }" }, { query: "{" }], 5],
      ["a negative number", { query: "{ books(first: -5) { title } }" }, 2],
      ["no query at all", {}, 1],
      ["an empty array", [], 1],
      [
        "a thousand by a thousand",
        { query: "{ books(first: 1000) { authors(first: 1000) { name } } }" },
        "never",
      ],
      ["fragments that double each other", { query: bomb }, "never"],
    ])("%s", async (_, body, cost) => {
      const { ask } = await served("graphql", kind);
      expect(await costOf(ask, body)).toBe(cost);
    });

    it("reads no more than 20 kB, and parses no more than a thousand tokens", async () => {
      const { ask } = await served("graphql", kind);
      expect((await send(ask, { query: `{ books { title } } #${"x".repeat(20_480)}` })).status).toBe(413);
      const { body, left } = await send(ask, { query: `{ books(first: 1) { ${"title ".repeat(1000)} } }` });
      expect([body.errors[0].message, left]).toEqual([
        expect.stringContaining("1000 tokens"),
        "complexity 999",
      ]);
    });

    it("answers what it has let in, and charges nothing for what it refuses", async () => {
      const { ask } = await served("graphql", kind);
      const { body } = await send(ask, { query: "{ books(first: 1) { title authors(first: 1) { name } } }" });
      expect(body).toEqual({ data: { books: [{ title: "Book 1", authors: [{ name: "Author 1" }] }] } });
      const large = { query: "{ books(first: 400) { title authors(first: 1) { name } } }" };
      expect((await send(ask, large)).status).toBe(429);
      expect((await send(ask, { query: "{ books(first: 1) { title } }" })).left).toBe("complexity 994");
    });
  });

  it("refuses what is too large while Redis is away, where a local policy is given", async () => {
    const page = read("docs/cookbook/graphql.md");
    const [, rule] = /say `(onFailure: .*?\} \})`/.exec(page)!;
    const { ask } = await servedAway("graphql", {}, ['prefix: "graphql",', `prefix: "graphql", ${rule},`]);
    const large = "{ books(first: 900) { title authors(first: 2) { name } } }";
    expect((await send(ask, { query: large })).status).toBe(429);
    expect((await send(ask, { query: "{ books(first: 3) { title } }" })).left).toBe("complexity 996");
  });

  it("passes while Redis is away", async () => {
    const { ask } = await servedAway("graphql");
    expect(
      (await send(ask, { query: "{ books(first: 900) { title authors(first: 2) { name } } }" })).status,
    ).toBe(200);
  });
});

describe("websocket", () => {
  /** The server of the page on a port of its own, until the test is over. */
  async function serving(cooking: Parameters<typeof cook>[2]): Promise<number> {
    const port = await freePort();
    vi.stubEnv("PORT", String(port));
    const { server } = await cook(page("websocket"), 0, cooking);
    onTestFinished(() => {
      for (const socket of server.clients) socket.terminate();
      server.close();
    });
    return port;
  }

  async function connected(port: number, query = "") {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/${query}`);
    const heard: string[] = [];
    const closed = new Promise<{ code: number }>((resolve) => {
      socket.addEventListener("close", ({ code }) => resolve({ code }));
    });
    socket.addEventListener("message", ({ data }) => void heard.push(data as string));
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", reject);
    });
    const say = async (count: number, text = "hi") => {
      const before = heard.length;
      for (let i = 0; i < count; i++) socket.send(text);
      await eventually(`${count} answers`, () => heard.length === before + count, 20_000);
      return heard.slice(before);
    };
    return { heard, closed, say, send: (text: string) => socket.send(text) };
  }

  const SLOW = '{"error":"slow down","retryAfterMs":200}';

  describe.each(storeKinds)("on %s", (kind) => {
    it("answers twenty at once, tells the rest to slow down, and goes on when they do", async () => {
      const anna = await connected(await serving({ store: redis.storeOf(kind) }), "?session=7f3a");
      expect(await anna.say(22)).toEqual([...Array(20).fill("echo: hi"), SLOW, SLOW]);
      await advance(400);
      expect(await anna.say(3)).toEqual(["echo: hi", "echo: hi", SLOW]);
    });

    it("closes with 1008 whoever goes on for more than ten", async () => {
      const anna = await connected(await serving({ store: redis.storeOf(kind) }), "?session=7f3a");
      for (let i = 0; i < 31; i++) anna.send("hi");
      expect(await anna.closed).toEqual({ code: 1008 });
      expect(anna.heard).toEqual([...Array(20).fill("echo: hi"), ...Array(10).fill(SLOW)]);
    });

    it("counts a user's sockets together, others apart, and invented sessions by address", async () => {
      const port = await serving({ store: redis.storeOf(kind) });
      const [anna, again, bert] = [
        await connected(port, "?session=7f3a"),
        await connected(port, "?session=7f3a"),
        await connected(port, "?session=c41d"),
      ];
      await anna.say(20);
      expect(await again.say(1)).toEqual([SLOW]);
      expect(await bert.say(1)).toEqual(["echo: hi"]);
      await (await connected(port, "?session=invented")).say(20);
      expect(await (await connected(port)).say(1)).toEqual([SLOW]);
    });

    it("stands when the request is for what is no URL", async () => {
      const port = await serving({ store: redis.storeOf(kind) });
      expect(await (await connected(port, "/")).say(1)).toEqual(["echo: hi"]);
    });

    it("closes with 1009 at a message that is too large", async () => {
      const anna = await connected(await serving({ store: redis.storeOf(kind) }), "?session=7f3a");
      anna.send("x".repeat(64 * 1024 + 1));
      expect(await anna.closed).toEqual({ code: 1009 });
    });

    it("counts kilobytes besides", async () => {
      const anna = await connected(await serving({ store: redis.storeOf(kind) }), "?session=7f3a");
      expect((await anna.say(16, "x".repeat(60 * 1024))).every((text) => text.startsWith("echo:"))).toBe(
        true,
      );
      await anna.say(1, "x".repeat(60 * 1024));
      expect(await anna.say(1, "x".repeat(60 * 1024))).toEqual([expect.stringContaining("slow down")]);
    });
  });

  it("decides by this process alone while Redis is away", async () => {
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => void vi.restoreAllMocks());
    vi.stubEnv("INSTANCES", "4");
    const anna = await connected(await serving({}), "?session=7f3a");
    const answers = await anna.say(9);
    expect(answers.slice(0, 5)).toEqual(Array(5).fill("echo: hi"));
    expect(answers.at(-1)).toContain("slow down");
  });
});

describe("llm-tokens", () => {
  const nameOf = (req: Request) => req.get("x-user") ?? "anna";
  const tokensIn = (prompt: string) => prompt.length;

  /** A model that gives a piece of 350 tokens at each turn, and may be told to wait or to fail. */
  function model(pieces = 2) {
    const state = {
      running: 0,
      open: Promise.resolve() as Promise<unknown>,
      fails: false,
      gone: false,
      between: async () => {},
    };
    const complete = async function* () {
      state.running++;
      await state.open;
      for (let i = 0; i < pieces; i++) {
        if (state.fails && i === 1) throw new Error("the model has gone");
        if (i > 0) await state.between();
        yield { text: "word ", tokens: 350 };
      }
    };
    return { state, values: { nameOf, tokensIn, complete } };
  }
  const chat = (ask: Ask, prompt = "0123456789", headers = {}) => ask("/chat", { body: { prompt }, headers });
  const remaining = async ({ limiter }: Record<string, any>) =>
    (await (limiter as Limiter).peek({ identity: { kind: "user", value: "anna" }, cost: 1 })).verdicts.map(
      (verdict) => verdict.remaining,
    );

  describe.each(storeKinds)("on %s", (kind) => {
    it("charges what an answer cost, and frees its slot", async () => {
      const { made, ask } = await served("llm-tokens", kind, model().values);
      expect((await chat(ask)).status).toBe(200);
      await eventually("it is settled", async () => (await remaining(made))[2] === 3);
      expect(await remaining(made)).toEqual([49_300, 499_300, 3]);
    });

    it("lets three of twenty run at once, and the others cost nothing", async () => {
      const { state, values } = model();
      let open = () => {};
      state.open = new Promise<void>((resolve) => (open = resolve));
      const { made, ask } = await served("llm-tokens", kind, values);
      const { replies, answered } = begin(20, () => chat(ask));
      await eventually("17 are refused", () => answered.length === 17, 20_000);
      expect(state.running).toBe(3);
      await eventually("three are charged", async () => (await remaining(made))[0] === 50_000 - 3 * 4010);
      open();
      const [refused] = answered;
      expect(tally(await replies)).toEqual({ 200: 3, 429: 17 });
      expect([refused!.body.refused, refused!.headers["retry-after"]]).toEqual([["running"], "1"]);
      await eventually("all are settled", async () => (await remaining(made))[2] === 3);
      expect(await remaining(made)).toEqual([50_000 - 3 * 700, 500_000 - 3 * 700, 3]);
    });

    it("charges what was made until a model fails", async () => {
      const { state, values } = model();
      state.fails = true;
      const { made, ask } = await served("llm-tokens", kind, values);
      await chat(ask).catch(() => {}); // its answer is cut off
      await eventually("it is settled", async () => (await remaining(made))[2] === 3);
      expect(await remaining(made)).toEqual([49_650, 499_650, 3]);
    });

    it("charges what was made until a client hangs up", async () => {
      const { state, values } = model(1000);
      const { made } = await served("llm-tokens", kind, values);
      state.between = () => eventually("the client has gone", () => state.gone, 20_000);
      const server = (made["app"] as Express).listen(0);
      onTestFinished(() => void server.close());
      const { port } = server.address() as AddressInfo;
      const asked = httpRequest({
        port,
        path: "/chat",
        method: "POST",
        headers: { "content-type": "application/json" },
      });
      server.on("connection", (socket) => socket.on("close", () => (state.gone = true)));
      asked.on("error", () => {});
      asked.on("response", (response) => response.once("data", () => asked.destroy()));
      asked.end('{"prompt":"0123456789"}');
      await eventually("it is settled", async () => {
        const [tokens, , running] = await remaining(made);
        return state.gone && running === 3 && tokens !== 50_000;
      });
      // One piece before it went, and the one that was under way.
      expect(await remaining(made)).toEqual([49_300, 499_300, 3]);
    });

    it("says how long to wait when there are no tokens", async () => {
      const { made, ask } = await served("llm-tokens", kind, model(0).values);
      await (made["limiter"] as Limiter).reserve({ identity: { kind: "user", value: "anna" }, cost: 48_000 });
      const refused = await chat(ask);
      // 2,010 tokens are missing, at 500 a second.
      expect([refused.status, refused.body.refused, refused.headers["retry-after"]]).toEqual([
        429,
        ["tokens"],
        "5",
      ]);
    });

    it("the middleware settles by what the handler has noted", async () => {
      const answer = async () => ({ text: "yes", tokens: 700 });
      const { made, ask } = await served("llm-tokens", kind, { nameOf, tokensIn, answer }, 1);
      expect((await ask("/ask", { body: { prompt: "0123456789" } })).left).toBe("day 495990");
      const [limiter] = limitersIn(made);
      await eventually("it is settled", async () => {
        const { verdicts } = await limiter!.peek({ identity: { kind: "user", value: "anna" } });
        return verdicts[0]!.remaining === 499_300;
      });
    });
  });

  it("has a smaller budget of its own while Redis is away", async () => {
    const { ask } = await servedAway("llm-tokens", model().values);
    expect((await chat(ask)).status).toBe(200);
    const refused = await chat(ask, "x".repeat(6000));
    expect([refused.status, refused.body.refused]).toEqual([429, ["tokensHere"]]);
  });
});

describe("uploads", () => {
  /** Sends what it is told, whatever the head says; gives the answer, or nothing when it hangs up. */
  function upload(app: Express, headers: Record<string, string | number>, sent: string, hangUp = false) {
    const server = app.listen(0);
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    return new Promise<{ status: number; text: string; fields: Record<string, unknown> } | undefined>(
      (resolve) => {
        const asked = httpRequest({ port, path: "/files", method: "POST", headers }, (response) => {
          let text = "";
          response.on("data", (chunk) => (text += chunk));
          response.on("end", () => {
            asked.destroy();
            resolve({ status: response.statusCode!, text, fields: response.headers });
          });
        });
        asked.on("error", () => resolve(undefined));
        asked.write(sent);
        if (hangUp) setTimeout(() => asked.destroy(), 100);
        else if (!("content-length" in headers) || headers["content-length"] === sent.length) asked.end();
      },
    );
  }

  const LOCAL = { kind: "ip", value: "127.0.0.1" };
  const left = async (made: Record<string, any>) => {
    const [limiter] = limitersIn(made);
    const { verdicts } = await limiter!.peek({ identity: LOCAL, cost: 1 });
    return verdicts.map((verdict) => verdict.remaining);
  };

  describe.each(storeKinds)("on %s", (kind) => {
    it("counts a file and its bytes", async () => {
      const { made } = await served("uploads", kind);
      const answer = await upload(made["app"], { "content-length": 1000 }, "x".repeat(1000));
      expect([answer!.status, answer!.text]).toEqual([201, '{"size":1000}']);
      expect(answer!.fields["ratelimit-policy"]).toBe(
        '"files";q=60;w=3600, "bytes";q=50000000;qu="content-bytes";w=1000',
      );
      await eventually("it is settled", async () => (await left(made))[1] === 49_999_000);
      expect((await left(made))[0]).toBe(59);
    });

    it("takes what says no length for the largest, and gives back what did not come", async () => {
      const { made } = await served("uploads", kind);
      const answer = await upload(made["app"], { "transfer-encoding": "chunked" }, "hello");
      expect([answer!.status, answer!.fields["ratelimit"]]).toEqual([
        201,
        expect.stringContaining('"bytes";r=30000000'),
      ]);
      await eventually("it is settled", async () => (await left(made))[1] === 49_999_995);
    });

    it("charges what came of one that hangs up", async () => {
      const { made } = await served("uploads", kind);
      expect(
        await upload(made["app"], { "content-length": 20_000_000 }, "x".repeat(5000), true),
      ).toBeUndefined();
      await eventually("it is settled", async () => (await left(made))[1] === 49_995_000, 20_000);
    });

    it("answers 413 to what can never pass, and 429 to what can later", async () => {
      const { made } = await served("uploads", kind);
      const never = await upload(made["app"], { "content-length": 60_000_000 }, "x");
      expect([never!.status, never!.fields["retry-after"], JSON.parse(never!.text).title]).toEqual([
        413,
        undefined,
        "Content Too Large",
      ]);
      void upload(made["app"], { "content-length": 45_000_000 }, "x");
      await eventually("it is charged", async () => (await left(made))[1] === 5_000_000);
      const later = await upload(made["app"], { "content-length": 6_000_000 }, "x");
      expect([later!.status, later!.fields["retry-after"]]).toEqual([429, "20"]);
    });
  });

  it("passes while Redis is away, up to the largest", async () => {
    const { made } = await servedAway("uploads");
    expect((await upload(made["app"], { "content-length": 5 }, "hello"))!.status).toBe(201);
    const tooLarge = await upload(made["app"], { "transfer-encoding": "chunked" }, "x".repeat(20_000_001));
    expect(tooLarge!.status).toBe(413);
  });

  it("takes a part of the bytes in each process while Redis is away, where that is asked for", async () => {
    const rewrite = ['prefix: "files",', 'prefix: "files", onFailure: "local", instances: 4,'] as const;
    const { made } = await servedAway("uploads", {}, rewrite);
    const small = await upload(made["app"], { "content-length": 5 }, "hello");
    expect([small!.status, small!.fields["ratelimit-policy"]]).toEqual([
      201,
      '"files";q=15;w=3600, "bytes";q=12500000;qu="content-bytes";w=1000',
    ]);
    expect((await upload(made["app"], { "transfer-encoding": "chunked" }, "hello"))!.status).toBe(413);
  });
});

describe("webhooks, out", () => {
  /** Somebody who gets them; `answer` says how. */
  async function receiver(answer: (count: number) => [status: number, headers?: Record<string, string>]) {
    const came: number[] = [];
    const server: Server = createServer((_req, res) => {
      came.push(performance.now());
      res.writeHead(...answer(came.length)).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return { came, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
  }

  /** Waiting is of real time, so these are too. */
  const realStores: [string, () => Promise<Parameters<typeof cook>[2]>][] = [
    ["Redis", async () => ({ url: (await ownRedis()).url })],
    ["memory", async () => ({ store: memoryStore() })],
  ];

  describe.each(realStores)("on %s", (_, cooking) => {
    it("sends evenly, one each 50 ms", async () => {
      const { came, url } = await receiver(() => [204]);
      const { deliver } = await cook(page("webhooks"), 0, await cooking());
      const start = performance.now();
      const statuses = await Promise.all(Array.from({ length: 8 }, () => deliver({ url, body: "{}" })));
      expect(statuses).toEqual(Array(8).fill(204));
      // Seven intervals at least. How late a call arrives is the machine's.
      expect(came.at(-1)! - start).toBeGreaterThan(7 * 50 - 10);
    });

    it("waits for as long as a receiver asks, and sends to others meanwhile", async () => {
      const busy = await receiver((count) => (count === 1 ? [429, { "retry-after": "1" }] : [204]));
      const well = await receiver(() => [204]);
      const { deliver } = await cook(page("webhooks"), 0, await cooking());
      expect(await deliver({ url: busy.url, body: "{}" })).toBe(429);
      const again = deliver({ url: busy.url, body: "{}" });
      expect(await deliver({ url: well.url, body: "{}" })).toBe(204);
      expect(busy.came).toHaveLength(1);
      expect(await again).toBe(204);
      expect(busy.came[1]! - busy.came[0]!).toBeGreaterThan(950);
    });
  });

  it("leaves a receiver alone for an hour at most", async () => {
    const { url } = await receiver(() => [429, { "retry-after": "999999999" }]);
    const { deliver, limiter } = await cook(page("webhooks"), 0, { store: memoryStore() });
    expect(await deliver({ url, body: "{}" })).toBe(429);
    const { blocked, retryAfterMs } = await (limiter as Limiter).peek({ identity: new URL(url).host });
    expect(blocked).toBe(true);
    expect(retryAfterMs).toBeLessThanOrEqual(3_600_000);
    expect(retryAfterMs).toBeGreaterThan(3_500_000);
  });

  it("is slower while Redis is away", async () => {
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => void vi.restoreAllMocks());
    const { came, url } = await receiver(() => [204]);
    const { deliver } = await cook(page("webhooks"), 0, {});
    const start = performance.now();
    await Promise.all(Array.from({ length: 4 }, () => deliver({ url, body: "{}" })));
    expect(came.at(-1)! - start).toBeGreaterThan(3 * 200 - 10);
  });
});

describe("webhooks, in", () => {
  const secretOf = (name: string) => ({ acme: "s1", globex: "s2" })[name];
  const values = () => {
    const queue: string[] = [];
    return {
      queue,
      secretOf,
      enqueue: async (name: string, event: Buffer) => void queue.push(`${name} ${String(event)}`),
    };
  };
  const event = (ask: Ask, name: string, { id, secret }: { id?: string; secret?: string } = {}) => {
    const body = '{"paid":true}';
    const signature = createHmac("sha256", secret ?? secretOf(name)!)
      .update(body)
      .digest("hex");
    const headers: Record<string, string> = { "x-signature": signature, "content-type": "application/json" };
    if (id !== undefined) headers["x-delivery-id"] = id;
    return ask(`/hooks/${name}`, { body, headers } as Asked);
  };

  describe.each(storeKinds)("on %s", (kind) => {
    it("limits each tenant for itself, and takes none of it for a bad signature", async () => {
      const given = values();
      const { ask } = await served("webhooks", kind, given, 1);
      expect((await event(ask, "acme", { secret: "guessed" })).status).toBe(401);
      expect((await event(ask, "acme")).left).toBe("address 2998, events 199");
      expect((await event(ask, "globex")).left).toBe("address 2997, events 199");
      expect(given.queue).toEqual(['acme {"paid":true}', 'globex {"paid":true}']);
    });

    it("makes no hash for an address that asks too often", async () => {
      const asked: string[] = [];
      const counting = { ...values(), secretOf: (name: string) => void asked.push(name) };
      const rewrite = ["limit: 3000", "limit: 2"] as const;
      const { app } = await cook(page("webhooks"), 1, {
        store: redis.storeOf(kind),
        values: counting,
        rewrite,
      });
      const ask = asking(app as Express);
      const replies = await inTurn(4, () => event(ask, "acme"));
      expect(replies.map(({ status }) => status)).toEqual([401, 401, 429, 429]);
      expect(asked).toEqual(["acme", "acme"]);
    });

    it("refuses the 201st of a tenant, and says when to come again", async () => {
      const { ask } = await served("webhooks", kind, values(), 1);
      expect(tally(await atOnce(201, () => event(ask, "acme")))).toEqual({ 202: 200, 429: 1 });
      const refused = await event(ask, "acme");
      expect([violated(refused), refused.headers["retry-after"]]).toEqual([["events"], "1"]);
      expect((await event(ask, "globex")).status).toBe(202);
    });

    it("charges a delivery once that comes again, three times", async () => {
      const { ask } = await served("webhooks", kind, values(), 1);
      const seen = await inTurn(5, () => event(ask, "acme", { id: "d-1" }));
      expect(seen.map((reply) => reply.left.split(", ")[1])).toEqual([
        ...Array(4).fill("events 199"),
        "events 198",
      ]);
    });
  });

  it("answers 503 while Redis is away, and enqueues nothing", async () => {
    vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => void vi.restoreAllMocks());
    const given = values();
    const { app } = await cook(page("webhooks"), 1, { values: given });
    const reply = await event(asking(app as Express), "acme");
    expect([reply.status, reply.headers["retry-after"], given.queue]).toEqual([503, "5", []]);
  });
});

describe("fairness", () => {
  /** Work that waits until it is told to end. */
  function slowWork() {
    const begun: string[] = [];
    let open = () => {};
    const opened = new Promise<void>((resolve) => (open = resolve));
    const authenticate: RequestHandler = (req, _res, next) => {
      Object.assign(req, { tenant: req.get("x-tenant") });
      next();
    };
    const work = async (req: Request, res: Response) => {
      begun.push(String(req.get("x-tenant")));
      await opened;
      res.end("done");
    };
    return { begun, open, values: { authenticate, work } };
  }
  const call = (ask: Ask, name: string) => ask("/api/import", { headers: { "x-tenant": name } });

  describe.each(storeKinds)("on %s", (kind) => {
    it("gives a tenant ten slots at most, and four greedy ones all forty", async () => {
      const { begun, open, values } = slowWork();
      const { ask } = await served("fairness", kind, values);
      const greedy = begin(40, () => call(ask, "a"));
      await eventually("thirty are refused", () => greedy.answered.length === 30, 20_000);
      expect(begun).toHaveLength(10);
      const others = ["b", "c", "d"].map((name) => atOnce(10, () => call(ask, name)));
      await eventually("forty are at work", () => begun.length === 40, 20_000);
      const late = await call(ask, "e");
      expect([late.status, violated(late), late.headers["retry-after"]]).toEqual([429, ["all"], "1"]);
      open();
      expect(tally(await greedy.replies)).toEqual({ 200: 10, 429: 30 });
      for (const replies of await Promise.all(others)) expect(tally(replies)).toEqual({ 200: 10 });
      await eventually("there is room again", async () => (await call(ask, "e")).status === 200, 20_000);
    });

    it("frees the slot of a client that hangs up, though its work goes on", async () => {
      const { begun, open, values } = slowWork();
      const { made } = await served("fairness", kind, values);
      const server = (made["app"] as Express).listen(0);
      onTestFinished(() => {
        open();
        server.closeAllConnections();
        server.close();
      });
      const { port } = server.address() as AddressInfo;
      const asked = httpRequest({ port, path: "/api/import", headers: { "x-tenant": "a" } });
      asked.on("error", () => {});
      asked.end();
      await eventually("it is at work", () => begun.length === 1);
      const [limiter] = limitersIn(made);
      const free = async () => (await limiter!.peek({ identity: tenant("a") })).verdicts[1]!.remaining;
      expect(await free()).toBe(9);
      asked.destroy();
      await eventually("the slot is free", async () => (await free()) === 10, 20_000);
    });

    it("counts slots of each route where that is asked for", async () => {
      const { open, begun, values } = slowWork();
      const { default: express } = await import("express");
      const app = express().use(values.authenticate);
      await cook(page("fairness"), 1, { store: redis.storeOf(kind), values: { app } });
      const ask = asking(app.use(values.work));
      const post = () => ask("/exports", { method: "POST", headers: { "x-tenant": "a" } });
      const exporting = begin(3, post);
      await eventually("one is refused", () => exporting.answered.length === 1 && begun.length === 2);
      const searching = ask("/search", { headers: { "x-tenant": "a" } });
      await eventually("and a search", () => begun.length === 3);
      open();
      expect(tally(await exporting.replies)).toEqual({ 200: 2, 429: 1 });
      expect((await searching).status).toBe(200);
    });
  });

  it("keeps a quarter of it in each process while Redis is away", async () => {
    const { begun, open, values } = slowWork();
    const { ask } = await servedAway("fairness", values);
    const { replies, answered } = begin(5, () => call(ask, "a"));
    await eventually("three are refused", () => answered.length === 3 && begun.length === 2);
    open();
    expect(tally(await replies)).toEqual({ 200: 2, 429: 3 });
  });
});

it("every code block of the cookbook is run above", () => {
  const pages = readdirSync(join(root, "docs/cookbook")).map((name) => `docs/cookbook/${name}`);
  const counts = pages.map((file) => [file.replace(/^.*\//, ""), codeOf(file).length]);
  expect(Object.fromEntries(counts.filter(([, count]) => Number(count) > 0))).toEqual({
    "fairness.md": 2,
    "graphql.md": 1,
    "llm-tokens.md": 2,
    "login.md": 1,
    "one-time-codes.md": 1,
    "plans.md": 1,
    "uploads.md": 1,
    "webhooks.md": 2,
    "websocket.md": 1,
  });
});
