/** Who is counted, in every framework the same. */
import http from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  apiKey,
  type By,
  type Config,
  fixedWindow,
  globally,
  ip,
  ipOf,
  tenant,
  type TrustProxy,
  user,
} from "@tidegate/core";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { storeKinds, type useRedis } from "../../harness/http.ts";
import { ask, asks, type Kit, type Served, serving, type Site, statuses } from "./kit.ts";

const forwarded = (...addresses: string[]) => ({ headers: { "x-forwarded-for": addresses.join(", ") } });
const headerOf = (request: unknown, name: string) =>
  (request as { headers: Record<string, string | undefined> }).headers[name];

export function identities(kit: Kit, redis: ReturnType<typeof useRedis>): void {
  const limited = (config: Config, more: Omit<Site, "config"> = {}) =>
    serving(kit, { config: { store: redis.store, limit: 9, window: "1m", ...config }, ...more });
  /** Under whom something was counted. */
  const counted = async () =>
    (await redis.keys()).map((key) => /^rl:\{(.*)\}:/.exec(key)?.[1] ?? key).toSorted();
  const codes = ({ events }: Served) =>
    events.map((event) => (event.type === "warning" ? event.code : event.type));

  describe("who is counted", () => {
    const key = apiKey({ header: "x-api-key" });
    it.each<[string, By, { headers?: Record<string, string>; path?: string }, RegExp]>([
      ["a header", key, { headers: { "X-Api-Key": "sk" } }, /^key:[\w-]{22}$/],
      [
        "a bearer's token",
        apiKey({ scheme: "bearer" }),
        { headers: { Authorization: "bEaReR sk" } },
        /^key:[\w-]{22}$/,
      ],
      [
        "another scheme",
        apiKey({ scheme: "bearer" }),
        { headers: { Authorization: "Basic sk" } },
        /^ip:127.0.0.1$/,
      ],
      ["a query", apiKey({ query: "key" }), { path: "/?a=1&key=sk" }, /^key:[\w-]{22}$/],
      ["no key", apiKey({ query: "key" }).or(globally()), { path: "/?a=1&kex=sk" }, /^all:-$/],
      [
        "a user by a function",
        user((request) => headerOf(request, "x-user")),
        { headers: { "x-user": "7" } },
        /^user:7$/,
      ],
      [
        "tenant and user",
        tenant(() => "acme").and(user(async (request) => headerOf(request, "x-user"))),
        { headers: { "x-user": "7" } },
        /^both:h\.[\w-]{22}$/,
      ],
      [
        "half of two",
        tenant(() => "acme")
          .and(user(() => undefined))
          .or(() => "else"),
        {},
        /^id:else$/,
      ],
      [
        "a plain function",
        (request: unknown) => headerOf(request, "x-user"),
        { headers: { "x-user": "0" } },
        /^id:0$/,
      ],
      ["the number 0", () => 0, {}, /^id:0$/],
      ["everybody", globally(), {}, /^all:-$/],
      ["an address by hand", () => ipOf("2001:DB8::9"), {}, /^ip:20010db800000000$/],
    ])("%s", async (_, by, { headers = {}, path = "/" }, who) => {
      await ask(await limited({ by }), path, { headers });
      expect(await counted()).toEqual([expect.stringMatching(who)]);
    });

    it.each([
      ["user", user(), { user: { id: 7 } }, "user:7"],
      ["user, a number", user(), { user: 7 }, "user:7"],
      ["user, by the subject of a token", user(), { user: { sub: "7" } }, "user:7"],
      ["auth", user(), { auth: { sub: "7" } }, "user:7"],
      ["tenant", tenant(), { tenant: { id: "acme" } }, "tenant:acme"],
      ["tenantId", tenant(), { tenantId: "acme" }, "tenant:acme"],
      ["the user's tenant", tenant(), { user: { id: 7, tenantId: "acme" } }, "tenant:acme"],
      ["nobody", user().or(globally()), {}, "all:-"],
    ])("whom earlier middleware found: %s", async (_, by, found, who) => {
      const before: Site["before"] = ({ incoming }) => kit.foundBy(incoming)(found);
      await ask(await limited({ by }, { before }));
      expect(await counted()).toEqual([who]);
    });

    it("one key is one identity wherever it stands, and another with a secret", async () => {
      const by = [apiKey({ header: "x-api-key" }), apiKey({ scheme: "bearer" }), apiKey({ query: "key" })];
      const headers = { "x-api-key": "sk", authorization: "Bearer sk" };
      for (const each of by) await ask(await limited({ by: each }), "/?key=sk", { headers });
      expect(await counted()).toHaveLength(1);
      await ask(await limited({ by: apiKey({ header: "x-api-key", secret: "s" }) }), "/", { headers });
      expect(await counted()).toHaveLength(2);
    });

    it.each([
      ["yes", true, 1],
      ["yes, later", Promise.resolve(true), 1],
      ["no", false, 1],
      ["no, later", Promise.resolve(false), 1],
    ])("verify is asked once for a key while its answer holds: %s", async (_, answer, times) => {
      const verify = vi.fn<(key: string) => boolean | Promise<boolean>>(() => answer);
      const served = await limited({ by: apiKey({ header: "x-api-key", verify }).or(ip()) });
      await Promise.all([1, 2, 3].map(() => ask(served, "/", { headers: { "x-api-key": "sk" } })));
      await ask(served, "/", { headers: { "x-api-key": "sk" } });
      expect(verify).toHaveBeenCalledTimes(times);
      expect(verify).toHaveBeenCalledWith("sk");
      expect(await counted()).toEqual([expect.stringMatching((await answer) ? /^key:/ : /^ip:/)]);
    });

    it("verify is asked each time where its answers are not to be kept, or were none", async () => {
      const always = vi.fn<() => boolean>(() => true);
      const failing = vi.fn<() => Promise<boolean>>(async () => {
        throw new Error("down");
      });
      const served = await limited({
        by: apiKey({ header: "x-api-key", verify: always, verifiedForMs: 0 }).or(ip()),
      });
      const other = await limited({ by: apiKey({ header: "x-api-key", verify: failing }).or(ip()) });
      for (const each of [served, other]) await asks(2, each, "/", { headers: { "x-api-key": "sk" } });
      expect([always.mock.calls.length, failing.mock.calls.length]).toEqual([2, 2]);
      expect(codes(other)).toEqual(["TIDEGATE_IDENTITY_FAULT", "TIDEGATE_IDENTITY_FAULT"]);
      expect(await counted()).toEqual(["ip:127.0.0.1", expect.stringMatching(/^key:/)]);
    });

    it.each([undefined, null, "", NaN, {}, [], true, () => 1])(
      "P28 T1 %o from a function is counted by address, with an event",
      async (nonsense) => {
        const served = await limited({ limit: 1, by: () => nonsense as never });
        expect(statuses(await asks(2, served))).toEqual([200, 429]);
        expect(codes(served)).toEqual(["TIDEGATE_IDENTITY_FAULT", "TIDEGATE_IDENTITY_FAULT"]);
        expect(await counted()).toEqual(["ip:127.0.0.1"]);
      },
    );

    it("P28 T2 an async function is awaited, and one that rejects is counted by address", async () => {
      const served = await limited({
        by: async (request) => {
          if (headerOf(request, "x-user")) return headerOf(request, "x-user")!;
          throw new Error("no user");
        },
      });
      await ask(served, "/", { headers: { "x-user": "anna" } });
      await ask(served);
      expect(await counted()).toEqual(["id:anna", "ip:127.0.0.1"]);
      expect(codes(served)).toEqual(["TIDEGATE_IDENTITY_FAULT"]);
    });
  });

  /** The application's own setting where it has one that can be used, else ours. */
  const believing = (trust: number | string): { config: Config; site: Omit<Site, "config"> } =>
    kit.ownTrust && !(typeof trust === "number" && kit.name.startsWith("Fastify"))
      ? { config: {}, site: { trust } }
      : { config: { trustProxy: typeof trust === "number" ? trust : trust.split(", ") }, site: {} };
  const ways = (trust: number | string): [string, Config, Omit<Site, "config">][] => {
    const own = believing(trust);
    const ours: TrustProxy = typeof trust === "number" ? trust : trust.split(", ");
    return [
      ["the application's", own.config, own.site],
      ["ours", { trustProxy: ours }, {}],
    ];
  };

  describe("P05 behind proxies", () => {
    it.each(ways(1))(
      "P05 T1 each of 150 clients has its own quota: by %s setting",
      async (_, config, site) => {
        const served = await limited({ limit: 1, ...config }, site);
        const clients = Array.from({ length: 150 }, (_, i) => forwarded(`198.51.100.${i + 1}`));
        for (const client of clients) expect((await ask(served, "/", client)).status).toBe(200);
        expect((await ask(served, "/", clients[0])).status).toBe(429);
        expect(served.events).toEqual([]);
      },
    );

    it("P05 T2 where no proxy is believed the peer is counted, with one warning that names the setting", async () => {
      const served = await limited({ limit: 2 });
      const seen = [];
      for (const i of [1, 2, 3]) seen.push((await ask(served, "/", forwarded(`198.51.100.${i}`))).status);
      expect(seen).toEqual([200, 200, 429]);
      expect(await counted()).toEqual(["ip:127.0.0.1"]);
      expect(served.events).toEqual([
        {
          type: "warning",
          code: "TIDEGATE_FORWARDED_UNTRUSTED",
          message: expect.stringMatching(/trust ?proxy/i),
        },
      ]);
    });

    it.each(ways("127.0.0.0/8, 10.0.0.0/8, uniquelocal"))(
      "P05 T3 one, two and three proxies of a list lead to the same client: by %s setting",
      async (_, config, site) => {
        const served = await limited(config, site);
        for (const chain of [
          ["203.0.113.7"],
          ["203.0.113.7", "10.0.0.1"],
          ["203.0.113.7", "10.0.0.2", "10.0.0.1"],
        ])
          await ask(served, "/", forwarded(...chain));
        expect(await counted()).toEqual(["ip:203.0.113.7"]);
      },
    );

    it("P05 T4 who believes everybody is warned once", async () => {
      const served = kit.ownTrust
        ? await limited({}, { trust: true })
        : await limited({ trustProxy: () => true });
      for (const i of [1, 2]) await ask(served, "/", forwarded(`198.51.100.${i}`));
      expect(codes(served)).toEqual(["TIDEGATE_TRUSTS_EVERYBODY"]);
    });

    it("P05 T5 a function may say who is believed; one that throws believes nobody", async () => {
      const served = await limited({ trustProxy: (address, hop) => hop === 0 && address === "127.0.0.1" });
      await ask(served, "/", forwarded("203.0.113.7", "203.0.113.8"));
      const failing = await limited({
        trustProxy: () => {
          throw new Error("no");
        },
      });
      await ask(failing, "/", forwarded("203.0.113.7"));
      expect(await counted()).toEqual(["ip:127.0.0.1", "ip:203.0.113.8"]);
    });
  });

  describe("P08 forged addresses", () => {
    it.each(ways(1))(
      "P08 T1 a thousand forged entries are one client: by %s setting",
      async (_, config, site) => {
        const served = await limited({ limit: 5, ...config }, site);
        let passed = 0;
        for (let i = 0; i < 1000; i++) {
          const answer = await ask(served, "/", forwarded(`203.0.113.${i % 250}`, "198.51.100.7"));
          if (answer.status === 200) passed++;
        }
        expect(passed).toBe(5);
        expect(await counted()).toEqual(["ip:198.51.100.7"]);
      },
    );

    it.each(ways(2))(
      "P08 T2 an entry that no proxy wrote is not believed: by %s setting",
      async (_, config, site) => {
        const served = await limited(config, site);
        await ask(served, "/", forwarded("203.0.113.7"));
        expect(await counted()).toEqual(["ip:127.0.0.1"]);
        await ask(served, "/", forwarded("203.0.113.7", "10.0.0.1"));
        expect(await counted()).toEqual(["ip:127.0.0.1", "ip:203.0.113.7"]);
      },
    );

    it.each(["23189987", "unknown", "", "localhost", "1.2.3", "_hidden"])(
      "P08 T3 %o is no address: the peer is counted",
      async (entry) => {
        for (const [, config, site] of ways(1)) await ask(await limited(config, site), "/", forwarded(entry));
        expect(await counted()).toEqual(["ip:127.0.0.1"]);
      },
    );
  });

  it.each([
    ["P19 T1", "1.2.3.4:5678", "ip:1.2.3.4"],
    ["P19 T1", "1.2.3.4:9", "ip:1.2.3.4"],
    ["P19 T2", "[2001:db8::1]:443", "ip:20010db8000000000000000000000001"],
    ["P19 T3", "2001:db8::1:5678", "ip:20010db8000000000000000000015678"],
    ["P19 T4", "1.2.3.4:70000", "ip:127.0.0.1"],
  ])("%s a forwarded %s is counted as %s", async (_, address, who) => {
    for (const [, config, site] of ways(1))
      await ask(await limited({ by: ip({ ipv6Prefix: 128 }), ...config }, site), "/", forwarded(address));
    expect(await counted()).toEqual([who]);
  });

  it("P19 T5 proxies that write ports are found in a list all the same", async () => {
    const served = await limited({ trustProxy: ["127.0.0.1", "10.0.0.0/8"] });
    await ask(served, "/", forwarded("198.51.100.1", "203.0.113.7:5678", "10.0.0.1:443"));
    expect(await counted()).toEqual(["ip:203.0.113.7"]);
  });

  describe("A CDN's header", () => {
    const by = (...from: string[]) => ip({ trustedHeaders: { header: "CF-Connecting-IP", from } });
    const headers = { "cf-connecting-ip": "203.0.113.7", "x-forwarded-for": "192.0.2.44" };

    it.each([
      ["the peer is one of the CDN's", by("127.0.0.0/8"), {}, "ip:203.0.113.7"],
      ["the peer is not", by("192.0.2.0/24"), {}, "ip:127.0.0.1"],
      [
        "the proxy in front was asked by one of the CDN's",
        by("192.0.2.0/24"),
        { trustProxy: 1 },
        "ip:203.0.113.7",
      ],
      [
        "the proxy in front was asked by a stranger",
        by("198.51.100.0/24"),
        { trustProxy: 1 },
        "ip:192.0.2.44",
      ],
    ])("is believed only when %s", async (_, by, config, who) => {
      await ask(await limited({ by, ...config }), "/", { headers });
      expect(await counted()).toEqual([who]);
    });

    it("that holds no address is passed over", async () => {
      await ask(await limited({ by: by("127.0.0.1") }), "/", { headers: { "cf-connecting-ip": "unknown" } });
      expect(await counted()).toEqual(["ip:127.0.0.1"]);
    });
  });

  it("allow and deny go by the client behind the proxies", async () => {
    const served = await limited({
      trustProxy: 1,
      allow: ["203.0.113.0/24"],
      deny: ["203.0.113.66", "2001:db8::/32"],
    });
    const seen = [];
    for (const client of [
      "203.0.113.7",
      "203.0.113.66",
      "2001:db8::1",
      "[2001:db8::1]:443",
      "198.51.100.1",
      "::ffff:203.0.113.66",
    ]) {
      const { status, fields } = await ask(served, "/", forwarded(client));
      seen.push([client, status, "RateLimit-Policy" in fields]);
    }
    expect(seen).toEqual([
      ["203.0.113.7", 200, false],
      ["203.0.113.66", 429, true],
      ["2001:db8::1", 429, true],
      ["[2001:db8::1]:443", 429, true],
      ["198.51.100.1", 200, true],
      ["::ffff:203.0.113.66", 429, true],
    ]);
    expect(await counted()).toEqual(["ip:198.51.100.1"]);
  });

  it.each<[string, Config, string]>([
    ["trustProxy true", { trustProxy: true as never }, "trustProxy"],
    ["trustProxy half", { trustProxy: 0.5 }, "trustProxy"],
    ["trustProxy of no network", { trustProxy: ["10.0.0.0/8", "proxy.local"] }, "trustProxy.1"],
    ["allow of no network", { allow: ["10.0.0.0/99"] }, "allow.0"],
    ["deny that is no list", { deny: "10.0.0.0/8" as never }, "deny"],
    ["headers of an unknown draft", { headers: { standard: "draft-99" as never } }, "headers.standard"],
    ["an unknown header option", { headers: { legacy: true } as never }, "headers.legacy"],
    ["too much jitter", { headers: { jitterSeconds: 3601 } }, "headers.jitterSeconds"],
    ["a wait of 0", { headers: { retryAfter: { closed: 0 } } }, "headers.retryAfter.closed"],
    [
      "a partition key for draft-7",
      { headers: { standard: "draft-7", partitionKey: { secret: "s" } } },
      "headers.partitionKey",
    ],
    ["an empty secret", { headers: { partitionKey: { secret: "" } } }, "headers.partitionKey.secret"],
    ["preflights: false", { preflights: false as never }, "preflights"],
    ["onLimited that is none", { onLimited: {} as never }, "onLimited"],
    ["a mode that is none", { mode: "off" as never }, "mode"],
  ])("refuses %s when the limiter is made", async (_, config, option) => {
    await expect(limited(config)).rejects.toMatchObject({ name: "ConfigError", option });
  });

  it.each<[string, () => unknown, string]>([
    ["no place for a key", () => apiKey({}), "apiKey.header"],
    ["two places for a key", () => apiKey({ header: "a", query: "b" }), "apiKey.header"],
    ["a scheme that is none", () => apiKey({ scheme: "basic" as never }), "apiKey.scheme"],
    ["a time that is none", () => apiKey({ header: "a", verifiedForMs: -1 }), "apiKey.verifiedForMs"],
    [
      "a CDN without networks",
      () => ip({ trustedHeaders: { header: "a", from: undefined as never } }),
      "ip.trustedHeaders.from",
    ],
    [
      "a CDN without a header",
      () => ip({ trustedHeaders: { header: "", from: [] } }),
      "ip.trustedHeaders.header",
    ],
  ])("refuses %s when the source is made", (_, make, option) => {
    expect(make).toThrow(expect.objectContaining({ name: "ConfigError", option }));
  });

  describe.each(storeKinds)("P15 on %s", (kind) => {
    const NO_ADDRESS = { type: "warning", code: "TIDEGATE_NO_ADDRESS", message: expect.any(String) };

    it("P15 T1 a client that hangs up during earlier middleware breaks nothing", async () => {
      const unhandled = vi.fn<(error: unknown) => void>();
      process.on("unhandledRejection", unhandled);
      process.on("uncaughtException", unhandled);
      onTestFinished(() => {
        process.off("unhandledRejection", unhandled);
        process.off("uncaughtException", unhandled);
      });
      const before: Site["before"] = async () => {
        client.destroy();
        await sleep(50);
      };
      const served = await limited({ store: redis.storeOf(kind) }, { before });
      const client = connect(served.port, "127.0.0.1");
      client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
      await expect.poll(() => served.events).toEqual([NO_ADDRESS]);
      if (kind === "redis") await expect.poll(counted).toEqual(["ip:none"]);
      expect(unhandled).not.toHaveBeenCalled();
    });
  });

  it("P15 T2 requests through a Unix socket count together, with one warning", async () => {
    const served = await limited({ limit: 2 });
    const { server } = served;
    const socketPath = `/tmp/tidegate-${process.pid}-${Math.random().toString(36).slice(2)}`;
    await new Promise<void>((resolve) => server.close(() => resolve()));
    server.listen(socketPath);
    const get = () =>
      new Promise<number>((resolve, reject) => {
        http
          .get({ socketPath, path: "/", agent: false }, (answer) => {
            answer.resume().on("end", () => resolve(answer.statusCode!));
          })
          .on("error", reject);
      });
    expect([await get(), await get(), await get()]).toEqual([200, 200, 429]);
    expect(await counted()).toEqual(["ip:none"]);
    expect(codes(served)).toEqual(["TIDEGATE_NO_ADDRESS"]);
  });

  it.each([
    ["a key that anybody can invent", { by: apiKey({ header: "x-api-key" }) }, ["TIDEGATE_UNVERIFIED_KEY"]],
    [
      "a policy by address on trial only",
      {
        limit: undefined,
        window: undefined,
        policies: {
          keys: fixedWindow({ limit: 9, window: "1m", by: apiKey({ header: "x-api-key" }) }),
          perIp: fixedWindow({ limit: 9, window: "1m", by: ip(), mode: "shadow" }),
        },
      },
      ["TIDEGATE_UNVERIFIED_KEY"],
    ],
    [
      "such a key on a route",
      { routes: { "GET /": { by: apiKey({ header: "x-api-key" }) } } },
      ["TIDEGATE_UNVERIFIED_KEY"],
    ],
    ["a key that is verified", { by: apiKey({ header: "x-api-key", verify: () => true }) }, []],
  ] as [string, Config, string[]][])("%s is warned of as it should be", async (_, config, warned) => {
    const served = await limited(config);
    await asks(2, served, "/", { headers: { "x-api-key": "sk" } });
    expect(codes(served)).toEqual(warned);
  });

  it("memory alone in production is warned of, unless it was asked for", async () => {
    vi.stubEnv("NODE_ENV", "production");
    onTestFinished(() => void vi.unstubAllEnvs());
    const alone = await serving(kit, { config: { limit: 9, window: "1m" } });
    await asks(2, alone);
    expect(codes(alone)).toEqual(["TIDEGATE_NO_SHARED_STORE"]);
    const meant = await limited({ store: redis.storeOf("memory") });
    await ask(meant);
    expect(codes(meant)).toEqual([]);
  });
}
