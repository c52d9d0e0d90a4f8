/** P19: a port that a proxy writes behind an address is no part of who is counted. */
import { describe, expect, it } from "vitest";
import { byHops, byNetworks, everyWay, NETWORK, ours, serve, type Way } from "./apps.ts";
import { askAll, FIVE_OF_40, forgers, statusOf, THREE, threeClients } from "./client.ts";
import { chain, proxy } from "./proxies.ts";

/** One entry with a port, whatever the client wrote. */
const WITH_PORT = {
  nginx: "proxy_set_header X-Forwarded-For $remote_addr:$remote_port;",
  haproxy: "http-request set-header X-Forwarded-For %[src]:%[src_port]",
};

describe.each(everyWay)("P19 %s", (_, way) => {
  it.each(["nginx", "haproxy"] as const)("T1 %s writes ports, and a client stays one", async (name) => {
    const app = await serve(way, way.trust(1), { limit: 5 });
    const door = await proxy(name, { at: "127.0.9.1", to: app.place, rules: WITH_PORT[name] });
    const answers = await askAll(door, forgers);
    expect(answers.map(statusOf)).toEqual(FIVE_OF_40);
    for (const { body } of answers.slice(0, 5)) expect(body).toMatch(/^127\.0\.0\.2:\d+$/);
    expect(new Set(answers.slice(0, 5).map(({ body }) => body)).size).toBeGreaterThan(1);
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
  });

  it("T1 also where a second proxy stands behind", async () => {
    const app = await serve(way, way.trust(2));
    const inner = await proxy("nginx", { at: "127.0.9.2", to: app.place });
    const outer = await proxy("haproxy", { at: "127.0.9.1", to: inner, rules: WITH_PORT.haproxy });
    const [answer] = await askAll(outer, threeClients);
    expect(answer!.body).toMatch(/^127\.0\.0\.1:\d+, 127\.0\.9\.1$/);
    expect(app.counted).toEqual(THREE);
  });
});

/** Who is counted where a proxy writes the port of the proxy before it. */
async function portOfProxy(way: Way, trust: number | string[]) {
  const app = await serve(way, trust);
  const rules = "http-request add-header X-Forwarded-For %[src]:%[src_port]";
  const inner = await proxy("haproxy", { at: "127.0.9.2", to: app.place, rules });
  const [answer] = await askAll(await chain(inner, "nginx"), threeClients);
  expect(answer!.body).toMatch(/^127\.0\.0\.1, 127\.0\.9\.1:\d+$/);
  return app.counted;
}

describe("P19 a proxy writes the port of the proxy before it:", () => {
  it.each(byHops)("%s counts each client", async (_, way) => {
    expect(await portOfProxy(way, 2)).toEqual(THREE);
  });

  it.each(ours)("%s (our trustProxy, networks) counts each client", async (_, way) => {
    expect(await portOfProxy(way, NETWORK)).toEqual(THREE);
  });

  it.each(byNetworks.filter(([, { by }]) => by === "its setting"))(
    "%s knows no address with a port, so that proxy is the key",
    async (_, way) => {
      expect(await portOfProxy(way, NETWORK)).toEqual(["ip:127.0.9.1"]);
    },
  );
});
