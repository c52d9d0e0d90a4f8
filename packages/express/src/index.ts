import { type Config, createGuard, type Decision, type Limiter, type Ruling } from "@tidegate/core";
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
  // Somebody answered while the decision was under way: it counts, and there is nothing left to write.
  if (!res.headersSent) for (const [name, value] of ruling.headers) res.setHeader(name, value);
  if (ruling.kind === "pass") return next();
  if (res.headersSent) return;
  res.statusCode = ruling.status;
  res.end(req.method === "HEAD" ? undefined : ruling.body);
}
