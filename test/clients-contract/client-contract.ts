/** What a ScriptClient promises, whichever library is behind it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ClientState, ScriptClient } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import type { Address, Way } from "./libraries.ts";
import { latePort } from "./late-port.ts";

/** An answer, and how often it was given. */
interface Answer {
  times: number;
  error?: unknown;
  reply?: unknown;
  /** Only there when another server gave it. */
  elsewhere?: true;
}

type Word = string | number;

/** Sends commands and keeps what becomes of them. */
export function caller(client: ScriptClient) {
  const send = (command: string, ...args: Word[]): Answer => {
    const answer: Answer = { times: 0 };
    client.send(command, args, (error, reply, elsewhere) => {
      answer.times++;
      Object.assign(answer, { error, reply }, elsewhere && { elsewhere });
    });
    return answer;
  };
  const ask = async (command: string, ...args: Word[]): Promise<Answer> => {
    const answer = send(command, ...args);
    await eventually(`an answer to ${command}`, () => answer.times > 0, 10_000);
    return answer;
  };
  return { send, ask };
}

/** Charges a key once. */
const charge = (key: string): [string, ...Word[]] => ["eval", "return redis.call('incr', KEYS[1])", 1, key];

const LOGIN = { username: "app", password: "a secret", db: 3 };

/** How soon a server that is there again is found, milliseconds. */
const FOUND_MS = 2000;

