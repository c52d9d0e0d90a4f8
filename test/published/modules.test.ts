/** The packed packages, loaded in every way that Node has, by every Node that they are for. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { nodeMajors, nodeOf } from "../../scripts/node-versions.js";
import { useSite } from "./site.ts";

const site = useSite(
  "bursts.cjs",
  "by-import.mjs",
  "by-require.cjs",
  "copies.cjs",
  "meeting.mjs",
  "names.mjs",
);

async function told(...args: Parameters<typeof site.node>) {
  const { ok, output } = await site.node(...args);
  expect(ok, output).toBe(true);
  return JSON.parse(output);
}

/** What people write on the first line, by entry: these names are functions. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  "@tidegate/core": ["createLimiter", "memoryStore", "redisStore", "slidingWindow", "ConfigError"],
  "@tidegate/core/opentelemetry": ["openTelemetryMetrics"],
  "@tidegate/core/prometheus": ["prometheusMetrics"],
  "@tidegate/core/simulate": ["simulate"],
  "@tidegate/core/testing": ["testStore", "virtualClock"],
  "@tidegate/express": ["rateLimit", "slidingWindow"],
  "@tidegate/fastify": ["rateLimit", "slidingWindow"],
  "@tidegate/koa": ["rateLimit", "slidingWindow"],
  "@tidegate/policy-file": ["policiesFrom", "policiesFromText"],
  "@tidegate/cli": ["run", "createProgram"],
  "@tidegate/compat/express-rate-limit": ["tidegateStore"],
  "@tidegate/compat/fastify-rate-limit": ["tidegateStore"],
  "@tidegate/compat/nestjs-throttler": ["tidegateStore"],
};

describe("P34 T1 require and import", () => {
  it("give the same names, each of the same type, and the ones people write are functions", async () => {
    const found: { entry: string; imported: Record<string, string>; required: Record<string, string> }[] =
      await told(["names.mjs", ...Object.keys(ENTRIES)]);
    expect(found.map(({ entry }) => entry)).toEqual(Object.keys(ENTRIES));
    for (const { entry, imported, required } of found) {
      expect(imported, entry).toEqual(required);
      expect(imported, entry).not.toHaveProperty("default");
      const types = ENTRIES[entry]!.map((name) => [name, required[name]]);
      expect(types, entry).toEqual(ENTRIES[entry]!.map((name) => [name, "function"]));
    }
  });

  it("T1 a default import is refused by name before anything runs: there is one way to write it", async () => {
    writeFileSync(join(site.room, "default.mjs"), 'import tidegate from "@tidegate/express"; tidegate();');
    const { ok, output } = await site.node(["default.mjs"]);
    expect(ok).toBe(false);
    expect(output).toContain("'@tidegate/express' does not provide an export named 'default'");
  });

  it("T1 what a package does not export cannot be reached", async () => {
    const inner = "@tidegate/core/dist/cjs/limiter.js";
    const { ok, output } = await site.node(["--eval", `require(${JSON.stringify(inner)})`]);
    expect(ok).toBe(false);
    expect(output).toContain("ERR_PACKAGE_PATH_NOT_EXPORTED");
  });

  it("T1 the command of the command line is there", async () => {
    const { ok, output } = await site.node([join(site.folder, "node_modules/.bin/tidegate"), "--version"]);
    expect(ok, output).toBe(true);
    expect(output).toBe("0.1.0");
  });
});

/** What three an hour say when they are spent. The clock is the machine's: a slow one is some seconds on. */
const SPENT = {
  statuses: [200, 200, 200, 429],
  fields: {
    "ratelimit-policy": '"burst";q=3;w=3600',
    ratelimit: '"burst";r=0;t=3600',
    "retry-after": "3600",
  },
};

/** As draft 6 of the header fields, which express-rate-limit writes. */
const PEER = {
  statuses: SPENT.statuses,
  fields: {
    "ratelimit-limit": "3",
    "ratelimit-policy": "3;w=3600",
    "ratelimit-remaining": "0",
    "ratelimit-reset": "3600",
    "retry-after": "3600",
  },
};

const atTheHour = (told: unknown): unknown =>
  JSON.parse(JSON.stringify(told).replace(/\b35[5-9]\d\b/g, "3600"));

/** For each version how it is started, or why it is not. */
const nodes = await Promise.all(
  nodeMajors.map(async (major) => {
    const found = await nodeOf(major);
    return "path" in found
      ? { title: `on Node ${major}`, path: found.path, major }
      : { title: `on Node ${major}, left out: ${found.missing}`, path: undefined, major };
  }),
);

describe.each(nodes)("P34 T1 $title", { timeout: 120_000 }, ({ path, major }) => {
  it.skipIf(!path).each(["by-require.cjs", "by-import.mjs"])(
    "%s: three requests pass on each framework, the fourth is told when to come back",
    async (program) => {
      const { node, answers, rest } = await told([program], path);
      expect(node).toMatch(new RegExp(`^v${major}\\.`));
      expect(atTheHour(answers)).toEqual({ express: SPENT, fastify: SPENT, koa: SPENT, peer: PEER });
      expect(rest).toEqual({ cli: "function", simulate: "function", passed: 60_000 });
    },
  );
});

describe("P34 T5 one copy of core", () => {
  it("is installed for all seven packages together", async () => {
    const found = readdirSync(site.folder, { recursive: true, encoding: "utf8" });
    const cores = found.filter((path) => path.endsWith("@tidegate/core/package.json"));
    expect(cores).toEqual(["node_modules/@tidegate/core/package.json"]);
  });

  it("T5 makes instanceof work, wherever a class or an error came from", async () => {
    expect(await told(["copies.cjs"])).toEqual({
      sameClasses: [true, true, true],
      configErrors: [true, true, true, true, true],
      compat: true,
      policyFile: true,
    });
  });

  it("T5 both formats on one request share what they know: one set of fields, the same identities", async () => {
    const policies = '"wide";q=5;w=3600, "narrow";q=2;w=3600';
    const answers = [
      [200, policies, '"narrow";r=1;t=3600, "wide";r=4;t=3600'],
      [200, policies, '"narrow";r=0;t=3600, "wide";r=3;t=3600'],
      [429, policies, '"narrow";r=0;t=3600'],
    ];
    const found = await told(["meeting.mjs"]);
    const met = { answers, events: [] };
    expect(atTheHour(found)).toEqual({ areTwo: true, importedFirst: met, requiredFirst: met });
  });
});
