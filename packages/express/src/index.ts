import {
  type Config,
  createGuard,
  type Decision,
  type Extension,
  type Framework,
  type Guard,
  type Limiter,
  NodeExchange,
  routeName,
  share,
  sharedOf,
  type Trust,
} from "@tidegate/core";
import {
  type Application,
  type NextFunction,
  type Request,
  type RequestHandler,
  type Response,
  Router,
} from "express";

export * from "@tidegate/core";

declare global {
  namespace Express {
    interface Request {
      /** What the rate limiter decided; `undefined` when it skipped the request. */
      rateLimit?: Decision;
    }
  }
}

/** What {@link rateLimit} takes: core's configuration, with Express's request and response in its functions. */
export type ExpressRateLimitConfig = Config<Request, Response>;

/** Express middleware, and the limiter inside it. */
export interface RateLimitHandler extends RequestHandler {
  /** The same limits without HTTP, and what people do by hand: `peek`, `reset`, `block`, `health`, `close`. */
  readonly limiter: Limiter;
  /**
   * Middleware with these policies besides, for single routes. What counted a request before does not count it again.
   *
   * @example app.post("/login", limit.with({ policies: { login: slidingLog({ limit: 5, window: "15m" }) } }), login)
   * @throws ConfigError for the first setting that cannot work
   */
  with(extension: Extension<Request>): RateLimitHandler;
}

/**
 * Limits every request that passes here. Express 4 and 5; the client's address is `req.ip`, by the
 * application's own `trust proxy`, unless `trustProxy` is given.
 *
 * @example app.use(rateLimit({ limit: 100, window: "1m" }))
 * @throws ConfigError for the first setting that cannot work
 */
export const rateLimit = (config: ExpressRateLimitConfig): RateLimitHandler =>
  handlerOf(createGuard<Request, Response>(config, framework));

function handlerOf(guard: Guard<Request, Response>): RateLimitHandler {
  function rateLimit(req: Request, res: Response, next: NextFunction): void {
    guard.handle(new ExpressExchange(req, res, req, res), (passes) => passes && next());
  }
  return Object.assign(rateLimit, {
    limiter: guard.limiter,
    with: (extension: Extension<Request>) => handlerOf(guard.with(extension)),
  });
}

class ExpressExchange extends NodeExchange<Request, Response> {
  /** Whole, wherever the limiter is mounted: Express takes the mount path away, and may put a slash in its place. */
  override get url(): string {
    const { baseUrl, url, originalUrl } = this.request;
    if (!baseUrl) return super.url;
    return originalUrl === baseUrl + url.slice(1) ? originalUrl : baseUrl + url;
  }

  override get address(): string | undefined {
    return this.request.ip;
  }

  override get trust(): Trust {
    const setting: unknown = this.request.app?.get("trust proxy");
    if (typeof setting === "number") return { whom: setting > 0 ? "some" : "nobody", hops: setting };
    return { whom: setting === true ? "everybody" : setting ? "some" : "nobody" };
  }

  override keep(decision: Decision): void {
    if (prepared(this.request.app)) share(this.raw).decision = decision;
    else super.keep(decision);
  }

  override beforeHead(act: () => void): void {
    if (prepared(this.request.app)) (share(this.raw).beforeHead ??= []).push(act);
    else super.beforeHead(act);
  }

  override get route(): string | undefined {
    const path: unknown = this.request.route?.path;
    return typeof path === "string" ? routeName(this.method, this.request.baseUrl + path) : undefined;
  }
}

type App = Application & { parent?: App; request: Request; response: Response };

const applications = new WeakSet<App>();

/**
 * Whether an application's requests show their decision, and its responses tell of their head, by what they inherit.
 * Express gives each request and response a shape of its own: to add a property to one costs more than all else that
 * is done here.
 */
function prepared(application: Application | undefined): boolean {
  let app = application as App | undefined;
  // What a mounted application leaves to others is answered by those it is mounted in; it inherits from them.
  while (app?.parent) app = app.parent;
  // Something that only looks like a request of Express may have no application.
  if (!app?.request || !app.response) return false;
  if (applications.has(app)) return true;
  applications.add(app);
  Object.defineProperty(app.request, "rateLimit", { ...KEPT, configurable: true, enumerable: true });
  const inherited = Reflect.get(app.response, "writeHead") as (...args: unknown[]) => Response;
  app.response.writeHead = function (this: Response, ...args: unknown[]) {
    tellOfHead(this, args[0]);
    return inherited.apply(this, args);
  };
  return true;
}

const KEPT = {
  get(this: Request): Decision | undefined {
    return sharedOf(this)?.decision;
  },
  set(this: Request, decision: Decision | undefined): void {
    share(this).decision = decision;
  },
};

function tellOfHead(response: Response, status: unknown): void {
  const shared = response.req && sharedOf(response.req);
  if (!shared?.beforeHead) return;
  if (typeof status === "number") response.statusCode = status;
  const acts = shared.beforeHead;
  shared.beforeHead = undefined;
  for (const act of acts) act();
}

const framework: Framework<Request> = {
  trustSetting: 'app.set("trust proxy", …)',
  pattern(pattern) {
    const tests = new Map<string, (path: string) => boolean>();
    const testFor = (caseSensitive: boolean, strict: boolean) => {
      const router = Router({ caseSensitive, strict });
      router.route(pattern);
      const [layer] = router.stack as unknown as [{ match(path: string): unknown }];
      return (path: string) => Boolean(layer.match(path));
    };
    tests.set("false,false", testFor(false, false)); // What is no pattern is told of at once.
    return (path, { app }) => {
      const settings = [app.enabled("case sensitive routing"), app.enabled("strict routing")] as const;
      const test = tests.get(settings.join()) ?? testFor(...settings);
      tests.set(settings.join(), test);
      try {
        return test(path);
      } catch {
        return false; // It cannot be decoded: Express answers 400, whatever the route.
      }
    };
  },
};
