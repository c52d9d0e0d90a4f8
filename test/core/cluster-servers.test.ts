/** Servers that leave a Cluster while questions are on their way to them, by a client of our contract. */
import {
  type ClientDone,
  type ClusterClient,
  createLimiter,
  fixedWindow,
  type ScriptClient,
} from "@tidegate/core";
import { expect, it, onTestFinished } from "vitest";
import { eventually } from "../harness/eventually.ts";

/** A server that tells what it is, and answers no question until it is told to. */
function silentServer() {
  const unanswered: ClientDone[] = [];
  const client: ScriptClient = {
    state: "ready",
    trouble: undefined,
    onState() {},
    send(command, _, done) {
      if (command === "info")
        done(undefined, `redis_version:7.0.15\r\nserver_time_usec:${Date.now() * 1000}\r\n`);
      else if (command === "evalsha") unanswered.push(done);
    },
    close: async () => {},
  };
  return { client, unanswered };
}

function changingCluster(...names: string[]) {
  let changed = () => {};
  let owner = names[0]!;
  const servers = new Map(names.map((name) => [name, silentServer()]));
  const cluster: ClusterClient = {
    state: "ready",
    trouble: undefined,
    onChange: (listener) => void (changed = listener),
    ownerOf: () => owner,
    primaries: () => [owner],
    node: (address) => servers.get(address)!.client,
    keyPrefix: "",
    refresh() {},
    close: async () => {},
  };
  const moveTo = (name: string) => {
    owner = name;
    changed();
  };
  return { cluster, servers, moveTo };
}

it.each([
  ["fails", new Error("Connection is closed.")],
  ["is never answered", undefined],
])("what is under way to a server that has left and %s is no outage", async (_, error) => {
  const { cluster, servers, moveTo } = changingCluster("a:1", "b:2");
  const events: string[] = [];
  const limiter = createLimiter({
    redis: cluster,
    policies: { p: fixedWindow({ limit: 5, window: "1m" }) },
    timeoutMs: 300,
    onEvent: ({ type }) => events.push(type),
  });
  onTestFinished(() => limiter.close());
  const underWay = Array.from({ length: 8 }, (_, i) => limiter.decide({ identity: `user-${i}` }));
  await eventually("all are sent", () => servers.get("a:1")!.unanswered.length === 8);
  moveTo("b:2");
  if (error) for (const done of servers.get("a:1")!.unanswered) done(error, undefined);
  for (const { degraded } of await Promise.all(underWay)) expect(degraded?.rule).toBe("open");
  expect(limiter.health()).toMatchObject({ state: "ok", breaker: "closed" });
  expect(events).not.toContain("storeError");
});

it("an outage ends when its server leaves, and its breaker is no more", async () => {
  const { cluster, moveTo } = changingCluster("a:1", "b:2");
  const limiter = createLimiter({ redis: cluster, policies: { p: fixedWindow({ limit: 5, window: "1m" }) } });
  onTestFinished(() => limiter.close());
  await Promise.all(Array.from({ length: 8 }, (_, i) => limiter.decide({ identity: `user-${i}` })));
  expect(limiter.health()).toMatchObject({ state: "degraded", breaker: "open" });
  moveTo("b:2");
  expect(limiter.health()).toMatchObject({ state: "ok", breaker: "closed" });
});
