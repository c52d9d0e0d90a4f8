import { isPolicy } from "../algorithms/policy.ts";
import type { Config, PerRequestPolicy, RouteOverride } from "../config.ts";
import { HttpContext } from "../http/context.ts";
import type { By } from "../identity/identity.ts";
import { isThenable, toSource } from "../identity/sources.ts";
import { endOf, type PastAsked } from "./past-request.ts";

/** The option whose function answers a request later: each is asked again, one after the other. */
export function laterOption(config: Config, asked: PastAsked): string {
  for (const [option, ask] of functionsOf(config, asked)) {
    try {
      const answer = ask();
      if (!isThenable(answer)) continue;
      answer.then(undefined, () => {});
      return option;
    } catch {
      // One that throws answers at once.
    }
  }
  return "config";
}

type Ask = [option: string, ask: () => unknown];

function* functionsOf(config: Config, asked: PastAsked): Generator<Ask> {
  const { request } = asked;
  yield ["skip", () => config.skip?.(request)];
  yield* limitsOf("", config, asked);
  yield ["idempotencyKey", () => config.idempotencyKey?.(request)];
  for (const [route, override] of Object.entries(config.routes ?? {}))
    if (override) yield* limitsOf(`routes.${route}.`, override, asked);
}

function* limitsOf(at: string, limits: Config | RouteOverride, asked: PastAsked): Generator<Ask> {
  const { request } = asked;
  yield [`${at}by`, () => identified(limits.by, asked)];
  yield [`${at}cost`, () => typeof limits.cost === "function" && limits.cost(request)];
  for (const [name, value] of Object.entries(limits.policies ?? {})) {
    const base = isPolicy(value) ? value : value.base;
    yield [`${at}policies.${name}.by`, () => identified(base.by, asked)];
    yield [`${at}policies.${name}.cost`, () => typeof base.cost === "function" && base.cost(request)];
    yield [`${at}policies.${name}`, () => (value as Partial<PerRequestPolicy>).choose?.(request)];
  }
  yield [`${at}settle`, () => limits.settle?.({ request, ...endOf(asked.past) })];
}

const identified = (by: By | undefined, asked: PastAsked): unknown =>
  by && toSource(by).identify(new HttpContext(asked, undefined, () => {}));
