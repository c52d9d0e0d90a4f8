/** Every ts block of the framework pages is run, and does what its page says of it. */
import { type Identity, ipOf, type Limiter } from "@tidegate/core";
import { describe, expect, it } from "vitest";
import { type Ask, type Kit, kits, type Reply, run, type Site } from "./framework-kits.ts";
import { type Block, blocksOf, read, sectionOf } from "./markdown.ts";

/** What a page says of a block. */
interface Play {
  readonly promise: string;
  readonly check: (site: Site) => Promise<void>;
  /** Whether unknown paths are left to the framework. */
  readonly bare?: boolean;
}

const from = (...addresses: string[]): Ask => ({ headers: { "x-forwarded-for": addresses.join(", ") } });
const post = (headers: Record<string, string> = {}): Ask => ({ method: "POST", headers });
const right = post({ "x-password": "right" });
const NOTHING = { status: 200, policy: undefined, left: "" };

/** `count` requests at once. */
const asks = ({ ask }: Site, count: number, path?: string, how?: Ask): Promise<Reply[]> =>
  Promise.all(Array.from({ length: count }, () => ask(path, how)));

const statusesOf = (replies: readonly Reply[]): number[] => replies.map(({ status }) => status);
/** Who asks in these tests, to whoever counts by address. */
const ADDRESS = ipOf("127.0.0.1");
/** What each policy has left for somebody, in the order of the configuration. */
const remainingOf = async (limiter: Limiter, identity: Identity): Promise<number[]> =>
  (await limiter.peek({ identity })).verdicts.map(({ remaining }) => remaining);

const violated = ({ text }: Reply): string[] => JSON.parse(text)["violated-policies"];

