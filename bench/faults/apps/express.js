/** An Express application behind one middleware. Not an application itself. */
import express from "express";

/** @param {import("express").RequestHandler} limit */
export function serveBehind(limit) {
  const app = express();
  app.use(limit);
  app.get("/", (_, res) => void res.send("ok"));
  app.use(failed);
  return app.listen(0, "127.0.0.1");
}

/**
 * As Express's own answer to an error, but for the log.
 *
 * @type {import("express").ErrorRequestHandler}
 */
const failed = (_error, _req, res, _next) => void res.status(500).end();
