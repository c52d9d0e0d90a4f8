/** Applications over the packed packages, bundled into one file that runs where nothing is installed. */
import { build } from "esbuild";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import webpack from "webpack";
import { installed, ran } from "../../scripts/published.js";
import { type RedisServer, startRedis } from "../harness/redis.ts";
import { useRoom, useSite } from "./site.ts";

let redis: RedisServer;
let empty: string;
beforeAll(async () => {
  redis = await startRedis();
  empty = mkdtempSync(join(tmpdir(), "tidegate-bundle-"));
});
beforeEach(() => redis.client.flushall());
afterAll(async () => {
  rmSync(empty, { recursive: true, force: true });
  await redis.stop();
});

const withClient = useSite("bundled.mjs");
const withoutClient = useRoom(
  () => installed("bare", { express: "5.3.0" }, ["@tidegate/core", "@tidegate/express"]),
  ["bundled.mjs"],
);

/** Makes one file, and says what it was warned of. */
type Bundle = (room: string, outfile: string) => Promise<string[]>;

const esbuild =
  (format: "cjs" | "esm"): Bundle =>
  async (room, outfile) => {
    const entryPoints = [join(room, "bundled.mjs")];
    // What Node's own modules need in ESM, whoever requires them.
    const js = 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
    const banner = format === "esm" ? { js } : {};
    const options = { entryPoints, outfile, format, banner, platform: "node", bundle: true } as const;
    const { warnings } = await build({ ...options, logLevel: "silent" });
    return warnings.map(({ text }) => text);
  };

const withWebpack: Bundle = async (room, outfile) => {
  const options = { mode: "production", target: "node20", devtool: false, context: room } as const;
  const output = { path: empty, filename: outfile.slice(empty.length + 1) };
  // Names are shortened in one of the two: that takes the most time.
  const optimization = { minimize: room === withClient.room };
  const compiler = webpack({ ...options, entry: join(room, "bundled.mjs"), output, optimization });
  const stats = await new Promise<webpack.Stats>((resolve, reject) =>
    compiler!.run((error, stats) => (error ? reject(error) : resolve(stats!))),
  );
  const { errors = [], warnings = [] } = stats.toJson({ all: false, errors: true, warnings: true });
  return [...errors, ...warnings].map(
    ({ moduleName, message }) => `${moduleName}: ${message.split("\n")[0]}`,
  );
};

const bundlers: [name: string, file: string, bundle: Bundle][] = [
  ["esbuild to CommonJS", "esbuild.cjs", esbuild("cjs")],
  ["esbuild to ESM", "esbuild.mjs", esbuild("esm")],
  ["webpack", "webpack.cjs", withWebpack],
];

describe.each(bundlers)("P34 T4 %s", { timeout: 120_000 }, (_, file, bundle) => {
  /** The first line: in a bundle for production a warning may follow. */
  async function told(outfile: string, REDIS_URL?: string) {
    const { output } = await ran(process.execPath, [outfile], { cwd: empty, env: { REDIS_URL } });
    return output.split("\n")[0];
  }

  it("T4 a bundle holds ioredis, and limits on Redis", async () => {
    const outfile = join(empty, `with-${file}`);
    const warnings = await bundle(withClient.room, outfile);
    // Express and others have something to warn of, whatever is bundled with them.
    expect(warnings.filter((text) => /@tidegate|ioredis/.test(text))).toEqual([]);
    expect(await told(outfile, redis.url)).toBe("200,200,200,429");
    expect(await redis.client.keys("*")).toEqual(["rl:{ip:127.0.0.1}:burst:sl"]);
  });

  it("T4 where ioredis is not installed a bundle is made all the same, limits in memory, and names the cure for a URL", async () => {
    const outfile = join(empty, `without-${file}`);
    await bundle(withoutClient.room, outfile);
    expect(await told(outfile)).toBe("200,200,200,429");
    expect(await told(outfile, redis.url)).toBe("TIDEGATE_CLIENT_MISSING");
  });
});
