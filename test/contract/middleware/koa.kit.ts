import Router from "@koa/router";
import { rateLimit } from "@tidegate/koa";
import type Koa from "koa";
import type { Context, Middleware } from "koa";
import type { Handle, Io, Kit, Route, Site } from "./kit.ts";

export const koaKit = (name: string, Make: typeof Koa): Kit => ({
  name,
  noPattern: "/a(",
  ownTrust: false,
  async serve({ before, routes = {}, handle, router: settings = {}, json }: Site, { config }) {
    const app = new Make();
    app.silent = true; // Errors are answered; that they are printed as well is of no use here.
    const options = { sensitive: settings.caseSensitive ?? false, strict: settings.strict ?? false };
    const limit = rateLimit({ ...config, ...options });
    if (json) app.use(readJson);
    if (before)
      app.use(async (ctx, next) => {
        await before(ioOf(ctx));
        if (!ctx.res.writableEnded && ctx.body === undefined) await next();
      });
    app.use(limit);
    const router = new Router(options);
    for (const [name, route] of Object.entries(routes)) {
      const [method, pattern] = name.split(" ") as [string, string];
      const { handle, ...more }: Route = typeof route === "function" ? { handle: route } : route;
      const steps: Middleware[] = [];
      if (more.again) steps.push(limit);
      if (more.with) steps.push(limit.with(more.with));
      router.register(pattern, [method], [...steps, handlerOf(handle)] as never);
    }
    if (Object.keys(routes).length > 0) app.use(router.routes() as Middleware);
    app.use(handlerOf(handle!));
    const server = app.listen(0);
    await new Promise((resolve) => server.once("listening", resolve));
    return { server, limiter: limit.limiter };
  },
  bodyOf: (ctx) => (ctx as { request: { body?: unknown } }).request.body,
  foundBy: (incoming) => (found) => Object.assign((incoming as { koa?: Context }).koa!.state, found),
});

const handlerOf =
  (handle: Handle): Middleware =>
  async (ctx) => {
    await handle(ioOf(ctx));
  };

const readJson: Middleware = async (ctx, next) => {
  let text = "";
  for await (const chunk of ctx.req) text += chunk;
  if (text) Object.assign(ctx.request, { body: JSON.parse(text) });
  await next();
};

function ioOf(ctx: Context): Io {
  Object.assign(ctx.req, { koa: ctx });
  return {
    incoming: ctx.req,
    outgoing: ctx.res,
    decision: ctx.state.rateLimit,
    field: (name, value) => ctx.set(name, value),
    send(status, body) {
      ctx.status = status;
      if (body !== undefined) ctx.body = body;
    },
  };
}