const hundred: Play = {
  promise: "lets 100 a minute pass for each address, and answers the next with 429 and a problem",
  async check(site) {
    expect(await site.ask()).toMatchObject({
      status: 200,
      policy: '"default";q=100;w=60',
      left: "default 99",
      text: "hello",
    });
    expect(statusesOf(await asks(site, 99))).toEqual(Array(99).fill(200));
    const refused = await site.ask();
    expect(refused).toMatchObject({ status: 429, left: "default 0", type: "application/problem+json" });
    expect(refused.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
    expect(violated(refused)).toEqual(["default"]);
  },
};

const allOrNone: Play = {
  promise: "charges both policies or none",
  async check(site) {
    expect(await site.ask()).toMatchObject({
      policy: '"burst";q=10;w=2, "daily";q=10000;w=86400',
      left: "burst 9, daily 9999",
    });
    expect(statusesOf(await asks(site, 9))).toEqual(Array(9).fill(200));
    const refused = await site.ask();
    expect([refused.status, violated(refused)]).toEqual([429, ["burst"]]);
    site.advance(200);
    expect((await site.ask()).left).toBe("burst 0, daily 9989");
  },
};

const eachClient: Play = {
  promise: "counts each client behind the proxy for itself, whatever clients write",
  async check({ ask }) {
    expect((await ask("/", from("203.0.113.7"))).left).toBe("default 99");
    expect((await ask("/", from("203.0.113.8"))).left).toBe("default 99");
    expect((await ask("/", from("198.51.100.1", "203.0.113.7"))).left).toBe("default 98");
    expect((await ask("/", from("198.51.100.2", "203.0.113.7"))).left).toBe("default 97");
  },
};

const eachClientOfNetworks: Play = {
  promise: `${eachClient.promise}, through one proxy of the networks or two`,
  async check(site) {
    await eachClient.check(site);
    expect((await site.ask("/", from("203.0.113.7", "10.0.0.2"))).left).toBe("default 96");
  },
};

/** @param refusedTakes what a login that is refused takes of `api` */
const fiveLogins = (refusedTakes: 0 | 1): Play => ({
  promise: `refuses the sixth login, which takes ${refusedTakes} of what other requests have`,
  async check({ ask }) {
    const logins = [];
    for (let i = 0; i < 6; i++) logins.push(await ask("/login", post()));
    expect(statusesOf(logins)).toEqual([401, 401, 401, 401, 401, 429]);
    expect(logins[0]).toMatchObject({
      policy: '"api";q=100;w=60, "login";q=5;w=900',
      left: "api 99, login 4",
    });
    expect(violated(logins[5]!)).toEqual(["login"]);
    expect(await ask("/")).toMatchObject({
      status: 200,
      policy: '"api";q=100;w=60',
      left: `api ${94 - refusedTakes}`,
    });
  },
});

const leftAlone: Play = {
  promise: "leaves the route, the paths, the network and preflights alone, and counts all else",
  async check({ ask }) {
    const preflight = { origin: "https://a.example", "access-control-request-method": "POST" };
    expect(await ask("/health")).toMatchObject(NOTHING);
    expect(await ask("/assets/logo.png")).toMatchObject(NOTHING);
    expect(await ask("/", from("10.1.2.3"))).toMatchObject(NOTHING);
    expect(await ask("/", { method: "OPTIONS", headers: preflight })).toMatchObject(NOTHING);
    expect((await ask("/")).left).toBe("default 99");
    expect((await ask("/health", post())).left).toBe("default 98");
    expect((await ask("/", from("11.1.2.3"))).left).toBe("default 99");
  },
};

const leftAloneByConfig: Play = {
  promise: `${leftAlone.promise}; false in a route's config is the same`,
  async check(site) {
    await leftAlone.check(site);
    expect(await site.ask("/ready")).toMatchObject({ ...NOTHING, text: "ready" });
  },
};

const byKey: Play = {
  promise: "counts keys that are known, all others by address, and addresses besides",
  async check({ ask, limiter }) {
    const left = async (key: string) => (await ask("/", { headers: { "x-api-key": key } })).left;
    expect(await left("sk_1")).toBe("perAddress 1199, perKey 599");
    expect(await left("sk_2")).toBe("perAddress 1198, perKey 599");
    expect(await left("sk_1")).toBe("perAddress 1197, perKey 598");
    expect(await left("invented")).toBe("perAddress 1196, perKey 599");
    expect(await left("another")).toBe("perAddress 1195, perKey 598");
    expect(await remainingOf(limiter, ADDRESS)).toEqual([598, 1195]);
  },
};

const byUser: Play = {
  promise: "counts users, and by address who has not logged in",
  async check({ ask, limiter }) {
    const left = async (headers: Record<string, string>) => (await ask("/", { headers })).left;
    expect(await left({ "x-user": "anna" })).toBe("default 99");
    expect(await left({ "x-user": "bert" })).toBe("default 99");
    expect(await left({})).toBe("default 99");
    expect(await left({ "x-user": "anna" })).toBe("default 98");
    expect(await left({})).toBe("default 98");
    expect(await remainingOf(limiter, ADDRESS)).toEqual([98]);
  },
};

const byCost: Play = {
  promise: "takes what the body and the route cost, and refuses for good what is above the capacity",
  async check({ ask }) {
    const body = (length: number): Ask => ({ method: "POST", body: Array(length).fill(1) });
    expect((await ask("/", body(3))).left).toBe("work 97");
    expect((await ask("/", body(0))).left).toBe("work 96");
    expect((await ask("/report")).left).toBe("work 76");
    const refused = await ask("/", body(101));
    expect(refused).toMatchObject({ status: 429, left: "work 76" });
    expect(refused.headers).not.toHaveProperty("retry-after");
  },
};

const goodLoginsAreFree: Play = {
  promise: "counts failed logins only, and every login as a request",
  async check({ ask }) {
    for (let i = 0; i < 20; i++) expect((await ask("/login", right)).status).toBe(200);
    for (let i = 0; i < 5; i++) expect((await ask("/login", post())).status).toBe(401);
    const refused = await ask("/login", right);
    expect([refused.status, violated(refused)]).toEqual([429, ["login"]]);
    expect((await ask("/")).left).toBe("api 73");
  },
};

const settledAndInFlight: Play = {
  promise: "a 304 costs one unit of ten, and a slot is taken for as long as its response takes",
  async check(site) {
    const { ask } = site;
    const unchanged = { headers: { "if-none-match": '"v1"' } };
    expect(await ask("/search", unchanged)).toMatchObject({ status: 304, left: "api 99, search 90" });
    expect((await ask("/search")).left).toBe("api 98, search 89");
    expect((await ask("/search")).left).toBe("api 97, search 79");

    const underWay = asks(site, 2, "/export");
    await expect.poll(site.exports.came).toBe(2);
    const refused = await ask("/export");
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "1"]);
    site.exports.open();
    expect(statusesOf(await underWay)).toEqual([200, 200]);
    await expect.poll(async () => (await ask("/export")).status).toBe(200);
  },
};