export function scriptClientContract({ library, share, title }: Way): void {
  /** A client for a server that may not be there. Its application has connected it, where that is its affair. */
  function opened({ onTestFinished }: TestContext, address: Address) {
    const app = library.client(address);
    onTestFinished(() => app.end());
    if (share && !library.connectsItself) app.connect().catch(() => {});
    const client = app.ours(share);
    onTestFinished(() => client.close());
    const states: ClientState[] = [client.state];
    client.onState(() => states.push(client.state));
    const becomes = (state: ClientState, withinMs = 10_000) =>
      eventually(`it is ${state}`, () => client.state === state, withinMs);
    return { app, client, states, becomes, ...caller(client) };
  }

  async function connected(test: TestContext, address: Address) {
    const subject = opened(test, address);
    await subject.becomes("ready");
    return subject;
  }

  describe.concurrent(title, () => {
    let server: RedisServer;
    let locked: RedisServer;
    let folder: string;
    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), "tidegate-socket-"));
      server = await startRedis({ args: ["--unixsocket", join(folder, "redis")] });
      await server.client.call("acl", "setuser", "app", "on", `>${LOGIN.password}`, "~*", "+@all");
      locked = await startRedis({ args: ["--requirepass", LOGIN.password] });
    });
    afterAll(async () => {
      await Promise.all([server.stop(), locked.stop()]);
      rmSync(folder, { recursive: true, force: true });
    });

    it("is connecting, then ready, and tells of it once", async (test) => {
      const { states } = await connected(test, server);
      await sleep(50);
      expect(states).toEqual(["connecting", "ready"]);
    });

    it("takes words and numbers, and gives replies as Redis does", async (test) => {
      const { ask } = await connected(test, server);
      const script = "return {1, -2, 'a', {ARGV[1], ARGV[2]}, false, '3'}";
      expect((await ask("eval", script, 0, 4.5, "Ä\r\n")).reply).toEqual([
        1,
        -2,
        "a",
        ["4.5", "Ä\r\n"],
        null,
        "3",
      ]);
      expect((await ask("eval", "return {2^53}", 0)).reply).toEqual([2 ** 53]);
      expect(String((await ask("info", "server")).reply)).toMatch(/^redis_version:\d/m);
    });

    it.for([
      ["NOSCRIPT", "evalsha", "0".repeat(40), 0],
      ["WRONGTYPE", "lpush", "a string", 1],
      ["MOVED", "eval", "return redis.error_reply('MOVED 1 127.0.0.1:1')", 0],
      ["OURS", "eval", "return redis.error_reply('OURS is known to nobody')", 0],
      ["ERR", "nonsense"],
    ] as [string, string, ...Word[]][])(
      "gives the server's own error: %s",
      async ([word, ...command], test) => {
        const { ask } = await connected(test, server);
        await ask("set", "a string", "x");
        const { error, reply, times } = await ask(...command);
        expect(error).toBeInstanceOf(Error);
        expect([(error as Error).message.split(" ")[0], reply, times]).toEqual([word, undefined, 1]);
      },
    );

    it("keeps the order of commands", async (test) => {
      const { send, ask } = await connected(test, server);
      const text = `return 'of ${title}'`;
      const load = send("script", "LOAD", text);
      const answers = Array.from({ length: 200 }, () => send(...charge(`order of ${title}`)));
      await ask("ping");
      expect(load.reply).toMatch(/^[0-9a-f]{40}$/);
      expect(answers).toEqual(answers.map((_, i) => ({ times: 1, error: undefined, reply: i + 1 })));
    });

    it("logs in as the application does, and takes its database", async (test) => {
      const { ask } = await connected(test, { port: server.port, ...LOGIN });
      expect((await ask("acl", "WHOAMI")).reply).toBe("app");
      expect(String((await ask("client", "INFO")).reply)).toMatch(/ db=3 /);
    });

    it("is down with a wrong password, and one of our own says why", async (test) => {
      const { client, becomes, states } = opened(test, { port: locked.port, password: "wrong" });
      await becomes("down");
      if (!share) await eventually("it says why", () => /WRONGPASS/.test(String(client.trouble)));
      expect(states).not.toContain("ready");
    });

    it("goes through a Unix socket", async (test) => {
      const { ask } = await connected(test, { path: join(folder, "redis") });
      expect((await ask("ping")).reply).toBe("PONG");
    });

    if (library.prefixesKeys)
      it("puts the application's keyPrefix before keys, and before nothing else", async (test) => {
        const { ask } = await connected(test, { port: server.port, keyPrefix: "app:" });
        const { reply } = await ask("eval", "return {KEYS[1], KEYS[2], ARGV[1]}", 2, "a", "b", "c");
        expect(reply).toEqual(["app:a", "app:b", "c"]);
      });

    it("leaves the application's client as it was", async (test) => {
      const app = library.client(server);
      test.onTestFinished(() => app.end());
      if (share) await app.connect();
      const before = app.shape();
      const client = app.ours(share);
      const { ask } = caller(client);
      await eventually("it is ready", () => client.state === "ready");
      expect((await ask(...charge("of the application"))).error).toBeUndefined();
      expect(app.isConnected()).toBe(share);
      await client.close();
      expect(app.shape()).toBe(before);
      expect(app.isConnected()).toBe(share);
      if (!share) await app.connect();
      expect(await app.ask("PING")).toBe("PONG");
    });

    it("may be closed twice, and tells nothing afterwards", async (test) => {
      const { client, states, send, app } = await connected(test, server);
      states.length = 0;
      await client.close();
      await client.close();
      const answer = share ? undefined : send("ping");
      await sleep(50);
      expect(states).toEqual([]);
      if (answer) expect(answer).toMatchObject({ times: 1, error: expect.any(Error) });
      else expect(await app.ask("PING")).toBe("PONG");
    });

    it("is down while there is no server at first, and ready soon after it comes", async (test) => {
      const port = await latePort();
      const { becomes, states, send } = opened(test, { port });
      await becomes("down");
      const answer = send("ping");
      await sleep(1200);
      expect(answer).toMatchObject({ times: 1, error: expect.any(Error) });
      const late = await startRedis({ port });
      test.onTestFinished(() => late.stop());
      await becomes("ready", FOUND_MS);
      expect(states.filter((state) => state === "ready")).toHaveLength(1);
    });

    it("fails what was under way when the server dies, queues nothing, and is ready again soon after", async (test) => {
      const first = await startRedis({ port: await latePort() });
      test.onTestFinished(() => first.stop());
      const { becomes, client, send } = await connected(test, first);
      first.pause();
      const answers = [send("ping")];
      await sleep(50);
      await first.kill();
      await becomes("down");
      answers.push(send("incr", "asked while away"));
      await sleep(50);
      const failed = { times: 1, error: expect.any(Error) };
      if (!client.resends) expect(answers).toMatchObject([failed, failed]);
      const second = await startRedis({ port: first.port });
      test.onTestFinished(() => second.stop());
      await becomes("ready", FOUND_MS);
      await eventually("all are answered", () => answers.every(({ times }) => times === 1));
      expect(await second.client.get("asked while away")).toBe(null);
    });

    it("fails what has no reply as the connection broke, and carries out nothing twice, ten times of ten", async (test) => {
      const proxy = await faultProxy(server);
      test.onTestFinished(() => proxy.close());
      const { becomes, client, ask } = await connected(test, proxy);
      const key = `lost by ${title}`;
      for (let i = 0; i < 10; i++) {
        proxy.dropReplies(1);
        const { times, error } = await ask(...charge(key));
        expect(times).toBe(1);
        if (!client.resends) expect(error).toBeInstanceOf(Error);
        await becomes("ready");
      }
      expect(client.resends).toBe(share && library.resends);
      expect(Number(await server.client.get(key))).toBe(client.resends ? 20 : 10);
    });

    if (!share)
      it("leaves a connection that says nothing after a second and a half, and finds the server again", async (test) => {
        const hanging = await startRedis();
        test.onTestFinished(() => hanging.stop());
        const { becomes, send } = await connected(test, hanging);
        hanging.pause();
        const start = performance.now();
        const underWay = send("ping");
        await eventually("it is given up", () => underWay.times > 0, 5000);
        expect(performance.now() - start).toBeGreaterThan(1400);
        expect(underWay.error).toBeInstanceOf(Error);
        await becomes("down");
        hanging.resume();
        await becomes("ready", FOUND_MS);
      });

    if (!share)
      it("finds a server that hung when it connected", async (test) => {
        const hanging = await startRedis();
        test.onTestFinished(() => hanging.stop());
        hanging.pause();
        const { becomes, client } = opened(test, hanging);
        await sleep(2200);
        expect(client.state).not.toBe("ready");
        hanging.resume();
        await becomes("ready", FOUND_MS);
      });

    if (!share)
      it("stays connected while nobody asks", async (test) => {
        const { states, ask } = await connected(test, server);
        await sleep(2500);
        expect((await ask("ping")).reply).toBe("PONG");
        expect(states).toEqual(["connecting", "ready"]);
      });

    if (!share)
      it("leaves its connection for another when it is told to", async (test) => {
        const { client, states, becomes, ask } = await connected(test, server);
        const id = (await ask("client", "ID")).reply;
        client.renew!();
        await eventually("it is down", () => states.includes("down"));
        await becomes("ready");
        expect((await ask("client", "ID")).reply).not.toBe(id);
      });
  });
}
