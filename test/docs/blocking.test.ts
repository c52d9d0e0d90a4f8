import { memoryStore, rateLimit, slidingLog, tokenBucket } from "@tidegate/express";
import express from "express";
import request from "supertest";
import { expect, it } from "vitest";
import { fakeClock } from "../harness/clock.ts";
import { blockOf, read, sectionOf } from "./markdown.ts";

it("docs/blocking.md shows the answer to one that is blocked", async () => {
  const limit = rateLimit({
    store: memoryStore({ nowUs: fakeClock().now }),
    blocking: true,
    by: () => "42",
    policies: {
      api: tokenBucket({ capacity: 100, refillPerSecond: 10 }),
      login: slidingLog({ limit: 5, window: "15m" }),
    },
  });
  await limit.limiter.block("42", 60 * 60 * 1000, "scraping");
  const { status, headers, text } = await request(express().use(limit)).get("/");

  const shown = blockOf(sectionOf(read("docs/blocking.md"), "Blocking"), "http")
    .trim()
    .split("\n");
  const fields = shown.slice(1, -2).map((line) => line.split(": ", 2) as [string, string]);
  expect(shown[0]).toBe(`HTTP/1.1 ${status} Too Many Requests`);
  expect(shown.at(-1)).toBe(text);
  for (const [name, value] of fields) expect(headers[name.toLowerCase()]).toBe(value);
  expect(headers).not.toHaveProperty("ratelimit");
});
