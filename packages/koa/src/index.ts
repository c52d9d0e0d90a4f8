import {
  type Config,
  createGuard,
  type Decision,
  type Extension,
  flag,
  type Framework,
  type Guard,
  type Limiter,
  NodeExchange,
  routeName,
} from "@tidegate/core";
import type { Context, Middleware } from "koa";
import { match } from "path-to-regexp";

export * from "@tidegate/core";

declare module "koa" {
  interface DefaultState {
    /** What the rate limiter decided; `undefined` when it skipped the request. */
    rateLimit?: Decision;
  }
}

/** Koa middleware, and the limiter inside it. */
export interface RateLimitMiddleware extends Middleware {
  /** The same limits without HTTP, and what people do by hand: `peek`, `reset`, `block`, `health`, `close`. */
  readonly limiter: Limiter;
  /**
   * Middleware with these policies besides, for single routes. What counted a request before does not count it again.
   *
   * @example router.post("/login", limit.with({ policies: { login: slidingLog({ limit: 5, window: "15m" }) } }), login)
   * @throws ConfigError for the first setting that cannot work
   */
  with(extension: Extension<Context>): RateLimitMiddleware;
}

/** A limiter's configuration, and how the patterns of `routes` are read. */
export interface KoaRateLimitConfig extends Config<Context, Context> {
  /**
   * Whether patterns of `routes` tell capitals from small letters: the option of the same name of `@koa/router`. False
   * by default, as there.
   */
  sensitive?: boolean;
  /**
   * Whether a slash at the end makes another path for them: the option of the same name of `@koa/router`. False by
   * default, as there.
   */
  strict?: boolean;
}

/**
 * Limits every request that passes here. Koa 3 and 2, with any router or none. The client's address is the peer's,
 * unless `trustProxy` says which proxies to believe: `app.proxy` believes what clients write, and is not asked.
 *
 * @example app.use(rateLimit({ limit: 100, window: "1m" }))
 * @throws ConfigError for the first setting that cannot work
 */
export function rateLimit({
  sensitive = false,
  strict = false,
  ...config
}: KoaRateLimitConfig): RateLimitMiddleware {
  flag("sensitive", sensitive);
  flag("strict", strict);
  const framework: Framework<Context> = {
    trustSetting: "trustProxy",
    pattern(pattern) {
      const test = match(pattern, { sensitive, trailing: !strict, decode: false });
      return (path) => test(path) !== false;
    },
  };
  return middlewareOf(createGuard<Context, Context>(config, framework));
}

function middlewareOf(guard: Guard<Context, Context>): RateLimitMiddleware {
  const rateLimit: Middleware = async (ctx: Context, next) => {
    const exchange = new KoaExchange(ctx, ctx, ctx.req, ctx.res);
    const passes = await new Promise<boolean>((resolve) => guard.handle(exchange, resolve));
    if (!passes) return;
    try {
      await next();
    } catch (error) {
      exchange.keepFieldsOn(error);
      throw error;
    }
  };
  return Object.assign(rateLimit, {
    limiter: guard.limiter,
    with: (extension: Extension<Context>) => middlewareOf(guard.with(extension)),
  });
}

class KoaExchange extends NodeExchange<Context, Context> {
  readonly #fields = new Map<string, string>();
  #refusing = false;
  #bodyBefore: unknown;

  /** Whole, wherever the limiter is mounted. */
  override get url(): string {
    return this.request.mountPath ? this.request.originalUrl : this.request.url;
  }

  override get state(): object {
    return this.request.state;
  }

  override get route(): string | undefined {
    const pattern: unknown = this.request._matchedRoute;
    return typeof pattern === "string" ? routeName(this.method, pattern) : undefined;
  }

  /** A body that stands when a refusal begins may be anybody's default; one that comes then is an answer. */
  override get answered(): boolean {
    const { respond, body } = this.request;
    return respond === false || super.answered || (this.#refusing && body !== this.#bodyBefore);
  }

  override setHeader(name: string, value: string | undefined): void {
    if (value === undefined) this.#fields.delete(name);
    else this.#fields.set(name, value);
    super.setHeader(name, value);
  }

  override setStatus(status: number): void {
    if (!this.#refusing) this.#bodyBefore = this.request.body;
    this.#refusing = true;
    this.request.status = status;
  }

  override send(contentType: string, body: string): void {
    this.setHeader("Content-Type", contentType);
    this.request.body = body;
  }

  /** Koa takes all fields away for an error, but for those that the error itself brings. */
  keepFieldsOn(error: unknown): void {
    if (typeof error !== "object" || error === null) return;
    const { headers } = error as { headers?: object };
    Object.assign(error, { headers: { ...Object.fromEntries(this.#fields), ...headers } });
  }
}