/** The answer to the 101st request, whose status and fields are ours whoever writes the rest. */
async function refusalOf(site: Site): Promise<Reply & { wait: number }> {
  expect(statusesOf(await asks(site, 100))).toEqual(Array(100).fill(200));
  const refused = await site.ask();
  expect(refused).toMatchObject({ status: 429, policy: '"default";q=100;w=60', left: "default 0" });
  expect(refused.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
  return { ...refused, wait: Number(refused.headers["retry-after"]) };
}

const ownBody: Play = {
  promise: "answers a refusal with the body that onLimited returns",
  async check(site) {
    const { type, text, wait } = await refusalOf(site);
    expect([type, text]).toEqual([
      "application/json",
      `{"error":"too_many_requests","retryAfterSeconds":${wait}}`,
    ]);
  },
};

const ownPage: Play = {
  promise: "answers a refusal with what onLimited sends",
  async check(site) {
    const { type, text, wait } = await refusalOf(site);
    expect([type, text]).toEqual(["text/html", `slow-down {"retryAfterSeconds":${wait}}`]);
  },
};

const readWatchClose: Play = {
  promise: "shows handlers the decision, tells of events, and closes server and limiter at SIGTERM",
  async check({ ask, limiter, counted, server, terminate }) {
    expect((await ask("/quota")).text).toBe('{"limit":100,"remaining":99}');
    expect((await ask("/quota")).text).toBe('{"limit":100,"remaining":98}');
    expect(counted).toEqual([]);
    await limiter.reset(ADDRESS);
    expect(counted).toEqual(["audit"]);
    expect((await ask("/quota")).text).toBe('{"limit":100,"remaining":99}');

    const remaining = () => remainingOf(limiter, ADDRESS);
    expect(await remaining()).toEqual([99]);
    terminate();
    await expect.poll(() => server.listening).toBe(false);
    // A memory store that is closed has forgotten all.
    await expect.poll(remaining).toEqual([100]);
  },
};

type Plays = Readonly<Record<string, readonly Play[]>>;

/** By heading, in the order of the blocks. */
const everywhere: Plays = {
  Install: [hundred],
  "Redis, and several policies": [allOrNone],
  "Behind a proxy": [eachClient],
  "A stricter limit on login": [fiveLogins(0), fiveLogins(1)],
  "Requests that are left alone": [leftAlone],
  "By API key or by user": [byKey, byUser],
  "Expensive requests": [byCost],
  "Giving units back": [goodLoginsAreFree, settledAndInFlight],
  "An answer of your own": [ownBody, ownPage],
  "Reading, watching, closing": [readWatchClose],
};

const ofExpress: Plays = {
  ...everywhere,
  "Mounting and rewriting": [
    {
      promise: "limits what is below the path, by whole paths as they were rewritten",
      async check({ ask }) {
        expect(await ask("/orders")).toMatchObject(NOTHING);
        expect((await ask("/api/orders")).left).toBe("default 99");
        expect((await ask("/v1/orders")).left).toBe("default 98");
        for (const path of ["/api/health", "/v1/health"]) expect(await ask(path)).toMatchObject(NOTHING);
        expect((await ask("/v1/search?q=a")).left).toBe("default 88");
      },
    },
  ],
  "Counted once": [
    {
      promise: "counts once on the application and two routes, one of which hands on",
      async check({ ask }) {
        expect(await ask("/items/latest")).toMatchObject({ text: "the latest item", left: "default 99" });
        expect(await ask("/items/7")).toMatchObject({ text: "an item", left: "default 98" });
      },
    },
  ],
};

const ofFastify: Plays = {
  ...everywhere,
  "Behind a proxy": [eachClientOfNetworks, eachClient],
  "A stricter limit on login": [fiveLogins(0), fiveLogins(0), fiveLogins(1)],
  "Requests that are left alone": [leftAloneByConfig],
  "The order of registration": [
    {
      promise: "limits routes that were declared before the plugin, and after it",
      async check({ ask }) {
        expect(await ask("/before")).toMatchObject({ text: "limited", left: "default 99" });
        expect(await ask("/after")).toMatchObject({ text: "limited", left: "default 98" });
      },
    },
  ],
  Scopes: [
    {
      promise: "limits the scope and those within, neither its siblings nor unknown URLs",
      bare: true,
      async check({ ask }) {
        expect(await ask("/api/orders")).toMatchObject({ text: '["limited"]', left: "default 99" });
        expect(await ask("/api/orders/7")).toMatchObject({ text: "limited", left: "default 98" });
        expect(await ask("/open")).toMatchObject(NOTHING);
        expect(await ask("/api/nowhere")).toMatchObject({ ...NOTHING, status: 404 });
      },
    },
  ],
  "Unknown URLs": [
    {
      promise: "limits what no route answers",
      bare: true,
      async check(site) {
        const first = await site.ask("/nowhere");
        expect(first).toMatchObject({ status: 404, text: '{"error":"not_found"}', left: "default 99" });
        expect(statusesOf(await asks(site, 99, "/elsewhere"))).toEqual(Array(99).fill(404));
        expect((await site.ask("/nowhere")).status).toBe(429);
      },
    },
  ],
  "The decorator": [
    {
      promise: "a route outside of the scope draws on the scope's count, which a handler may forget",
      async check({ ask }) {
        expect((await ask("/api/orders")).left).toBe("default 99");
        expect(await ask("/orders.csv")).toMatchObject({ text: "limited too", left: "default 98" });
        expect(await ask("/api/captcha", post())).toMatchObject(NOTHING);
        expect((await ask("/api/orders")).left).toBe("default 97");
        expect(await ask("/api/captcha", post({ "x-solved": "yes" }))).toMatchObject(NOTHING);
        expect((await ask("/api/orders")).left).toBe("default 99");
      },
    },
  ],
};

const ofKoa: Plays = {
  ...everywhere,
  "Without a router": [
    {
      promise: "reads the table without any router",
      async check({ ask }) {
        const users = { policy: '"default";q=20;w=60', left: "default 19" };
        expect(await ask("/users/7")).toMatchObject({ ...users, text: "you asked for /users/7" });
        expect(await ask("/users/8")).toMatchObject({ ...users, left: "default 18" });
        expect(await ask("/users")).toMatchObject({ policy: '"default";q=100;w=60', left: "default 99" });
      },
    },
  ],
  "Capitals and trailing slashes": [
    {
      promise: "reads paths as a router of the same options does",
      async check({ ask }) {
        expect(await ask("/login", post())).toMatchObject({ status: 401, policy: '"default";q=5;w=900' });
        for (const path of ["/Login", "/login/"])
          expect(await ask(path, post())).toMatchObject({ text: "hello", policy: '"default";q=100;w=60' });
      },
    },
  ],
  Errors: [
    {
      promise: "keeps its fields on an error",
      async check({ ask }) {
        const thrown = await ask("/admin");
        expect(thrown).toMatchObject({ status: 403, text: "not for you", left: "default 99" });
        expect(await ask("/")).toMatchObject({ status: 200, text: "hello", left: "default 98" });
      },
    },
  ],
  "Counted once": [
    {
      promise: "counts once on the application and a route",
      async check({ ask }) {
        expect(await ask("/items/7")).toMatchObject({ text: "an item", left: "default 99" });
        expect(await ask("/items/7")).toMatchObject({ left: "default 98" });
      },
    },
  ],
};

const pages: Readonly<Record<string, Plays>> = {
  "docs/express.md": ofExpress,
  "docs/fastify.md": ofFastify,
  "docs/koa.md": ofKoa,
};

/** The ts blocks of a section. */
const blocksUnder = (page: string, heading: string) =>
  blocksOf(sectionOf(read(page), heading)).filter(({ language }) => language === "ts");

it.each(Object.entries(pages))("%s holds no ts block of which nothing is expected here", (page, plays) => {
  const headings = [...read(page).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading!);
  const blocks = headings.map((heading) => [heading, blocksUnder(page, heading).length]);
  expect(blocks).toEqual(Object.entries(plays).map(([heading, { length }]) => [heading, length]));
  const whole = blocksOf(read(page)).filter(({ language }) => language === "ts");
  expect(whole).toHaveLength(blocks.reduce((sum, [, count]) => sum + Number(count), 0));
});

/** Each block of a kit's page, with what is expected of it. */
const cases = ({ page }: Kit): [name: string, block: Block, play: Play][] =>
  Object.entries(pages[page]!).flatMap(([heading, plays]) => {
    const blocks = blocksUnder(page, heading);
    return plays.map((play, i): [string, Block, Play] => [`${heading}: ${play.promise}`, blocks[i]!, play]);
  });

describe.each(kits.map((kit) => [kit.page, kit.name, kit] as const))("%s on %s", (_page, _name, kit) => {
  it.each(cases(kit))("%s", async (_, block, { bare, check }) => {
    const site = await run(kit, block, bare);
    await check(site);
    expect(site.warnings).toEqual([]);
  });
});
