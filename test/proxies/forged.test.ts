/** P08: whatever a client writes into X-Forwarded-For, it is counted by the address that a proxy saw. */
import { describe, expect, it } from "vitest";
import { byHops, byNetworks, everyWay, NETWORK, serve } from "./apps.ts";
import { ask, askAll, FIVE_OF_40, forgers, statusOf, threeClients } from "./client.ts";
import { chain, proxy, type ProxyName } from "./proxies.ts";

const chains: [name: string, proxies: ProxyName[]][] = [
  ["nginx", ["nginx"]],
  ["haproxy", ["haproxy"]],
  ["nginx and haproxy", ["nginx", "haproxy"]],
];

/** What is no address, as haproxy is told to write it. */
const noAddresses: [entry: string, rule: string][] = [
  ["23189987", "23189987"],
  ["unknown", "unknown"],
  ["nothing", "%[var(txn.unset)]"],
];

describe.each(everyWay)("P08 %s", (_, way) => {
  it.each(chains)("T1 behind %s forged entries win no new quota", async (_, proxies) => {
    const app = await serve(way, way.trust(proxies.length), { limit: 5 });
    const door = await chain(app.place, ...proxies);
    const answers = await askAll(door, forgers);
    expect(answers.map(statusOf)).toEqual(FIVE_OF_40);
    expect(answers[1]!.body).toMatch(/^198\.51\.100\.1, 203\.0\.113\.1, 127\.0\.0\.2/); // It did arrive.
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
    expect((await ask(door, { from: "127.0.0.3" })).status).toBe(200);
  });

  it.each(noAddresses)("T3 a proxy that writes %s for an address is the key", async (_, entry) => {
    const app = await serve(way, way.trust(1));
    const rules = `http-request set-header X-Forwarded-For ${entry}`;
    const door = await proxy("haproxy", { at: "127.0.9.1", to: app.place, rules });
    await askAll(door, [...threeClients, ...forgers]);
    expect(app.counted).toEqual(["ip:127.0.9.1"]);
  });
});

/** One entry, whatever the client wrote. */
const REPLACES = {
  nginx: "proxy_set_header X-Forwarded-For $remote_addr;",
  haproxy: "http-request set-header X-Forwarded-For %[src]",
};

describe.each(byHops)("P08 %s, one too many", (_, way) => {
  it.each(["nginx", "haproxy"] as const)("T2 an entry is missing, so %s is the key", async (name) => {
    const app = await serve(way, 2, { limit: 5 });
    const door = await proxy(name, { at: "127.0.9.1", to: app.place, rules: REPLACES[name] });
    const answers = await askAll(door, forgers);
    expect(answers.map(statusOf)).toEqual(FIVE_OF_40);
    expect(answers[0]!.body).toBe("127.0.0.2");
    expect(app.counted).toEqual(["ip:127.0.9.1"]);
  });

  it("T2 of clients that write nothing, the proxy is the key", async () => {
    const app = await serve(way, 2);
    await askAll(await chain(app.place, "nginx"), threeClients);
    expect(app.counted).toEqual(["ip:127.0.9.1"]);
  });

  it("T2 a client that asks without any proxy, and writes one entry, is the key", async () => {
    const app = await serve(way, 2, { limit: 5 });
    const headers = (i: number) => ({ "X-Forwarded-For": `198.51.100.${i}` });
    const answers = await askAll(
      app.place,
      forgers.map(({ from }, i) => ({ from: from!, headers: headers(i) })),
    );
    expect(answers.map(statusOf)).toEqual(FIVE_OF_40);
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
  });
});

describe.each(byNetworks)("P08 %s", (_, way) => {
  it("T1 a client that asks without any proxy is counted by its own address", async () => {
    const app = await serve(way, NETWORK, { limit: 5 });
    expect((await askAll(app.place, forgers)).map(statusOf)).toEqual(FIVE_OF_40);
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
  });
});
