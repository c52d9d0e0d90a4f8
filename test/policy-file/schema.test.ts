import { readFileSync, writeFileSync } from "node:fs";
import { type PolicyFileError, policiesFromText } from "@tidegate/policy-file";
import { Ajv } from "ajv";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { file, type Json } from "./arbitrary.ts";
import { schemaOf } from "./schema-of.ts";

const SCHEMA = new URL("../../packages/policy-file/schema.json", import.meta.url);

// `TIDEGATE_WRITE_SCHEMA=1 npx vitest run test/policy-file/schema.test.ts`, then `npm run format`.
if (process.env["TIDEGATE_WRITE_SCHEMA"]) writeFileSync(SCHEMA, `${JSON.stringify(schemaOf(), null, 2)}\n`);

const shipped = JSON.parse(readFileSync(SCHEMA, "utf8")) as Json;
const ajv = new Ajv({ allErrors: true, strict: true, strictRequired: false, strictTypes: false });
ajv.addKeyword("patternErrorMessage");
const validate = ajv.compile(shipped);

/** What the loader has against a configuration, as JSON. */
function complaint(config: unknown): string | undefined {
  try {
    policiesFromText(JSON.stringify(config), "limits.json", { env: () => "secret" });
    return undefined;
  } catch (error) {
    return (error as PolicyFileError).message;
  }
}

describe("schema.json", () => {
  it("is what the table says", () => {
    expect(shipped).toEqual(JSON.parse(JSON.stringify(schemaOf())));
  });

  it("describes every option", () => {
    const bare: string[] = [];
    const visit = (node: Json, at: string): void => {
      for (const [name, value] of Object.entries(node)) {
        if (typeof value !== "object" || value === null) continue;
        const inner = value as Json;
        if (name === "properties") {
          for (const [option, { description }] of Object.entries(inner as Record<string, Json>))
            if (typeof description !== "string" || !description.endsWith(".")) bare.push(`${at}.${option}`);
        }
        visit(inner, `${at}.${name}`);
      }
    };
    visit(shipped, "");
    expect(bare).toEqual([]);
  });

  it("takes every valid file that the loader takes", () => {
    fc.assert(
      fc.property(file, (config) => {
        expect(complaint(config)).toBeUndefined();
        expect(validate(config) ? [] : validate.errors).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it("refuses with the loader what has one fault of shape", () => {
    fc.assert(
      fc.property(file, fc.nat(), fc.constantFrom(...FAULTS), (config, where, fault) => {
        const broken = structuredClone(config);
        const told = fault(broken, where);
        fc.pre(told !== undefined);
        expect({ told, refused: complaint(broken) !== undefined }).toEqual({ told, refused: true });
        expect({ told, valid: validate(broken) }).toEqual({ told, valid: false });
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    [{}],
    [{ limit: 1 }],
    [{ limit: 1, window: "1m", policies: { a: { algorithm: "gcra", limit: 1, window: 1 } } }],
    [{ policies: {} }],
    [{ policies: { "1a": { algorithm: "gcra", limit: 1, window: 1 } } }],
    [{ policies: { a: { algorithm: "leaky", limit: 1, window: 1 } } }],
    [{ policies: { a: { limit: 1, window: 1 } } }],
    [{ limit: 1, window: "1m", by: "apiKey" }],
    [{ limit: 1, window: "1m", by: { ip: {}, or: ["ip", "user"] } }],
    [{ limit: 1, window: "1m", by: { or: ["ip"] } }],
    [{ limit: 1, window: "1m", by: { apiKey: {} } }],
    [{ limit: 1, window: "1m", by: { apiKey: { header: "a", query: "b" } } }],
    [{ limit: 1, window: "1m", routes: { login: {} } }],
    [{ limit: 1, window: "1m", routes: { "/x": true } }],
    [{ limit: 1, window: "1m", routes: { "/x": { limit: 1 } } }],
    [{ limit: 1, window: "1m", headers: { partitionKey: { secret: "x" } } }],
    [{ limit: 1, window: "1m", redis: "redis://localhost" }],
    [{ limit: 1, window: "soon" }],
    [{ limit: 1, window: 0 }],
  ])("and the loader refuse %j", (config) => {
    expect(complaint(config)).toBeDefined();
    expect(validate(config)).toBe(false);
  });
});

/** Every mapping within a file, in order. What begins with `x-` may be anything. */
function mappingsIn(value: unknown, found: Json[] = []): Json[] {
  if (typeof value !== "object" || value === null) return found;
  if (!Array.isArray(value)) found.push(value as Json);
  for (const [name, inner] of Object.entries(value)) if (!name.startsWith("x-")) mappingsIn(inner, found);
  return found;
}

/** A place for a fault: a mapping, and one of its names. */
function placeIn(config: Json, where: number, fits: (value: unknown) => boolean = () => true) {
  const places = mappingsIn(config).flatMap((mapping) =>
    Object.entries(mapping)
      .filter(([name, value]) => !name.startsWith("x-") && fits(value))
      .map(([name]) => ({ mapping, name })),
  );
  return places[where % Math.max(1, places.length)];
}

/** Changes a file so that it is wrong; tells how, or `undefined` where it has no place for this fault. */
const FAULTS: ((config: Json, where: number) => string | undefined)[] = [
  function stranger(config, where) {
    const mappings = mappingsIn(config);
    // No option's name, and no policy's or route's.
    mappings[where % mappings.length]!["9 lives"] = 1;
    return "an unknown name";
  },
  function nothing(config, where) {
    const place = placeIn(config, where);
    if (place) place.mapping[place.name] = null;
    return place && `null for ${place.name}`;
  },
  function lists(config, where) {
    const place = placeIn(config, where);
    if (place) place.mapping[place.name] = [[place.mapping[place.name]]];
    return place && `a list of lists for ${place.name}`;
  },
  function negative(config, where) {
    const place = placeIn(config, where, (value) => typeof value === "number");
    if (place) place.mapping[place.name] = -1;
    return place && `-1 for ${place.name}`;
  },
  function words(config, where) {
    const place = placeIn(config, where, (value) => typeof value === "boolean");
    if (place) place.mapping[place.name] = "off";
    return place && `"off" for ${place.name}`;
  },
];
