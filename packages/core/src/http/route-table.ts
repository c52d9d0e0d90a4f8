import { ConfigError } from "../errors.ts";
import type { Plan } from "../plans.ts";
import type { RouteSetting } from "../settings.ts";
import { pathOf } from "./context.ts";
import type { Asked, Framework, PathTest } from "./exchange.ts";

interface Line<R> {
  readonly method: string | undefined;
  readonly matches: PathTest<R>;
  readonly plan: Plan<R> | false;
}

/**
 * Finds what the `routes` table says of a request; `undefined`: nothing.
 *
 * @throws ConfigError when a pattern is none to the framework's own library
 */
export function routeTable<R>(
  routes: readonly RouteSetting<R>[],
  framework: Framework<R> | undefined,
): (asked: Asked<R>) => Plan<R> | false | undefined {
  if (routes.length === 0 || !framework) return () => undefined;
  const lines = routes.map(({ name, method, pattern, plan }): Line<R> => {
    try {
      return { method, matches: framework.pattern(pattern), plan };
    } catch (error) {
      const advice = `give a path as this framework's router takes it (${error instanceof Error ? error.message : String(error)})`;
      throw new ConfigError("TIDEGATE_ROUTE", "routes", name, advice);
    }
  });
  return ({ method, url, request }) => {
    const path = pathOf(url);
    // A router answers HEAD by the handler of GET.
    const found = lines.find(
      (line) =>
        (line.method === undefined ||
          line.method === method ||
          (line.method === "GET" && method === "HEAD")) &&
        line.matches(path, request),
    );
    return found?.plan;
  };
}
