/** What docs/testing.md shows. That its blocks compile is tested with all others. */
import { slidingLog } from "@tidegate/core";
import { expectLimited, matchers, rateLimitOf, testStore } from "@tidegate/core/testing";
import { rateLimit } from "@tidegate/express";
import express from "express";
import request from "supertest";
import { expect, it } from "vitest";
import { blocksOf, read, sectionOf, tablesOf } from "../docs/markdown.ts";

const page = read("docs/testing.md");

async function firstLogin() {
  const app = express();
  const policies = { login: slidingLog({ limit: 2, window: "15m" }) };
  app.use(rateLimit({ store: testStore(), policies }));
  app.post("/login", (_, res) => void res.end());
  return request(app).post("/login");
}

it("shows a failure as it is", async () => {
  const response = await firstLogin();
  const shown = blocksOf(page).find(({ preamble }) => preamble === "a failure")!.text;
  expect(() => expectLimited(response)).toThrow(expect.objectContaining({ message: shown.trimEnd() }));
});

it("shows what rateLimitOf gives", async () => {
  const told = rateLimitOf(await firstLogin());
  const shown = (name: string): unknown => {
    const [, json] = new RegExp(`^// ${name}: +(.*)$`, "m").exec(page)!;
    return JSON.parse(json!.replaceAll(/(\w+):/g, '"$1":'));
  };
  expect(told.policies).toStrictEqual(shown("policies"));
  expect(told.limits).toStrictEqual(shown("limits"));
});

it("lists every assertion", () => {
  const [rows] = tablesOf(sectionOf(page, "What responses say"));
  const listed = rows!.map(({ matcher }) => matcher!.replace(/\(.*/, ""));
  expect(listed.sort()).toEqual(Object.keys(matchers).sort());
});

it("lists every way to fail", () => {
  const [rows] = tablesOf(sectionOf(page, "A store that fails"));
  const listed = rows!.map(({ call }) => /^store\.(\w+)/.exec(call!)![1]);
  expect(listed.map(String).sort()).toEqual(["fail", "failNext", "hang", "heal", "slow"]);
});
