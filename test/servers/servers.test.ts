import { describe, expect, it, onTestFinished } from "vitest";
import { startRedis } from "../harness/redis.ts";
import { isDebian, serverOf, servers } from "../harness/servers.ts";

it.runIf(isDebian)("on Debian every server is there", () => {
  const names = ["redis-7.0", "redis-8.0", "valkey-8.0", "valkey-8.1"] as const;
  expect(servers).toEqual(names);
  expect(names.map((name) => serverOf(name).name)).toEqual(names);
});

it("one that is not there is an error that says why", () => {
  const why = "valkey-0.0 is not to be had: run `node scripts/servers.js`.";
  expect(() => serverOf("valkey-0.0" as never)).toThrow(why);
});

describe.each(servers)("%s", (name) => {
  it("starts, and is of the version that the list tells", async () => {
    const { version } = serverOf(name);
    const server = await startRedis({ server: name });
    onTestFinished(() => server.stop());
    const told = new RegExp(`^${name.startsWith("valkey") ? "valkey" : "redis"}_version:(.*)\\r$`, "m");
    expect(told.exec(await server.client.info("server"))?.[1]).toBe(version);
    expect(version.startsWith(`${name.split("-")[1]}.`)).toBe(true);
  });
});
