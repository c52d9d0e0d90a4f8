import { rateLimit } from "@tidegate/express";
import type express from "express";
import type { Request, RequestHandler, Response } from "express";
import type { Handle, Io, Kit, Route, Site } from "./kit.ts";

export const expressKit = (name: string, make: typeof express): Kit => ({
  name,
  noPattern: "/a(",
  ownTrust: true,
  async serve({ before, routes = {}, handle, trust, router = {}, json }: Site, { config }) {
    const app = make();
    if (trust !== undefined) app.set("trust proxy", trust);
    app.set("case sensitive routing", router.caseSensitive ?? false);
    app.set("strict routing", router.strict ?? false);
    const limit = rateLimit(config);
    if (json) app.use(make.json());
    if (before)
      app.use((req, res, next) => {
        void Promise.resolve(before(ioOf(req, res))).then(() => res.writableEnded || next(), next);
      });
    app.use(limit);
    for (const [name, route] of Object.entries(routes)) {
      const [method, pattern] = name.split(" ") as [string, string];
      const { handle, ...more }: Route = typeof route === "function" ? { handle: route } : route;
      const handlers: RequestHandler[] = [];
      if (more.again) handlers.push(limit);
      if (more.with) handlers.push(limit.with(more.with));
      app[method.toLowerCase() as "get"](pattern, ...handlers, handlerOf(handle));
    }
    app.use(handlerOf(handle!));
    const server = app.listen(0);
    await new Promise((resolve) => server.once("listening", resolve));
    return { server, limiter: limit.limiter };
  },
  bodyOf: (req) => (req as Request).body,
  foundBy: (incoming) => (found) => Object.assign(incoming, found),
});

const handlerOf =
  (handle: Handle): RequestHandler =>
  (req, res, next) => {
    try {
      const handled = handle(ioOf(req, res));
      if (handled instanceof Promise) handled.catch(next);
    } catch (error) {
      next(error);
    }
  };

const ioOf = (req: Request, res: Response): Io => ({
  incoming: req,
  outgoing: res,
  decision: req.rateLimit,
  field: (name, value) => void res.set(name, value),
  send: (status, body) => void res.status(status).end(body),
});
