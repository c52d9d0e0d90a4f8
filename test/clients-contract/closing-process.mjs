/**
 * Limiters on clients of one library, each closed in another situation. Then this process has
 * nothing more to do. It runs the built packages: Node 20 runs no TypeScript.
 */
const { createLimiter } = await import("@tidegate/core");

const [library = "", port = "", clusterPort = "", nobodysPort = ""] = process.argv.slice(2);
const loaded = await import(library);
const isNodeRedis = "createClient" in loaded;

/** @param {string} at */
const client = (at) =>
  quiet(
    isNodeRedis
      ? loaded.createClient({ url: `redis://127.0.0.1:${at}` })
      : new loaded.Redis(at, "127.0.0.1", { lazyConnect: true }),
  );

/** @param {string} at */
const cluster = (at) =>
  quiet(
    isNodeRedis
      ? loaded.createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${at}` }] })
      : new loaded.Cluster([{ host: "127.0.0.1", port: at }], { lazyConnect: true }),
  );

/** @param {any} made */
const quiet = (made) => made.on("error", () => {});

/**
 * @param {any} redis
 * @param {{ share?: boolean, asks?: boolean }} [how]
 */
async function use(redis, { share = false, asks = true } = {}) {
  if (share) await redis.connect();
  const onEvent = () => {}; // An outage that nobody hears of would be told to the process.
  const limiter = createLimiter({
    redis,
    shareConnection: share,
    limit: 5,
    window: "1m",
    timeoutMs: 5000,
    onEvent,
  });
  const decision = asks ? await limiter.decide({ identity: "somebody" }) : undefined;
  await limiter.close();
  if (share) await (isNodeRedis ? redis.close() : redis.quit());
  return decision ? (decision.degraded?.reason ?? "decided") : "closed";
}

const results = [
  await use(client(port)),
  await use(client(port), { share: true }),
  await use(client(port), { asks: false }),
  await use(client(nobodysPort)),
  await use(client(nobodysPort), { asks: false }),
  await use(cluster(clusterPort)),
  await use(cluster(clusterPort), { share: true }),
  await use(cluster(clusterPort), { asks: false }),
  await use(cluster(nobodysPort)),
  await use(cluster(nobodysPort), { asks: false }),
];

const ended = performance.now();
process.once("exit", () => console.log(JSON.stringify({ results, lingeredMs: performance.now() - ended })));
