/** P15: a proxy that asks over a Unix socket has no address, and clients have one only by its word. */
import { describe, expect, it } from "vitest";
import {
  byNetworks,
  everyFramework,
  NETWORK,
  ours,
  serve,
  type Trust,
  unixSocket,
  type Way,
} from "./apps.ts";
import { ask, askAll, FIVE_OF_40, forgers, statusOf, THREE, threeClients } from "./client.ts";
import { proxy } from "./proxies.ts";

/** An application on a Unix socket, and nginx in front of it. */
async function behindNginx(way: Way, trust: Trust, limit = 100) {
  const app = await serve(way, trust, { limit }, unixSocket());
  return { app, door: await proxy("nginx", { at: "127.0.9.1", to: app.place }) };
}

const codes = ({ warnings }: { warnings: readonly { code: string }[] }) => warnings.map(({ code }) => code);

describe.each(everyFramework)("P15 %s, which believes nobody", (_, way) => {
  it.each(["nginx", "haproxy"] as const)(
    "T2 all clients of %s count together, with a warning",
    async (name) => {
      const app = await serve(way, undefined, { limit: 2 }, unixSocket());
      const door = await proxy(name, { at: "127.0.9.1", to: app.place });
      const answers = await askAll(door, [...threeClients, ...forgers]);
      expect(answers.map(statusOf)).toEqual([200, 200, ...Array(41).fill(429)]);
      expect(app.counted).toEqual(["ip:none"]);
      expect(codes(app)).toEqual(["TIDEGATE_FORWARDED_UNTRUSTED", "TIDEGATE_NO_ADDRESS"]);
    },
  );
});

describe("P15 a list of networks believes no peer without an address", () => {
  it.each(byNetworks)("T2 %s: all count together, with one warning", async (_, way) => {
    const { app, door } = await behindNginx(way, NETWORK, 5);
    const answers = await askAll(door, [...forgers, ...threeClients]);
    expect(answers.map(statusOf)).toEqual([...FIVE_OF_40, 429, 429, 429]);
    expect(app.counted).toEqual(["ip:none"]);
    expect(codes(app)).toEqual(["TIDEGATE_NO_ADDRESS"]);
  });
});

const [[, EXPRESS], [, FASTIFY]] = everyFramework as [[string, Way], [string, Way]];
const noAddress = (address?: string) => address === undefined;

describe.each<[name: string, way: Way, trust: Trust]>([
  ["Express 5 believes one hop", EXPRESS, 1],
  ["Express 5 believes who has no address", EXPRESS, noAddress],
  ["Fastify 5 believes who has no address", FASTIFY, noAddress],
  ...ours.flatMap(([name, way]): [string, Way, Trust][] => [
    [`${name} counts hops by our setting`, way, 1],
    [`${name} believes a Unix socket by our function`, way, (address) => address === "unix"],
  ]),
])("P15 where %s", (_, way, trust) => {
  it("each client behind the socket is its own", async () => {
    const { app, door } = await behindNginx(way, trust);
    await askAll(door, threeClients);
    expect(app.counted).toEqual(THREE);
    expect(app.warnings).toEqual([]);
  });

  it("P08 forged entries win no new quota", async () => {
    const { app, door } = await behindNginx(way, trust, 5);
    expect((await askAll(door, forgers)).map(statusOf)).toEqual(FIVE_OF_40);
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
  });

  it("a program of this machine that asks without the proxy has no address", async () => {
    const { app } = await behindNginx(way, trust);
    await ask(app.place);
    expect(app.counted).toEqual(["ip:none"]);
    expect(codes(app)).toEqual(["TIDEGATE_NO_ADDRESS"]);
  });
});

it("P08 T2 Express 5 counts two hops and one entry is there: all count together", async () => {
  const { app, door } = await behindNginx(EXPRESS, 2);
  await askAll(door, threeClients);
  expect(app.counted).toEqual(["ip:none"]);
});
