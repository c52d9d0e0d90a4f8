/** P12: CORS preflights. What frameworks do with them by themselves is theirs; here, what a `skip` of one's own does. */
import { fixedWindow } from "@tidegate/core";
import { describe, expect, it } from "vitest";
import { useRedis } from "../harness/http.ts";
import { type Asked, guardOf, ruling } from "./asking.ts";

const redis = useRedis();

const PREFLIGHT: Asked = {
  method: "OPTIONS",
  headers: { origin: "https://app.example", "access-control-request-method": "POST" },
};
const isPreflight = ({ method, headers = {} }: Asked): boolean =>
  method === "OPTIONS" && Boolean(headers["origin"] && headers["access-control-request-method"]);

const two = () =>
  guardOf({
    store: redis.store,
    policies: { two: fixedWindow({ limit: 2, window: "1h" }) },
    skip: isPreflight,
  });

describe("P12 preflights", () => {
  it("P12 T1 a skipped preflight takes nothing: preflight, GET, preflight, GET at a limit of 2", async () => {
    const guard = two();
    const kinds = [];
    for (const asked of [PREFLIGHT, { method: "GET" }, PREFLIGHT, { method: "GET" }, { method: "GET" }])
      kinds.push((await ruling(guard, asked)).kind);
    expect(kinds).toEqual(["skip", "pass", "skip", "pass", "refuse"]);
  });

  it("P12 T2 a skipped preflight passes when the limit is spent, and nothing of ours is on it", async () => {
    const guard = two();
    for (let i = 0; i < 3; i++) await ruling(guard, { method: "GET" });
    expect(await ruling(guard, PREFLIGHT)).toEqual({ kind: "skip" });
  });

  it("P12 T3 an OPTIONS that is no preflight is counted", async () => {
    const guard = two();
    const kinds = [];
    for (let i = 0; i < 3; i++) kinds.push((await ruling(guard, { method: "OPTIONS" })).kind);
    expect(kinds).toEqual(["pass", "pass", "refuse"]);
  });
});
