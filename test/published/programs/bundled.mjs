/** What is bundled: a limiter over the Redis of REDIS_URL, where there is one, and four requests. */
import { rateLimit, slidingLog } from "@tidegate/express";
import express from "express";
import { once } from "node:events";

function made() {
  const policies = { burst: slidingLog({ limit: 3, window: "1h" }) };
  return rateLimit({ redis: process.env.REDIS_URL, policies, onFailure: "closed", timeoutMs: 10_000 });
}

async function burst() {
  const limit = made();
  const app = express();
  app.use(limit);
  app.get("/", (_, res) => void res.send("hello"));
  const server = app.listen(0);
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const statuses = [];
  for (let i = 0; i < 4; i++) statuses.push((await fetch(`http://127.0.0.1:${port}/`)).status);
  server.closeAllConnections();
  server.close();
  await limit.limiter.close();
  return statuses.join();
}

burst().then(console.log, (error) => console.log(error.code));
