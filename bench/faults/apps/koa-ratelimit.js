import Koa from "koa";
import ratelimit from "koa-ratelimit";
import { connected, identityOf, PLENTY, RECOMMENDED, WINDOW_MS } from "../limits.js";

/** @type {import("../limits.js").Serve} */
export async function serve(url) {
  const app = new Koa();
  app.silent = true;
  const db = connected(url, RECOMMENDED);
  app.use(ratelimit({ driver: "redis", db, max: PLENTY, duration: WINDOW_MS, id: identityOf }));
  app.use((ctx) => {
    ctx.body = "ok";
  });
  return app.listen(0, "127.0.0.1");
}
