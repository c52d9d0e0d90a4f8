/** Policy files at random, all of them valid. */
import fc from "fast-check";

export type Json = Record<string, unknown>;

/** An object in which any of these may be left out. */
const partly = (
  model: Record<string, fc.Arbitrary<unknown>>,
  requiredKeys: string[] = [],
): fc.Arbitrary<Json> => fc.record(model, { requiredKeys }) as fc.Arbitrary<Json>;

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,8}$/);
const span = fc.oneof(
  fc.integer({ min: 100, max: 86_400_000 }),
  fc.constantFrom("1m", "90s", "1 day", "2 Hours", "500"),
);
const network = fc.constantFrom("203.0.113.7", "10.0.0.0/8", "2001:db8::/32", "loopback");
const mode = fc.constantFrom("enforce", "shadow");
const cost = fc.integer({ min: 0, max: 3 });

const by = fc.letrec<{ by: unknown; leaf: unknown }>((tie) => ({
  by: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    tie("leaf"),
    fc.record({ or: fc.array(tie("by"), { minLength: 2, maxLength: 3 }) }),
    fc.record({ and: fc.array(tie("by"), { minLength: 2, maxLength: 3 }) }),
  ),
  leaf: fc.oneof(
    fc.constantFrom<unknown>("ip", "user", "tenant", "route", "globally"),
    fc.record({ ip: partly({ ipv6Prefix: fc.integer({ min: 1, max: 128 }) }) }),
    fc.record({
      ip: fc.record({
        trustedHeaders: fc.record({ header: fc.constant("cf-connecting-ip"), from: fc.array(network) }),
      }),
    }),
    fc.record({
      apiKey: fc.oneof(
        partly({ header: fc.constant("x-api-key"), secretFromEnv: fc.constant("KEY_SECRET") }, ["header"]),
        fc.constant({ scheme: "bearer" }),
        fc.constant({ query: "key" }),
      ),
    }),
  ),
})).by;

const limited = (
  own: Record<string, fc.Arbitrary<unknown>>,
  requiredKeys: string[],
  onFailure?: fc.Arbitrary<unknown>,
) =>
  partly(
    {
      ...own,
      by,
      cost,
      mode,
      unit: fc.constantFrom("requests", "content-bytes", "concurrent-requests"),
      scope: fc.constantFrom("shared", "process"),
      ...(onFailure && { onFailure }),
    },
    requiredKeys,
  );

const limit = fc.integer({ min: 0, max: 1000 });

const policyWith = (onFailure?: fc.Arbitrary<unknown>): fc.Arbitrary<Json> => {
  const of = (algorithm: string, own: Record<string, fc.Arbitrary<unknown>>, required: string[]) =>
    limited({ algorithm: fc.constant(algorithm), ...own }, ["algorithm", ...required], onFailure);
  return fc.oneof(
    of("tokenBucket", { capacity: limit, refillPerSecond: fc.integer({ min: 1, max: 100 }) }, [
      "capacity",
      "refillPerSecond",
    ]),
    of("gcra", { limit, window: span, burst: limit }, ["limit", "window"]),
    of("slidingWindow", { limit, window: span }, ["limit", "window"]),
    of("slidingLog", { limit, window: span }, ["limit", "window"]),
    of("fixedWindow", { limit, window: span, align: fc.constantFrom("first", "clock") }, ["limit", "window"]),
    of(
      "fixedWindow",
      {
        limit,
        window: fc.constantFrom("day", "week", "month"),
        timeZone: fc.constantFrom("UTC", "Europe/Berlin"),
      },
      ["limit", "window"],
    ),
    of("concurrency", { limit, leaseMs: span }, ["limit"]),
  );
};

/** Names that differ in more than their case. */
const named = <T>(value: fc.Arbitrary<T>, maxLength = 3): fc.Arbitrary<Record<string, T>> =>
  fc
    .uniqueArray(fc.tuple(name, value), { minLength: 1, maxLength, selector: ([key]) => key.toLowerCase() })
    .map((entries) => Object.fromEntries(entries));

/** One policy alone: two local ones of a request may not have one name. */
const rule = fc.oneof(
  fc.constantFrom<unknown>("open", "closed"),
  fc.record({ local: policyWith().map((policy) => ({ few: policy })) }),
);

const plainRule = fc.constantFrom("open", "closed", "local");
const giveBackOn = fc.constantFrom("success", "failure");
const seconds = fc.integer({ min: 1, max: 60 });

const headers = partly({
  standard: fc.constantFrom("draft-11", "draft-8", "draft-11"),
  x: fc.boolean(),
  retryAfter: fc.oneof(fc.boolean(), partly({ concurrency: seconds, closed: seconds })),
  partitionKey: fc.constantFrom(false, { secretFromEnv: "PK_SECRET" }),
  omitOnRedirect: fc.boolean(),
  jitterSeconds: fc.integer({ min: 0, max: 3600 }),
  expose: fc.boolean(),
});

const routeOf = (names: readonly string[]): fc.Arbitrary<unknown> =>
  fc.oneof(
    fc.constant(false),
    partly({
      ...(names.length > 0 && {
        policies: fc.oneof(
          fc.subarray([...names], { minLength: 1 }),
          named(fc.oneof(fc.constantFrom(...names), policyWith(plainRule))),
        ),
      }),
      by,
      cost,
      mode,
      onFailure: plainRule,
      group: fc.constantFrom("g", "otp"),
      giveBackOn,
    }),
    partly({ limit, window: span, mode }, ["limit", "window"]),
  );

const ROUTES = ["GET /", "POST /login", "/users/:id", "/files/*path", "*"];

const routesOf = (names: readonly string[]) =>
  fc.dictionary(fc.constantFrom(...ROUTES), routeOf(names), { maxKeys: 3 });

const common = {
  $schema: fc.constant("./schema.json"),
  "x-notes": fc.constant({ any: ["thing"] }),
  by,
  cost,
  mode,
  allow: fc.array(network),
  deny: fc.array(network),
  trustProxy: fc.oneof(fc.integer({ min: 0, max: 64 }), fc.array(network)),
  preflights: fc.constantFrom("exempt", "count"),
  timeoutMs: fc.integer({ min: 1, max: 60_000 }),
  functionTimeoutMs: fc.integer({ min: 1, max: 60_000 }),
  headers,
  giveBackOn,
  idempotencyMs: fc.integer({ min: 1, max: 86_400_000 }),
  denyCache: fc.oneof(fc.boolean(), partly({ maxMs: fc.integer({ min: 1, max: 60_000 }) })),
  coalesce: fc.boolean(),
  blocking: fc.boolean(),
  prefix: fc.constantFrom("rl", "api 1", "é"),
  scripting: fc.constantFrom("scripts", "functions"),
};

/** A whole file. */
export const file: fc.Arbitrary<Json> = named(policyWith(plainRule)).chain((policies) => {
  const names = Object.keys(policies);
  return fc.oneof(
    partly(
      {
        ...common,
        policies: fc.constant(policies),
        routes: routesOf(names),
        onFailure: plainRule,
        instances: fc.integer({ min: 1, max: 100 }),
      },
      ["policies", "instances"],
    ),
    partly({ ...common, limit, window: span, routes: routesOf([]), onFailure: rule }, [
      "limit",
      "window",
    ]).map(({ routes, ...rest }) => (routes === undefined ? rest : { ...rest, instances: 3, routes })),
  );
});
