import {
  type Config,
  createGuard,
  type Decision,
  type Extension,
  type Framework,
  type Guard,
  type Limiter,
  NodeExchange,
  oneOf,
  routeName,
  type RouteOptions,
  type RouteOverride,
  textOf,
  type Trust,
  trustBySample,
} from "@tidegate/core";
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import fp from "fastify-plugin";
import findMyWay from "find-my-way";

export * from "@tidegate/core";

declare module "fastify" {
  interface FastifyRequest {
    /** What the rate limiter decided; `undefined` when it skipped the request. */
    rateLimit: Decision | undefined;
  }
  interface FastifyContextConfig {
    /** What is different on this route; `false`: it is not limited. */
    rateLimit?: RouteOverride<FastifyRequest> | false;
  }
  interface FastifyInstance {
    /** The limiter of this scope. */
    rateLimit: FastifyRateLimit;
  }
}

/** When a request is decided. Bodies are read between the second and the third. */
export type Hook = "onRequest" | "preParsing" | "preValidation" | "preHandler";

/** A limiter's configuration, and when it decides. */
export interface FastifyRateLimitConfig extends Config<FastifyRequest, FastifyReply> {
  /**
   * When a request is decided. `"onRequest"` by default. A `cost` or `by` that looks at the body needs
   * `"preValidation"` or `"preHandler"`.
   */
  hook?: Hook;
}

/** The limiter of a scope, as `app.rateLimit`. */
export interface FastifyRateLimit {
  /** The same limits without HTTP, and what people do by hand: `peek`, `reset`, `block`, `health`, `close`. */
  readonly limiter: Limiter;
  /**
   * A hook with these policies besides, for single routes. What counted a request before does not count it again.
   *
   * @example app.post("/login", { preHandler: app.rateLimit.with({ policies }) }, login)
   * @throws ConfigError for the first setting that cannot work
   */
  with(extension: Extension<FastifyRequest>): FastifyRateLimitHook;
  /** The hook that this plugin adds to its scope. */
  readonly handler: FastifyRateLimitHook;
}

/** For any hook of a route that is given request, reply and a callback: `onRequest`, `preValidation`, `preHandler`. */
export type FastifyRateLimitHook = (
  request: FastifyRequest,
  reply: FastifyReply,
  next: (error?: Error) => void,
) => void;

/**
 * Limits every request of the scope it is registered in, whenever its routes are declared; registered at the root, also
 * those that no route answers. Fastify 5; the client's address is `request.ip`, unless `trustProxy` is given.
 *
 * @example await app.register(rateLimit, { limit: 100, window: "1m" })
 * @throws ConfigError (the boot fails) for the first setting that cannot work, of the plugin or of a route
 */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitConfig> = fp(
  async (fastify: FastifyInstance, { hook = "onRequest", ...config }: FastifyRateLimitConfig) => {
    const at = oneOf("hook", hook, ["onRequest", "preParsing", "preValidation", "preHandler"]) as "onRequest";
    const guard = createGuard<FastifyRequest, FastifyReply>(config, frameworkOf(fastify));
    const limit = limitOf(guard);
    fastify.addHook("onRoute", ({ method, url, config = {} }) => {
      if (config.rateLimit) guard.check(routeName(method, url), config.rateLimit);
    });
    // Each of these hooks is given what it calls at the end as its last argument.
    fastify.addHook(at, (request, reply, ...rest) => limit.handler(request, reply, rest.at(-1)!));
    fastify.addHook("onClose", () => guard.limiter.close());
    // Fastify's own answer to an unknown URL runs no hooks, unless it is asked for where the hooks are. In a scope of
    // its own a plugin leaves unknown URLs alone.
    if (!("register" in Object.getPrototypeOf(fastify)))
      try {
        fastify.setNotFoundHandler(undefined as never);
      } catch {
        // Somebody has set a handler already: that one runs them.
      }
    if (!fastify.hasRequestDecorator("rateLimit")) fastify.decorateRequest("rateLimit", undefined);
    if (!Object.hasOwn(fastify, "rateLimit")) fastify.decorate("rateLimit", limit);
  },
  { name: "@tidegate/fastify", fastify: "5.x" },
);

const limitOf = (guard: Guard<FastifyRequest, FastifyReply>): FastifyRateLimit => ({
  limiter: guard.limiter,
  handler: (request, reply, next) =>
    guard.handle(new FastifyExchange(request, reply, request.raw, reply.raw), (passes) => passes && next()),
  with: (extension) => limitOf(guard.with(extension)).handler,
});

class FastifyExchange extends NodeExchange<FastifyRequest, FastifyReply> {
  override get address(): string | undefined {
    return this.request.ip;
  }

  override get trust(): Trust {
    const { request } = this;
    return trustBySample(request.server, (raw) => Object.create(request, { raw: { value: raw } }).ips);
  }

  override get route(): string | undefined {
    const { method, url } = this.request.routeOptions;
    return url === undefined ? undefined : routeName(method, url);
  }

  get routeOptions(): RouteOptions<FastifyRequest> {
    return this.request.routeOptions.config;
  }

  override get answered(): boolean {
    return this.response.sent;
  }

  override getHeader(name: string): string | undefined {
    return textOf(this.response.getHeader(name));
  }

  /** On Node's own response, which keeps the case of names; what Fastify has of that name would go over it. */
  override setHeader(name: string, value: string | undefined): void {
    this.response.removeHeader(name);
    super.setHeader(name, value);
  }

  /** As bytes: Fastify would add a charset to text. */
  override send(contentType: string, body: string): void {
    this.setHeader("Content-Type", contentType);
    void this.response.send(Buffer.from(body));
  }
}

/** What core has to know of Fastify, and of this application. */
function frameworkOf({ initialConfig }: FastifyInstance): Framework<FastifyRequest> {
  const { routerOptions, ...older } = initialConfig as Record<string, unknown>;
  // Fastify takes these in two places; where nobody said anything, both say the default.
  const says = (option: string, value: boolean): boolean =>
    [older, routerOptions as typeof older].some((options) => options?.[option] === value);
  const options = {
    caseSensitive: !says("caseSensitive", false),
    ignoreTrailingSlash: says("ignoreTrailingSlash", true),
    ignoreDuplicateSlashes: says("ignoreDuplicateSlashes", true),
    useSemicolonDelimiter: says("useSemicolonDelimiter", true),
    maxParamLength: Number.MAX_SAFE_INTEGER,
  };
  return {
    trustSetting: "trustProxy of Fastify (a list of networks) or of this plugin",
    pattern(pattern) {
      const router = findMyWay(options);
      // Methods are not the pattern's business: any one does.
      router.on("GET", pattern, () => {});
      return (path) => router.find("GET", path) !== null;
    },
  };
}
