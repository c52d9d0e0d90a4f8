/** What a ClusterClient promises, whichever library is behind it. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ClientState, ClusterClient } from "@tidegate/core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type ClusterNode, slotOf, startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { eventually } from "../harness/eventually.ts";
import { faultProxy } from "../harness/fault-proxy.ts";
import type { RedisServer } from "../harness/redis.ts";
import { caller } from "./client-contract.ts";
import type { ClusterAddress, Way } from "./libraries.ts";
import { startLoneCluster } from "./lone-cluster.ts";
import { latePort } from "./late-port.ts";

const HALF = 8192;
const LAST = 16383;

const CHARGE = "return redis.call('incr', KEYS[1])";
const CHARGE_BOTH = "return {redis.call('incr', KEYS[1]), redis.call('incr', KEYS[2])}";

let count = 0;

/** A name in braces, and so a slot, that no other test uses. */
const freshTag = (): string => `{clients ${++count}}`;

export function clusterClientContract(ways: readonly Way[]): void {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startClusterOf({ primaries: 3 });
  });
  afterAll(() => cluster.stop());

  const portsOf = (nodes: readonly ClusterNode[]) => nodes.map(({ port }) => port);
  const portOf = (address: string | undefined) => Number(address?.split(":").at(-1));

  describe.each(ways)("$title", ({ library, share }) => {
    function opened(address: ClusterAddress) {
      const app = library.cluster(address);
      onTestFinished(() => app.end());
      if (share && !library.connectsItself) app.connect().catch(() => {});
      const client = app.ours(share);
      onTestFinished(() => client.close());
      const states: ClientState[] = [client.state];
      let changes = 0;
      client.onChange(() => {
        changes++;
        if (states.at(-1) !== client.state) states.push(client.state);
      });
      return { app, client, states, changes: () => changes };
    }

    async function ready(address: Partial<ClusterAddress> = {}) {
      const subject = opened({ ports: portsOf(cluster.nodes), ...address });
      await eventually("it is ready", () => subject.client.state === "ready");
      return subject;
    }

    /** Asks through the node of a key's owner, once that is connected. */
    async function at(client: ClusterClient, key: string) {
      const node = client.node(client.ownerOf(slotOf(client.keyPrefix + key))!);
      await eventually("the node is ready", () => node.state === "ready");
      return { node, ...caller(node) };
    }

    /** A tag's owner, and another primary to which its slot may go. */
    async function ends(tag: string) {
      const from = await cluster.primaryOf(tag);
      const to = (await cluster.primaries()).find(({ id }) => id !== from.id)!;
      return { from, to };
    }

    /** Begins to move a tag's slot. It has moved when the test is over. */
    async function migrating(tag: string) {
      const { from, to } = await ends(tag);
      const slot = slotOf(tag);
      await to.client.call("cluster", "setslot", slot, "importing", from.id);
      await from.client.call("cluster", "setslot", slot, "migrating", to.id);
      onTestFinished(async () => {
        await cluster.moveSlots(from, to, [slot]);
      });
      const move = (key: string) => from.client.call("migrate", to.host, to.port, "", 0, 5000, "keys", key);
      return { from, to, move };
    }

    it("knows who has which slots as soon as it is ready", async () => {
      const { client, states } = await ready();
      const primaries = await cluster.primaries();
      expect(new Set(client.primaries().map(portOf))).toEqual(new Set(portsOf(primaries)));
      for (const key of ["a", "b", "c", "d", "e"])
        expect(portOf(client.ownerOf(slotOf(key)))).toBe((await cluster.primaryOf(key)).port);
      expect([client.ownerOf(0), client.ownerOf(LAST)]).not.toContain(undefined);
      expect(states).toEqual(["connecting", "ready"]);
    });

    it("sends a command to the server that has the slot, and gives its errors as they are", async () => {
      const { client } = await ready();
      const tag = freshTag();
      const { ask, node } = await at(client, tag);
      expect(client.node(client.ownerOf(slotOf(tag))!)).toBe(node);
      expect(await ask("eval", CHARGE_BOTH, 2, `${tag}a`, `${tag}b`)).toMatchObject({
        times: 1,
        reply: [1, 1],
      });
      expect((await ask("evalsha", "0".repeat(40), 1, tag)).error).toMatchObject({
        message: expect.stringMatching(/^NOSCRIPT /),
      });
    });

    it("sends on a command whose slot has moved, and learns who has it", async () => {
      const { client, changes } = await ready();
      const tag = freshTag();
      const { ask } = await at(client, tag);
      const { from, to } = await ends(tag);
      await cluster.moveSlots(from, to, [slotOf(tag)]);
      const before = changes();
      const answer = await ask("eval", CHARGE_BOTH, 2, `${tag}a`, `${tag}b`);
      expect(answer).toEqual({ times: 1, error: undefined, reply: [1, 1], elsewhere: true });
      await eventually("it has learned", () => portOf(client.ownerOf(slotOf(tag))) === to.port);
      await eventually("it tells of it", () => changes() > before);
    });

    it("sends on what is asked for while a slot is on the move, and lets its owner be", async () => {
      const { client } = await ready();
      const tag = freshTag();
      const { ask } = await at(client, tag);
      const { from, to } = await migrating(tag);
      // One key: of several, a server that takes a slot over wants all to be there.
      expect((await ask("eval", CHARGE, 1, tag)).reply).toBe(1);
      expect(await to.client.call("cluster", "countkeysinslot", slotOf(tag))).toBe(1);
      expect(portOf(client.ownerOf(slotOf(tag)))).toBe(from.port);
    });

    it("asks again for keys of which some have moved and some have not", async () => {
      const { client } = await ready();
      const tag = freshTag();
      const { ask, send } = await at(client, tag);
      await ask("eval", CHARGE_BOTH, 2, `${tag}a`, `${tag}b`);
      const { move } = await migrating(tag);
      await move(`${tag}a`);
      const answer = send("eval", CHARGE_BOTH, 2, `${tag}a`, `${tag}b`);
      await move(`${tag}b`);
      await eventually("an answer", () => answer.times > 0);
      expect(answer).toMatchObject({ times: 1, error: undefined, reply: [2, 2] });
    });

    it("goes to where a map of addresses says that servers are, also when it is sent on", async () => {
      const primaries = await cluster.primaries();
      const proxies = await Promise.all(primaries.map((primary) => faultProxy(primary)));
      onTestFinished(() => proxies.forEach((proxy) => proxy.close()));
      const map = Object.fromEntries(
        primaries.map(({ port }, i) => [`127.0.0.1:${port}`, { host: "127.0.0.1", port: proxies[i]!.port }]),
      );
      const { client } = await ready({ map });
      const tag = freshTag();
      const { ask } = await at(client, tag);
      const { from, to } = await ends(tag);
      await cluster.moveSlots(from, to, [slotOf(tag)]);
      // After a MOVED, ioredis forgets its map and tries servers at random, until it has asked who has what.
      const keys = [`${tag}a`, `${tag}b`];
      await eventually("it is answered", async () => !(await ask("eval", CHARGE_BOTH, 2, ...keys)).error);
      expect(await to.client.mget(keys)).toEqual(["1", "1"]);
      const accepted = [from, to].map(({ port }) => proxies[portsOf(primaries).indexOf(port)]!.accepted);
      expect(Math.min(...accepted)).toBeGreaterThan(0);
    });

    if (library.prefixesKeys)
      it("puts the application's keyPrefix before keys, and finds their slots by it", async () => {
        const { client } = await ready({ keyPrefix: "app:" });
        expect(client.keyPrefix).toBe("app:");
        for (const key of ["a", "b", "c", "d"]) {
          const { ask } = await at(client, key);
          const answer = await ask("eval", "return {KEYS[1], ARGV[1]}", 1, key, "x");
          expect(answer).toEqual({ times: 1, error: undefined, reply: [`app:${key}`, "x"] });
        }
      });

    it("leaves the application's client as it was, and may be closed twice", async () => {
      const app = library.cluster({ ports: portsOf(cluster.nodes) });
      onTestFinished(() => app.end());
      if (share) await app.connect();
      const before = app.shape();
      const client = app.ours(share);
      await eventually("it is ready", () => client.state === "ready");
      const { ask } = await at(client, freshTag());
      client.refresh();
      expect((await ask("ping")).reply).toBe("PONG");
      expect(app.isConnected()).toBe(share);
      await client.close();
      await client.close();
      expect(app.shape()).toBe(before);
      expect(app.isConnected()).toBe(share);
      if (!share) await app.connect();
      expect(await app.ask("SET", freshTag(), "1")).toBe("OK");
    });

    it("makes a node once, and anew when it was closed", async () => {
      const { client } = await ready();
      const address = client.primaries()[0]!;
      const first = client.node(address);
      expect(client.node(address)).toBe(first);
      await first.close();
      const second = client.node(address);
      expect(second).not.toBe(first);
      await eventually("it is ready", () => second.state === "ready");
    });
  });

  describe("a server that has joined, and has no slots yet", () => {
    let newcomer: ClusterNode;
    beforeAll(async () => {
      newcomer = await cluster.addPrimary();
    });

    it.each(ways)("is asked for what is on the move to it: $title", async ({ library, share }) => {
      const app = library.cluster({ ports: portsOf(cluster.nodes) });
      onTestFinished(() => app.end());
      if (share) await app.connect();
      const client = app.ours(share);
      onTestFinished(() => client.close());
      await eventually("it is ready", () => client.state === "ready");
      const tag = freshTag();
      const from = await cluster.primaryOf(tag);
      const node = client.node(client.ownerOf(slotOf(tag))!);
      await eventually("the node is ready", () => node.state === "ready");
      await newcomer.client.call("cluster", "setslot", slotOf(tag), "importing", from.id);
      await from.client.call("cluster", "setslot", slotOf(tag), "migrating", newcomer.id);
      onTestFinished(async () => {
        for (const { client } of [from, newcomer])
          await client.call("cluster", "setslot", slotOf(tag), "stable");
        await newcomer.client.flushall();
      });
      const { reply, error } = await caller(node).ask("eval", CHARGE, 1, tag);
      // The router of node-redis, through which a shared client goes, knows only servers that have slots.
      const isAble = !share || library.connectsItself;
      expect([reply, (error as Error | undefined)?.message]).toEqual([
        isAble ? 1 : undefined,
        isAble ? undefined : "TRYAGAIN",
      ]);
      const keys = await newcomer.client.call("cluster", "countkeysinslot", slotOf(tag));
      expect(keys).toBe(isAble ? 1 : 0);
    });
  });

  describe("a Cluster that wants a password", () => {
    let locked: RedisServer;
    beforeAll(async () => {
      locked = await startLoneCluster();
      await locked.client.config("SET", "requirepass", "a secret");
    });
    afterAll(() => locked.stop());

    it.each(ways)(
      "is down with a wrong one, and one of our own says why: $title",
      async ({ library, share }) => {
        const app = library.cluster({ ports: [locked.port], password: "wrong" });
        onTestFinished(() => app.end());
        if (share) app.connect().catch(() => {});
        const client = app.ours(share);
        onTestFinished(() => client.close());
        await eventually("it is down", () => client.state === "down");
        if (!share) await eventually("it says why", () => /WRONGPASS|NOAUTH/.test(String(client.trouble)));
      },
    );
  });

  describe("a Cluster that is not there at first", () => {
    const late: Record<string, { down: boolean; readyMs: number; owner: string | undefined }> = {};
    beforeAll(async () => {
      const port = await latePort();
      const subjects = ways.map(({ library, share, title }) => {
        const app = library.cluster({ ports: [port] });
        const connect = () => {
          if (share && !library.connectsItself) app.connect().catch(() => {});
        };
        connect();
        return { title, app, connect, client: app.ours(share) };
      });
      await sleep(1000);
      const down = subjects.map(({ client }) => client.state === "down");
      const server = await startLoneCluster({ port });
      const start = performance.now();
      // Only its application connects a client of node-redis.
      for (const { connect } of subjects) connect();
      await Promise.all(
        subjects.map(async ({ title, client }, i) => {
          await eventually(`${title} is ready`, () => client.state === "ready", 10_000);
          late[title] = { down: down[i]!, readyMs: performance.now() - start, owner: client.ownerOf(HALF) };
        }),
      );
      for (const { app, client } of subjects) await client.close().then(() => app.end());
      await server.stop();
    });

    it.each(ways)("is found within two seconds by $title", ({ title }) => {
      const { down, readyMs, owner } = late[title]!;
      expect([down, owner]).toEqual([true, expect.any(String)]);
      expect(readyMs).toBeLessThan(2000);
    });
  });
}
