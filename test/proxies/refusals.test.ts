/** A refusal tells whose it is: a proxy's own carries nothing of ours, and ours comes through proxies whole. */
import { describe, expect, it } from "vitest";
import { everyFramework, serve } from "./apps.ts";
import { type Answer, askAll } from "./client.ts";
import { APPENDS, proxy } from "./proxies.ts";

/** How a proxy refuses the fifth request of a minute. */
const refusing = {
  nginx: (status: string) => ({
    http: "limit_req_zone $binary_remote_addr zone=door:1m rate=1r/m;",
    rules: `limit_req zone=door burst=3 nodelay; ${status} ${APPENDS.nginx}`,
  }),
  haproxy: (status: string) => ({
    rules: `
  stick-table type ip size 1k expire 60s store http_req_rate(60s)
  http-request track-sc0 src
  http-request deny ${status} if { sc_http_req_rate(0) gt 4 }
  ${APPENDS.haproxy}`,
  }),
};

const OURS = ["ratelimit-policy", "ratelimit", "retry-after", "cache-control", "content-type"];

/** Of the fields that we may write, those that are there. */
const fieldsOf = ({ headers }: Answer) =>
  Object.fromEntries(OURS.flatMap((name) => (name in headers ? [[name, headers[name]]] : [])));

describe.each(everyFramework)("In front of %s", (_, way) => {
  it.each([
    ["nginx", 503, ""],
    ["nginx", 429, "limit_req_status 429;"],
    ["haproxy", 403, ""],
    ["haproxy", 429, "deny_status 429"],
  ] as const)(
    "%s refuses by its own %i, and the application by its own 429",
    async (name, status, setting) => {
      const app = await serve(way, ["127.0.9.1"], { limit: 2 });
      const door = await proxy(name, { at: "127.0.9.1", to: app.place, ...refusing[name](setting) });
      const answers = await askAll(door, Array(5).fill({ from: "127.0.0.2" }));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 429, 429, status]);

      const [, , ours] = answers;
      expect(fieldsOf(ours!)).toEqual({
        "ratelimit-policy": '"default";q=2;w=60',
        ratelimit: '"default";r=0;t=90', // Both stay in view for a window more, and weigh less and less.
        "retry-after": "90",
        "cache-control": "no-store",
        "content-type": "application/problem+json",
      });
      expect(JSON.parse(ours!.body)).toMatchObject({ status: 429, "violated-policies": ["default"] });

      const theirs = answers.at(-1)!;
      expect(Object.keys(theirs.headers).filter((field) => /ratelimit|retry-after/.test(field))).toEqual([]);
      expect(theirs.headers["content-type"]).toBe("text/html");
      expect(theirs.body).not.toContain("violated-policies");
    },
  );
});
