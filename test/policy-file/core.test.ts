/** The table of the policy file says again what core checks: here the two are held to each other. */
import { type Config, createLimiter, memoryStore, type PolicyOptions } from "@tidegate/core";
import * as core from "@tidegate/core";
import { describe, expect, it } from "vitest";
import type { Option, Options, Shape } from "../../packages/policy-file/src/shapes.ts";
import { DEFINITIONS, FILE } from "../../packages/policy-file/src/table.ts";

type Maker = (options: object) => core.Policy;
const maker = (name: string) => (core as unknown as Record<string, Maker>)[name]!;

/** What core says of a value, as text; `undefined`: it takes it. */
function refusal(make: () => unknown): string | undefined {
  try {
    make();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** The smallest and the largest that a shape takes, and the next beyond both. */
const edgesOf = ({ least, most }: { least: number; most: number }) => ({
  inside: [least, most],
  outside: [least - 1, most + 1, least + 0.5, String(least)],
});

const variants = (DEFINITIONS["policy"] as Shape & { kind: "variants" }).of;

/** What lets any single number of a policy stand. */
const SOUND: Record<string, Record<string, object>> = {
  tokenBucket: {
    capacity: { refillPerSecond: 1e9 },
    shards: { capacity: 64, refillPerSecond: 1 },
    "*": { capacity: 1, refillPerSecond: 1 },
  },
  gcra: { limit: { window: "10y", burst: 1 }, burst: { limit: 9_007_199_254, window: "1y" } },
};

/** In ten years at the highest rate. */
const REACHABLE: Record<string, number> = { "gcra.limit": 40_000 * 315_576_000 };

const whole = Object.entries(variants).flatMap(([algorithm, { options }]) =>
  Object.entries(options).flatMap(([name, { shape }]) =>
    shape.kind === "whole" ? [[algorithm, name, shape] as const] : [],
  ),
);

describe("a number that the file takes for a policy is one that core takes", () => {
  it.each(whole)("%s.%s", (algorithm, name, shape) => {
    const usual = algorithm === "concurrency" ? { limit: 64 } : { limit: 64, window: "1m" };
    const beside = SOUND[algorithm]?.[name] ?? SOUND[algorithm]?.["*"] ?? usual;
    const make = (value: unknown) => () => maker(algorithm)({ ...beside, [name]: value });
    const { inside, outside } = edgesOf(shape);
    const reachable = inside.map((value) => Math.min(value, REACHABLE[`${algorithm}.${name}`] ?? Infinity));
    for (const value of reachable) expect([value, refusal(make(value))]).toEqual([value, undefined]);
    for (const value of outside)
      expect([value, refusal(make(value))]).toEqual([
        value,
        expect.stringContaining(`${algorithm}.${name}: `),
      ]);
  });
});

/** Every option of a kind below the file's own, by its path. */
function optionsIn(
  options: Readonly<Record<string, Option>>,
  at: readonly string[] = [],
): [string[], Shape][] {
  return Object.entries(options).flatMap(([name, { shape }]) => {
    const path = [...at, name];
    const shapes = shape.kind === "either" ? shape.of : [shape];
    return shapes.flatMap((one): [string[], Shape][] =>
      one.kind === "options" ? optionsIn(one.options, path) : [[path, one]],
    );
  });
}

const nested = (path: readonly string[], value: unknown): object =>
  path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as object;

function made(part: object): void {
  const config = { limit: 1, window: 1, ...part, store: memoryStore() };
  void createLimiter(config as Config).close();
}

const settings = optionsIn(FILE.options).filter(
  ([[first]]) => !["limit", "window", "$schema"].includes(first!),
);

describe("a setting that the file takes is one that core takes", () => {
  it.each(
    settings.flatMap(([path, shape]) =>
      shape.kind === "whole" ? [[path.join("."), path, shape] as const] : [],
    ),
  )("%s", (option, path, shape) => {
    const { inside, outside } = edgesOf(shape);
    for (const value of inside)
      expect([value, refusal(() => made(nested(path, value)))]).toEqual([value, undefined]);
    for (const value of outside)
      expect([value, refusal(() => made(nested(path, value)))]).toEqual([
        value,
        expect.stringContaining(`${option}: `),
      ]);
  });

  it.each(
    settings.flatMap(([path, shape]) =>
      shape.kind === "words" ? [[path.join("."), path, shape.words] as const] : [],
    ),
  )("%s", (option, path, words) => {
    for (const word of words)
      expect([word, refusal(() => made(nested(path, word)))]).toEqual([word, undefined]);
    expect(refusal(() => made(nested(path, "nonsense")))).toContain(`${option}: `);
  });
});

/** The names that core itself lists when it meets one that it does not know. */
function knownTo(make: () => unknown): string[] {
  return /known are (.*), got/.exec(refusal(make) ?? "")![1]!.split(", ");
}

describe("the file has every option of core that is data", () => {
  it.each(Object.keys(variants))("%s", (algorithm) => {
    const { algorithm: _, ...own } = variants[algorithm]!.options;
    expect(Object.keys(own).toSorted()).toEqual(knownTo(() => maker(algorithm)({ nonsense: 1 })).toSorted());
  });

  it("the configuration, but for functions and what is the application's", () => {
    const elsewhere = [
      "redis",
      "store",
      "shareConnection",
      "skip",
      "onLimited",
      "onEvent",
      "settle",
      "idempotencyKey",
    ];
    const { $schema: _, ...own } = FILE.options;
    expect([...Object.keys(own), ...elsewhere].toSorted()).toEqual(
      knownTo(() => made({ nonsense: 1 })).toSorted(),
    );
    expect(Object.keys(FILE.elsewhere!).toSorted()).toEqual(elsewhere.toSorted());
  });

  it("a route, but for settle", () => {
    const route = routeShape();
    const known = knownTo(() => made({ routes: { "/": { nonsense: 1 } } }));
    expect([...Object.keys(route.options), "settle"].toSorted()).toEqual(known.toSorted());
  });

  it("headers", () => {
    const { options } = FILE.options["headers"]!.shape as Options;
    expect(Object.keys(options).toSorted()).toEqual(
      knownTo(() => made({ headers: { nonsense: 1 } })).toSorted(),
    );
  });
});

function routeShape(): Options {
  const routes = FILE.options["routes"]!.shape as Shape & { kind: "named" };
  const line = routes.of as Shape & { kind: "either" };
  return line.of.find((one) => one.kind === "options")!;
}

describe("names", () => {
  it.each([
    [
      "policies",
      (name: string) => ({ limit: undefined, window: undefined, policies: { [name]: somePolicy() } }),
    ],
    ["routes", (name: string) => ({ routes: { [name]: {} } })],
  ])("of %s are those that core takes", (option, make) => {
    const { names } = FILE.options[option]!.shape as Shape & { kind: "named" };
    const pattern = new RegExp(names);
    const tried = [
      "a",
      "A1._-",
      "a".repeat(64),
      "a".repeat(65),
      "1a",
      "",
      "a b",
      "é",
      "/x",
      "GET /x",
      "get /x",
      "*",
      "GET  *",
      "GET",
      "/x\n",
    ];
    const taken = tried.filter((name) => refusal(() => made(make(name))) === undefined);
    expect(tried.filter((name) => pattern.test(name))).toEqual(taken);
    expect(taken.length).toBeGreaterThan(2);
  });
});

const somePolicy = (options: PolicyOptions = {}) => core.gcra({ limit: 1, window: 1, ...options });
