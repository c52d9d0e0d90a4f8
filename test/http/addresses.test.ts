/** Who is counted by address: IPv6, proxies that write ports, and requests without any address. */
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apiKey, type Config, ip, ipOf } from "@tidegate/express";
import express, { type Request, type RequestHandler } from "express";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { expresses, limiting, listening, PATIENT, serve, useRedis, visit } from "../harness/http.ts";

const redis = useRedis();

/** Behind a proxy that is trusted. */
function behindProxy(config: Config<Request>) {
  const app = serve(express, limiting({ store: redis.store, ...PATIENT, limit: 2, window: "1m", ...config }));
  app.set("trust proxy", true);
  return app;
}

/** The identities for which something was charged. */
async function counted(): Promise<string[]> {
  return (await redis.keys()).map((key) => key.replace(/^rl:\{(.*)\}:default:sw$/, "$1"));
}

const from = (address: string) => ({ "x-forwarded-for": address });

describe("P09", () => {
  it("T1 IPv6 addresses of one /64 share a counter, those of another do not", async () => {
    const app = behindProxy({});
    const asked = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::9", "2001:db8:0:1::1", "2001:db8:0:2::1"];
    const statuses: number[] = [];
    for (const address of asked) statuses.push((await visit(app, from(address))).status);
    expect(statuses).toEqual([200, 200, 429, 200]);
    expect(await counted()).toEqual(["ip:20010db800000001", "ip:20010db800000002"]);
  });

  it("T2 one address, however it is written, is one key", async () => {
    const app = behindProxy({ by: ip({ ipv6Prefix: 128 }) });
    const same = [
      "2001:db8::a",
      "2001:DB8::A",
      "2001:0db8:0000:0000:0000:0000:0000:000a",
      "2001:db8:0:0::a",
      "2001:db8::0.0.0.10",
      "2001:db8::a%eth0",
    ];
    for (const address of same) await visit(app, from(address));
    expect(await counted()).toEqual(["ip:20010db800000000000000000000000a"]);
  });

  it("T2 IPv4 within IPv6 is the IPv4 it is", async () => {
    const app = behindProxy({});
    for (const address of ["203.0.113.7", "::ffff:203.0.113.7", "::FFFF:cb00:7107"])
      await visit(app, from(address));
    expect(await counted()).toEqual(["ip:203.0.113.7"]);
  });

  it.each([
    [48, "2001:db8:0:ffff::1", "2001:db8:0:1::1", "2001:db8:1::1"],
    [56, "2001:db8:0:1ff::1", "2001:db8:0:100::1", "2001:db8:0:200::1"],
    [62, "2001:db8:0:7::1", "2001:db8:0:4::1", "2001:db8:0:8::1"],
    [128, "2001:db8::1", "2001:db8::1", "2001:db8::2"],
  ])("T3 the prefix is /%i where that is asked for", async (ipv6Prefix, one, same, other) => {
    const app = behindProxy({ by: ip({ ipv6Prefix }) });
    for (const address of [one, same]) await visit(app, from(address));
    expect(await counted()).toHaveLength(1);
    await visit(app, from(other));
    expect(await counted()).toHaveLength(2);
  });

  it.each([129, 0, -1, 1.5, NaN, "x", "64", null])(
    "T4 a prefix of %s is refused by name and value",
    (prefix) => {
      const ipv6Prefix = prefix as number;
      const message = new RegExp(`ipv6Prefix.*${prefix}`);
      expect(() => ip({ ipv6Prefix })).toThrow(message);
      expect(() => ipOf("2001:db8::1", { ipv6Prefix })).toThrow(message);
    },
  );

  it.each(["2001:db8:0:1::1", "203.0.113.7", "[2001:db8::1]:443"])(
    "T5 ipOf in a function of one's own gives %s the key that ip() gives it",
    async (address) => {
      await visit(behindProxy({ by: ip() }), from(address));
      const [key, ...others] = await redis.keys();
      expect(others).toEqual([]);
      await visit(behindProxy({ by: (req) => ipOf(req.ip) }), from(address));
      expect(await redis.keys()).toEqual([key]);
      const app = behindProxy({ by: (req) => ipOf(req.ip) });
      expect((await visit(app, from(address))).status).toBe(429);
    },
  );
});

