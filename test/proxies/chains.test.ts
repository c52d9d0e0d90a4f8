/** P05: behind proxies everybody is counted for themselves, however many of them there are. */
import { describe, expect, it } from "vitest";
import { byHops, byNetworks, everyFramework, everyWay, NETWORK, ours, serve } from "./apps.ts";
import { ask, askAll, forgers, statusOf, THREE, threeClients } from "./client.ts";
import { chain, proxy, type ProxyName } from "./proxies.ts";

const chains: [name: string, proxies: ProxyName[]][] = [
  ["nginx and haproxy", ["nginx", "haproxy"]],
  ["haproxy and nginx", ["haproxy", "nginx"]],
  ["nginx, haproxy and nginx", ["nginx", "haproxy", "nginx"]],
];

describe.each(everyWay)("P05 %s", (_, way) => {
  it("T1 150 clients behind one proxy are 150", async () => {
    const app = await serve(way, way.trust(1), { limit: 100 });
    const door = await chain(app.place, "nginx");
    const clients = Array.from({ length: 150 }, (_, i) => `127.0.1.${i + 1}`);
    const answers = await Promise.all(clients.map((from) => ask(door, { from })));
    expect(answers.map(statusOf)).toEqual(clients.map(() => 200));
    expect([...app.counted].sort()).toEqual(clients.map((client) => `ip:${client}`).sort());
    expect(app.warnings).toEqual([]);
  });

  it.each(chains)("T3 behind %s each client is its own", async (_, proxies) => {
    const app = await serve(way, way.trust(proxies.length));
    await askAll(await chain(app.place, ...proxies), threeClients);
    expect(app.counted).toEqual(THREE);
    expect(app.warnings).toEqual([]);
  });
});

describe.each(byNetworks)("P05 %s", (_, way) => {
  it("T3 a client is the same through one, two and three proxies", async () => {
    const app = await serve(way, NETWORK, { limit: 3 });
    const one = await chain(app.place, "haproxy");
    const two = await chain(app.place, "nginx", "haproxy");
    const three = await chain(app.place, "nginx", "haproxy", "nginx");
    const statuses: number[] = [];
    for (const door of [one, two, three, one, two, three])
      statuses.push((await ask(door, { from: "127.0.0.2" })).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
  });

  it("a proxy outside of the networks is a client like any other", async () => {
    const app = await serve(way, NETWORK);
    const inside = await chain(app.place, "haproxy");
    const outside = await proxy("nginx", { at: "127.0.8.1", to: inside });
    await askAll(outside, [...threeClients, ...forgers]);
    expect(app.counted).toEqual(["ip:127.0.8.1"]);
  });
});

describe.each(ours)("P05 %s (our trustProxy, a function)", (_, way) => {
  it("is asked for addresses as they are, IPv4 also where the application listens for IPv6", async () => {
    const app = await serve(way, (address) => ["127.0.9.1", "127.0.9.2"].includes(address));
    await askAll(await chain(app.place, "nginx", "haproxy"), [...threeClients, ...forgers]);
    expect(app.counted).toEqual(THREE);
    expect(app.warnings).toEqual([]);
  });
});

describe.each(byHops)("P05 %s", (_, way) => {
  it("with a proxy more than are counted, the outer one is the key and no forged entry", async () => {
    const app = await serve(way, 1);
    const door = await chain(app.place, "nginx", "haproxy");
    await askAll(door, [...threeClients, ...forgers]);
    expect(app.counted).toEqual(["ip:127.0.9.1"]);
  });
});

/** What names the setting to whoever reads the warning. */
const SETTINGS = {
  "Express 5": 'app.set("trust proxy", …)',
  "Fastify 5": "trustProxy of Fastify",
  "Koa 3": "trustProxy",
};

describe.each(everyFramework)("P05 %s, which believes nobody", (_, way) => {
  it.each(["nginx", "haproxy"] as const)("T2 counts %s, and warns once by the setting", async (name) => {
    const app = await serve(way, undefined);
    await askAll(await chain(app.place, name), [...threeClients, ...forgers]);
    expect(app.counted).toEqual(["ip:127.0.9.1"]);
    const message = expect.stringContaining(SETTINGS[way.framework]);
    expect(app.warnings).toEqual([{ type: "warning", code: "TIDEGATE_FORWARDED_UNTRUSTED", message }]);
  });
});

it("Fastify's own hop count believes nobody: the proxy is the key", async () => {
  const app = await serve({ framework: "Fastify 5", by: "its setting" }, 1);
  await askAll(await chain(app.place, "nginx"), [...threeClients, ...forgers]);
  expect(app.counted).toEqual(["ip:127.0.9.1"]);
});
