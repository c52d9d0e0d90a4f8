/** A header in which a CDN names the client is believed from that CDN, and from nobody else. */
import { ip } from "@tidegate/express";
import { describe, expect, it } from "vitest";
import { everyFramework, serve } from "./apps.ts";
import { type Asking, askAll, FIVE_OF_40, statusOf, THREE, threeClients } from "./client.ts";
import { APPENDS, proxy } from "./proxies.ts";

const CDN = "127.0.9.1";
const OURS = "127.0.9.2";

const config = { limit: 5, by: ip({ trustedHeaders: { header: "CF-Connecting-IP", from: [CDN] } }) };

/** Writes the client's address over whatever the client wrote. */
const NAMES_CLIENT = `${APPENDS.nginx} proxy_set_header CF-Connecting-IP $remote_addr;`;

/** 40 requests of one client, each in another's name. */
const forgers: Asking[] = Array.from({ length: 40 }, (_, i) => ({
  from: "127.0.0.2",
  headers: { "CF-Connecting-IP": `198.51.100.${i}`, "X-Forwarded-For": `198.51.100.${i}, ${CDN}` },
}));

describe.each(everyFramework)("cf-connecting-ip to %s", (_, way) => {
  it("is believed from the CDN", async () => {
    const app = await serve(way, undefined, config);
    const cdn = await proxy("nginx", { at: CDN, to: app.place, rules: NAMES_CLIENT });
    await askAll(cdn, threeClients);
    expect(app.counted).toEqual(THREE);
    expect((await askAll(cdn, forgers)).map(statusOf)).toEqual([...FIVE_OF_40.slice(1), 429]);
    expect(app.counted).toEqual(THREE);
  });

  it("is believed where a proxy of our own stands between the CDN and us", async () => {
    const app = await serve(way, [OURS], config);
    const own = await proxy("haproxy", { at: OURS, to: app.place });
    const cdn = await proxy("nginx", { at: CDN, to: own, rules: NAMES_CLIENT });
    await askAll(cdn, threeClients);
    expect(app.counted).toEqual(THREE);
  });

  it("is not believed from whoever asks without the CDN", async () => {
    const app = await serve(way, undefined, config);
    expect((await askAll(app.place, forgers)).map(statusOf)).toEqual(FIVE_OF_40);
    expect(app.counted).toEqual(["ip:127.0.0.2"]);
  });

  it("is not believed from another proxy that hands it on, trusted or not", async () => {
    for (const [trust, counted] of [
      [undefined, `ip:${OURS}`],
      [[OURS], "ip:127.0.0.2"],
    ] as const) {
      const app = await serve(way, trust && [...trust], config);
      const own = await proxy("haproxy", { at: OURS, to: app.place, rules: "option forwardfor" });
      expect((await askAll(own, forgers)).map(statusOf)).toEqual(FIVE_OF_40);
      expect(app.counted).toEqual([counted]);
    }
  });
});