describe("P19", () => {
  it.each([
    ["T1", "1.2.3.4:5678", "ip:1.2.3.4"],
    ["T1", "1.2.3.4:9", "ip:1.2.3.4"],
    ["T2", "[2001:db8::1]:443", "ip:20010db8000000000000000000000001"],
    ["T2", "[2001:db8::1]", "ip:20010db8000000000000000000000001"],
    ["T3", "2001:db8::1:5678", "ip:20010db8000000000000000000015678"],
    ["T4", "1.2.3.4:70000", "ip:127.0.0.1"],
    ["T4", "unknown", "ip:127.0.0.1"],
  ])("%s a forwarded %s is counted as %s", async (_, address, identity) => {
    await visit(behindProxy({ by: ip({ ipv6Prefix: 128 }) }), from(address));
    expect(await counted()).toEqual([identity]);
  });

  it("T1 a client stays one client when its port changes", async () => {
    const app = behindProxy({});
    const statuses: number[] = [];
    for (const port of [5678, 9, 443]) statuses.push((await visit(app, from(`1.2.3.4:${port}`))).status);
    expect(statuses).toEqual([200, 200, 429]);
  });
});

describe.each(expresses)("P15 on %s", (_, express) => {
  const NO_ADDRESS = { type: "warning", code: "TIDEGATE_NO_ADDRESS", message: expect.any(String) };

  it("T1 a client that hangs up while an earlier handler waits breaks nothing", async () => {
    const unhandled = vi.fn<(error: unknown) => void>();
    process.on("unhandledRejection", unhandled);
    process.on("uncaughtException", unhandled);
    onTestFinished(() => {
      process.off("unhandledRejection", unhandled);
      process.off("uncaughtException", unhandled);
    });

    const limit = limiting({ store: redis.store, ...PATIENT, limit: 2, window: "1m" });
    let reach: (req: Request) => void;
    const reached = new Promise<Request>((resolve) => (reach = resolve));
    const hangUp: RequestHandler = (_, __, next) => {
      client.destroy();
      setTimeout(next, 50);
    };
    const server = listening(serve(express, hangUp, limit, (req) => reach(req)));
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");

    expect((await reached).rateLimit).toMatchObject({ allowed: true, degraded: undefined });
    expect(await counted()).toEqual(["ip:none"]);
    expect(limit.events).toEqual([NO_ADDRESS]);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it.each([
    ["ip()", ip()],
    ["apiKey().or(ip())", apiKey({ header: "x-api-key", verify: () => true }).or(ip())],
  ])("T2 requests through a Unix socket count together, as by: %s says, with one warning", async (_, by) => {
    const limit = limiting({ store: redis.store, ...PATIENT, limit: 2, window: "1m", by });
    const get = await throughUnixSocket(serve(express, limit));
    const answers = [await get(), await get(), await get()];
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 429]);
    expect(await counted()).toEqual(["ip:none"]);
    expect(limit.events).toEqual([NO_ADDRESS]);
  });

  it("T3 whoever cannot be named at all still gets headers that are whole", async () => {
    const limit = limiting({ store: redis.store, ...PATIENT, limit: 2, window: "1m", by: () => undefined });
    const get = await throughUnixSocket(serve(express, limit));
    const { statusCode, headers } = await get();
    expect(statusCode).toBe(200);
    expect(headers).toMatchObject({ "ratelimit-policy": '"default";q=2;w=60' });
    expect(headers["ratelimit"]).toMatch(/^"default";r=1;t=\d+$/);
    expect(await counted()).toEqual(["ip:none"]);
  });
});

/** Sends a request to the application on a Unix socket. */
async function throughUnixSocket(
  app: ReturnType<typeof serve>,
): Promise<() => Promise<http.IncomingMessage>> {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-socket-"));
  const socketPath = join(folder, "app");
  const server = http.createServer(app);
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  onTestFinished(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return () =>
    new Promise((resolve, reject) => {
      const asked = http.get({ socketPath, agent: false }, (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer));
      });
      asked.on("error", reject);
    });
}
