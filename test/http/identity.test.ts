/** P28: functions that say who is counted, and what happens when they do not. */
import { fixedWindow, identity, user } from "@tidegate/express";
import express from "express";
import { describe, expect, it } from "vitest";
import { limiting, LOCAL, serve, useRedis, visit, visits } from "../harness/http.ts";

const redis = useRedis();

const FAULT = { type: "warning", code: "TIDEGATE_IDENTITY_FAULT", message: expect.any(String) };
const limited = (by: () => unknown) =>
  limiting({ store: redis.store, limit: 2, window: "1m", by: by as unknown as () => string, timeoutMs: 500 });

/** What is no identity, as functions happen to give it. */
const nonsense: [string, unknown][] = [
  ["undefined", undefined],
  ["null", null],
  ["an empty text", ""],
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["an empty object", {}],
  ["an array", ["anna"]],
  ["true", true],
  ["a symbol", Symbol("anna")],
  ["a function", () => "anna"],
  ["a kind alone", { kind: "user" }],
  ["an object with a promise in it", { kind: "user", value: Promise.resolve("anna") }],
  ["an object with a kind that would leave the tag", { kind: "user}", value: "anna" }],
];

describe("P28 T1", () => {
  it.each(nonsense)("%s is counted under the peer's address, with an event each time", async (_, value) => {
    const limit = limited(() => value);
    const answers = await visits(3, serve(express, limit));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(await redis.keys()).toEqual([`${LOCAL}:default:sw`]);
    expect(limit.events).toEqual([FAULT, FAULT, FAULT]);
  });

  it.each(nonsense)("%s given later is no different", async (_, value) => {
    const limit = limited(async () => value);
    await visit(serve(express, limit));
    expect(await redis.keys()).toEqual([`${LOCAL}:default:sw`]);
    expect(limit.events).toEqual([FAULT]);
  });
});

describe("P28 T2", () => {
  it.each([
    ["throws", () => fail()],
    ["gives a promise that is rejected", async () => fail()],
    ["gives a promise that nobody keeps", () => new Promise<never>(() => {})],
  ])("a function that %s is as one that gives nothing", async (_, by) => {
    const limit = limiting({
      store: redis.store,
      limit: 2,
      window: "1m",
      by: by as unknown as () => string,
      timeoutMs: 800,
    });
    expect((await visit(serve(express, limit))).status).toBe(200);
    expect(await redis.keys()).toEqual([`${LOCAL}:default:sw`]);
    expect(limit.events).toEqual([FAULT]);
  });

  it("a fault of one policy's function leaves the others their identities", async () => {
    const limit = limiting({
      store: redis.store,
      timeoutMs: 500,
      policies: {
        one: fixedWindow({ limit: 2, window: "1m", by: () => fail() }),
        two: fixedWindow({ limit: 2, window: "1m", by: () => "anna" }),
      },
    });
    await visit(serve(express, limit));
    expect(await redis.keys()).toEqual(["rl:{id:anna}:two:fw", `${LOCAL}:one:fw`]);
    expect(limit.events).toEqual([FAULT]);
  });
});

describe("P28 T3", () => {
  it.each([
    ["'0'", () => "0", "id:0"],
    ["0", () => 0, "id:0"],
    ["a promise of text", async () => "anna", "id:anna"],
    ["an identity", () => user(0), "user:0"],
    ["a promise of an identity", async () => identity("anna"), "id:anna"],
    ["an object of kind and value", () => ({ kind: "team", value: "red" }), "team:red"],
  ])("%s is counted as it says", async (_, by, who) => {
    const limit = limited(by);
    await visit(serve(express, limit));
    expect(await redis.keys()).toEqual([`rl:{${who}}:default:sw`]);
    expect(limit.events).toEqual([]);
  });
});

it("P28 T4 a promise forgotten in text never stands in a key", async () => {
  await visit(
    serve(
      express,
      limited(() => String(Promise.resolve("anna"))),
    ),
  );
  const [key] = await redis.keys();
  expect(key).toMatch(/^rl:\{id:h\.[\w-]{22}\}:default:sw$/);
});

function fail(): never {
  throw new Error("a fault of the user's");
}
