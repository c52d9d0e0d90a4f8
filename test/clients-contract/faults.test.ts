/** Limiters through every library, when their server hangs, loses replies or comes late. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Config, createLimiter, fixedWindow } from "@tidegate/core";
import { describe, expect, it, type TestContext } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import { freshPrefix } from "../harness/pair.ts";
import { startRedis } from "../harness/redis.ts";
import { libraries, waysOf } from "./libraries.ts";
import { latePort } from "./late-port.ts";

const TIMEOUT_MS = 100;

/** How much later than its deadline a decision may be on a busy machine, milliseconds. */
const SLACK_MS = 400;

describe.concurrent.each(waysOf(libraries))("$title", ({ library, share }) => {
  async function started({ onTestFinished }: TestContext, port?: number) {
    const server = await startRedis(port === undefined ? {} : { port });
    onTestFinished(() => server.stop());
    return server;
  }

  function limiting({ onTestFinished }: TestContext, port: number, wanted: Partial<Config> = {}) {
    const app = library.client({ port });
    onTestFinished(() => app.end());
    if (share && !library.connectsItself) app.connect().catch(() => {});
    const prefix = freshPrefix();
    const limiter = createLimiter({
      redis: app.redis,
      shareConnection: share,
      prefix,
      policies: { p: fixedWindow({ limit: 1000, window: "1h" }) },
      timeoutMs: 10_000,
      onFailure: "open",
      ...wanted,
    });
    onTestFinished(() => limiter.close());
    const decide = (cost = 1) => limiter.decide({ identity: "somebody", cost });
    const isWell = async () => !(await decide(0)).degraded;
    return {
      decide,
      isWell,
      ready: () => eventually("Redis decides", isWell),
      key: `${prefix}:{id:somebody}:p:fw`,
    };
  }

  it("decides in time, by its rule, while the server hangs; and is well again soon after", async (test) => {
    const server = await started(test);
    const { decide, isWell, ready, key } = limiting(test, server.port, { timeoutMs: TIMEOUT_MS });
    await ready();
    server.pause();
    const times = [];
    for (let i = 0; i < 25; i++) {
      const start = performance.now();
      expect((await decide()).degraded?.rule).toBe("open");
      times.push(performance.now() - start);
      await sleep(100);
    }
    server.resume();
    expect(Math.max(...times)).toBeLessThan(TIMEOUT_MS + SLACK_MS);
    await eventually("Redis decides again", isWell, 2000);
    expect(await server.client.get(key)).toBe(null);
  });

  it("charges once when the reply is lost, ten times of ten", async (test) => {
    const server = await started(test);
    const proxy = await faultProxy(server);
    test.onTestFinished(() => proxy.close());
    const { decide, ready, key } = limiting(test, proxy.port);
    for (let i = 0; i < 10; i++) {
      await ready();
      proxy.dropReplies(1);
      expect((await decide()).allowed).toBe(true);
    }
    await ready();
    expect(Number(await server.client.get(key))).toBe(10);
  });

  it("is well within two seconds of a server that was not there at first", async (test) => {
    const port = await latePort();
    const { decide, isWell, key } = limiting(test, port);
    expect((await decide()).degraded).toEqual({ rule: "open", reason: "connection" });
    await sleep(700);
    const server = await started(test, port);
    await eventually("Redis decides", isWell, 2000);
    await decide(3);
    expect(Number(await server.client.get(key))).toBe(3);
  });
});
