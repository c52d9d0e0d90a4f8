import {
  type Config,
  createGuard,
  type Decision,
  type Limiter,
  type ResponseEnd,
  type Ruling,
} from "@tidegate/core";
import type { NextFunction, Request, RequestHandler, Response } from "express";

export * from "@tidegate/core";

declare global {
  namespace Express {
    interface Request {
      /** What the rate limiter decided; `undefined` when it skipped the request. */
      rateLimit?: Decision;
    }
  }
}

/** Express middleware, and the limiter inside it. */
export interface RateLimitHandler extends RequestHandler {
  readonly limiter: Limiter;
}

/**
 * Limits every request that passes here. Express 4 and 5; the client's address is `req.ip`, by the
 * application's own `trust proxy`.
 *
 * @example app.use(rateLimit({ limit: 100, window: "1m" }))
 * @throws ConfigError for the first setting that cannot work
 */
export function rateLimit(config: Config<Request>): RateLimitHandler {
  const guard = createGuard<Request>(config);

  function rateLimit(req: Request, res: Response, next: NextFunction): void {
    const context = {
      request: req,
      address: req.ip,
      peer: req.socket.remoteAddress,
      header: (name: string) => {
        const value = req.headers[name];
        return Array.isArray(value) ? value.join(", ") : value;
      },
    };
    guard.rule(context, (ruling) => apply(ruling, req, res, next));
  }

  return Object.assign(rateLimit, { limiter: guard.limiter });
}

function apply(ruling: Ruling, req: Request, res: Response, next: NextFunction): void {
  if (ruling.kind === "skip") return next();
  req.rateLimit = ruling.decision;
  // Somebody may have begun to answer, or have answered, while the decision was under way. It counts.
  if (!res.headersSent) for (const [name, value] of ruling.headers) res.setHeader(name, value);
  if (ruling.kind === "pass" && ruling.settle) onceThrough(res, ruling.settle);
  if (res.writableEnded) return;
  if (ruling.kind === "pass") return next();
  if (res.headersSent) return void res.end();
  res.statusCode = ruling.status;
  res.end(req.method === "HEAD" ? undefined : ruling.body);
}

/** `close` comes once, after a response that is whole and after one that is not. */
function onceThrough(res: Response, settle: (end: ResponseEnd) => void): void {
  const through = () =>
    settle({ status: res.headersSent ? res.statusCode : undefined, aborted: !res.writableFinished });
  if (res.closed) through();
  else res.once("close", through);
}
