/**
 * Loaded before a test file of @fastify/rate-limit, as its package has it. Puts our store under the plugin: with the
 * Redis client that the test gives, or in memory by the time that the test sets. Nothing else of the test changes.
 */
const Module = require("node:module");
const path = require("node:path");

/** Beyond 1970, µs: the tests' own clock begins at 0. */
const LATER = 1_700_000_000_000_000;

const { COMPAT_ROOT = "", COMPAT_STORE = "", COMPAT_REDIS_PORT = "" } = process.env;
const fromRoot = Module.createRequire(path.join(COMPAT_ROOT, "package.json"));
const loader = /** @type {{ _load(name: string, parent: unknown, isMain: boolean): unknown }} */ (
  /** @type {unknown} */ (Module)
);
const load = loader._load.bind(loader);

loader._load = (name, parent, isMain) => {
  const filename = String(/** @type {{ filename?: string } | undefined} */ (parent)?.filename);
  const asksAsTest = filename.includes(path.join("rate-limit", "test"));
  if (!asksAsTest) return load(name, parent, isMain);
  if (name === "../index" || name === "../../index")
    return onOurStore(/** @type {any} */ (load(name, parent, isMain)));
  if (name === "ioredis") return atOurPort(/** @type {any} */ (fromRoot("ioredis5")));
  if (name === "fastify") return fromRoot(name);
  return load(name, parent, isMain);
};

/** @param {any} plugin */
function onOurStore(plugin) {
  const { tidegateStore, memoryStore } = fromRoot(COMPAT_STORE);
  const wrapped = (/** @type {any} */ fastify, /** @type {any} */ { redis, nameSpace, ...settings }) => {
    if (settings.store) return plugin(fastify, settings);
    const where = redis
      ? { redis, shareConnection: true, prefix: nameSpace ?? "frl", onFailure: "closed" }
      : { store: memoryStore({ nowUs: () => LATER + Date.now() * 1000 }) };
    return plugin(fastify, { ...settings, store: tidegateStore({ ...where, timeoutMs: 10_000 }) });
  };
  for (const symbol of Object.getOwnPropertySymbols(plugin))
    Object.assign(wrapped, { [symbol]: plugin[symbol] });
  return Object.assign(wrapped, { normalizeIP: plugin.normalizeIP });
}

/** @param {any} Redis */
function atOurPort(Redis) {
  return class extends Redis {
    constructor(/** @type {object} */ options) {
      super({ ...options, port: Number(COMPAT_REDIS_PORT) });
    }
  };
}
