/** Both module formats of one package in one process, on one request: a dependency requires what the app imports. */
import * as imported from "@tidegate/express";
import express from "express";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";

/** @type {typeof imported} */
const required = createRequire(import.meta.url)("@tidegate/express");

/** @param {typeof imported} first @param {typeof imported} second */
async function meet(first, second) {
  /** @type {string[]} */
  const events = [];
  const onEvent = (/** @type {imported.TidegateEvent} */ event) => events.push(JSON.stringify(event));
  const app = express();
  app.use(
    first.rateLimit({
      policies: { wide: first.slidingLog({ limit: 5, window: "1h" }) },
      by: () => second.user("anna"),
      onEvent,
    }),
    second.rateLimit({
      policies: { narrow: first.slidingLog({ limit: 2, window: "1h" }) },
      by: first.user(() => "anna"),
      onEvent,
    }),
  );
  app.get("/", (req, res) => void res.json(req.rateLimit?.allowed));
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const answers = [];
  for (let i = 0; i < 3; i++) {
    const response = await fetch(`http://127.0.0.1:${port}/`);
    const { headers } = response;
    answers.push([response.status, headers.get("RateLimit-Policy"), headers.get("RateLimit")]);
  }
  server.closeAllConnections();
  server.close();
  return { answers, events };
}

console.log(
  JSON.stringify({
    areTwo: imported.TidegateError !== required.TidegateError,
    importedFirst: await meet(imported, required),
    requiredFirst: await meet(required, imported),
  }),
);
