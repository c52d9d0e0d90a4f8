import type { RouteOverride } from "../config.ts";
import type { Decision } from "../decision.ts";
import type { Trust } from "../identity/proxy.ts";

/** A request, in the words of one framework. */
export interface Asked<R = any> {
  /** The framework's own request, as users' functions get it. */
  readonly request: R;
  /** The platform's request: what all limiters of one request have in common. */
  readonly raw: object;
  /** The method, as the client wrote it. */
  readonly method: string;
  /** Path and query as the framework's router sees them: not decoded, and whole, wherever the limiter is mounted. */
  readonly url: string;
  /** The address at the other end of the connection. */
  readonly peer: string | undefined;
  /** The client's address, by the application's own proxy settings. */
  readonly address: string | undefined;
  /** Whom these settings believe. */
  readonly trust: Trust;
  /** Where earlier middleware of this framework leaves what it found, such as `user`. */
  readonly state: object;
  /** The route that the framework has matched by now, as `"GET /users/:id"`. */
  readonly route: string | undefined;
  /** The options of the matched route itself. */
  readonly routeOptions?: RouteOptions<R> | undefined;
  /** A request header, by its name in lower case. */
  header(name: string): string | undefined;
}

/** A route's own options, where its framework has such. The same object for each request of the route, and no other's. */
export interface RouteOptions<R = any> {
  /** What is different on this route; `false`: it is not limited. */
  readonly rateLimit?: RouteOverride<R> | false;
}

/** A request and its response, in the words of one framework. */
export interface Exchange<R = any, S = any> extends Asked<R> {
  /** The framework's own response, as users' functions get it. */
  readonly response: S;
  /** Whether the head of the response is on its way. */
  readonly headersSent: boolean;
  /** Whether somebody has answered: then nobody else may. */
  readonly answered: boolean;
  /** The status as it stands. */
  readonly status: number;
  /** A field of the response as it stands; `undefined` when there is none. */
  getHeader(name: string): string | undefined;
  /** `undefined` takes the field away. */
  setHeader(name: string, value: string | undefined): void;
  /** Sets the status of the response. */
  setStatus(status: number): void;
  /** Puts the decision where this framework keeps such things. */
  keep(decision: Decision): void;
  /** Once, when the head of the response is about to be written: fields may still change. */
  beforeHead(act: () => void): void;
  /** Once, when the response is through: whole, or broken off. At once when it is by now. */
  afterwards(act: (whole: boolean) => void): void;
  /** Answers; status and fields are set by then. */
  send(contentType: string, body: string): void;
  /** Ends a response that somebody has begun. */
  end(): void;
}

/** What core has to know of a framework. */
export interface Framework<R = any> {
  /** The setting by which an application says which proxies it believes, for a reader. */
  readonly trustSetting: string;
  /**
   * A test by the framework's own pattern library and the application's own settings.
   *
   * @throws when it is no pattern
   */
  pattern(pattern: string): PathTest<R>;
}

/**
 * Whether a path fits a pattern.
 *
 * @param path the path of {@link Asked.url}
 */
export type PathTest<R = any> = (path: string, request: R) => boolean;

/** How a route is named: as tables name it. A router answers HEAD by the handler of GET, so it is one route. */
export const routeName = (method: string | readonly string[], pattern: string): string =>
  `${method === "HEAD" ? "GET" : String(method)} ${pattern}`;
