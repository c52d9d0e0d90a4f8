import type { Config, Settlement } from "../config.ts";
import type { Decision } from "../decision.ts";
import { ConfigError } from "../errors.ts";
import type { Framework } from "../http/exchange.ts";
import { createGuard, type Guard } from "../http/guard.ts";
import { routeTable } from "../http/route-table.ts";
import type { ResponseEnd, Ruling } from "../http/ruling.ts";
import type { MaybePromise } from "../identity/identity.ts";
import { isThenable } from "../identity/sources.ts";
import { isSettlement } from "../limiter.ts";
import { flag, onlyKnown, optionalFunction, wholeNumber } from "../options.ts";
import type { Plan } from "../plans.ts";
import { settingsOf } from "../settings.ts";
import { laterOption } from "./later.ts";
import { Counts } from "./counts.ts";
import { Endings } from "./endings.ts";
import { SimulationError } from "./errors.ts";
import { type LogStore, logStore } from "./log-store.ts";
import { checkTimes, endOf, lastedUs, PastAsked, type PastRequest } from "./past-request.ts";
import type { SimulationReport } from "./report.ts";
import { Settling } from "./settling.ts";
import { simulatedConfig } from "./simulated-config.ts";
import type { Counter } from "./tally.ts";
import { Warnings } from "./warnings.ts";
import { Watches } from "./watch.ts";

/** How a log is gone through, and how much is told of it. */
export interface SimulationOptions {
  /**
   * How the patterns of `routes` are read: a test for a path, which is not decoded and has no query. Needed where the
   * configuration has routes.
   */
  pattern?: ((pattern: string) => (path: string) => boolean) | undefined;
  /** How many identities each list names. 0 to 10,000, 10 by default. */
  top?: number | undefined;
  /** Whether other limits are tried, for curves and suggestions. True by default. */
  curve?: boolean | undefined;
  /** Steps of the timeline at most. 1 to 10,000, 240 by default. */
  points?: number | undefined;
}

/** What became of one request of the past. */
export type PastDecision =
  /** Not limited. */
  { readonly kind: "skip" } | { readonly kind: "pass" | "refuse"; readonly decision: Decision };

/** A limiter that decides about the past. */
export interface Simulation {
  /**
   * Decides one request, at its own moment. One that came after a later one is decided at that one's moment, and counted.
   *
   * @throws SimulationError by code: TIDEGATE_SIMULATION_REQUEST when `at` or `durationMs` is no time, and nothing was
   * decided; TIDEGATE_SIMULATION_ASYNC when a function of the configuration answers later, and the simulation is of no
   * use any more
   */
  add(request: PastRequest): PastDecision;
  /** What came of the requests so far. */
  report(): SimulationReport;
  /**
   * Lets go of what is still in flight, in a process that lives on: with policies by `concurrency()` a timer would keep
   * it. The simulation is over then.
   */
  close(): Promise<void>;
}

/**
 * The limits of a configuration on requests of the past: what middleware would have decided, by the log's clock. All of
 * the configuration counts that says who is limited and how; where it is stored does not, nor what answers when that
 * fails. What a process would count alone (`scope: "process"`) is counted once for all. Requests are small plain objects
 * to functions: see {@link SimulatedRequest}.
 *
 * @throws ConfigError for the first setting that cannot work
 */
export function createSimulation(config: Config, options: SimulationOptions = {}): Simulation {
  const run = new Run(config, options);
  return {
    add(request) {
      const decision = run.decide(request);
      if (!isThenable(decision)) return decision;
      decision.then(undefined, () => {});
      throw run.waitsInVain();
    },
    report: () => run.report(),
    close: () => run.close(),
  };
}

/** A simulation under way. It waits where functions of the configuration answer later. */
export class Run {
  readonly #config: Config;
  readonly #guard: Guard;
  readonly #store: LogStore<Counter>;
  readonly #counts: Counts;
  readonly #settling = new Settling();
  /** Requests that are let in and not through yet, by their end, µs. */
  readonly #inFlight = new Endings<InFlight>();
  readonly #planFor: (asked: PastAsked) => Plan | false;
  /** Whether any plan settles what its requests cost. */
  readonly #settles: boolean;
  #last: PastAsked | undefined;
  /** µs. */
  #now = 0;

  /** @throws ConfigError for the first setting that cannot work */
  constructor(config: Config, options: SimulationOptions) {
    onlyKnown("options", options, ["pattern", "top", "curve", "points"]);
    const framework = frameworkOf(config, options);
    const [warnings, watches] = [new Warnings(), new Watches()];
    this.#config = config;
    this.#store = logStore(
      () => this.#now,
      (key) => this.#counts.counterOf(key),
    );
    const simulated = simulatedConfig(config, {
      store: this.#store,
      onEvent: (event) => warnings.hear(event),
      settling: this.#settling,
      watches,
    });
    this.#guard = createGuard(simulated, framework);
    const settings = settingsOf(simulated);
    const inTable = routeTable(settings.routes, framework);
    this.#planFor = (asked) => inTable(asked) ?? settings.plan;
    this.#settles = [settings.plan, ...settings.routes.map(({ plan }) => plan)].some(
      (plan) => plan && plan.settle,
    );
    this.#counts = new Counts(
      settings,
      { warnings, watches },
      {
        top: wholeNumber("options.top", options.top ?? 10, 0, 10_000),
        curve: flag("options.curve", options.curve ?? true),
        points: wholeNumber("options.points", options.points ?? 240, 1, 10_000),
      },
    );
  }

  /** @throws SimulationError TIDEGATE_SIMULATION_REQUEST when its times are none */
  decide(past: PastRequest): MaybePromise<PastDecision> {
    checkTimes(past);
    const asked = new PastAsked(past);
    const now = Math.max(this.#now, Math.round(past.at * 1000));
    const settled = this.#settleUntil(now);
    return settled ? settled.then(() => this.#ask(asked, now)) : this.#ask(asked, now);
  }

  #ask(asked: PastAsked, now: number): MaybePromise<PastDecision> {
    this.#now = now;
    this.#last = asked;
    this.#store.forgetJudged();
    const ruling = ruled(this.#guard, asked);
    return isThenable(ruling) ? ruling.then((late) => this.#took(asked, late)) : this.#took(asked, ruling);
  }

  #took(asked: PastAsked, ruling: Ruling): PastDecision {
    const [{ past }, now] = [asked, this.#now];
    this.#counts.decided(past, now, ruling.kind);
    if (ruling.kind === "skip") return SKIP;
    const { kind } = ruling;
    // Who is on the deny list is refused by this process's own clock.
    const decision = ruling.decision.blocked ? { ...ruling.decision, at: now / 1000 } : ruling.decision;
    const { judged } = this.#store;
    if (judged) this.#counts.asked(judged, decision, lastedUs(past), this.#outcomeOf(asked));
    if (ruling.kind === "pass" && ruling.settle)
      this.#inFlight.put(now + lastedUs(past), { asked, settle: ruling.settle });
    return { kind, decision };
  }

  /** What the request turned out to have cost, whether it was let in or not: another limit might have done so. */
  #outcomeOf(asked: PastAsked): MaybePromise<Settlement> {
    const plan = this.#settles && this.#planFor(asked);
    if (!plan || !plan.settle) return "keep";
    try {
      const outcome = plan.settle({ request: asked.request, ...endOf(asked.past) });
      return isThenable(outcome) || isSettlement(outcome) ? outcome : "keep";
    } catch {
      return "keep";
    }
  }

  /** Settles what was through by then, each at its own moment. A promise where that takes a while. */
  #settleUntil(now: number): PromiseLike<void> | undefined {
    while (this.#inFlight.soonest <= now) {
      this.#now = this.#inFlight.soonest;
      const { asked, settle } = this.#inFlight.take()!;
      settle(endOf(asked.past));
      const said = this.#settling.of(asked.request);
      if (!isThenable(said)) continue;
      this.#last = asked;
      const through = () => new Promise<void>((resolve) => void setImmediate(resolve));
      return said.then(through, through).then(() => this.#settleUntil(now));
    }
    return undefined;
  }

  /** Nobody waits for a function of the configuration that answers later. */
  waitsInVain(): SimulationError {
    const option = this.#last ? laterOption(this.#config, this.#last) : "config";
    const advice = "it answers later; await simulate(), or give a function that answers at once";
    return new SimulationError("TIDEGATE_SIMULATION_ASYNC", option, undefined, advice);
  }

  report(): SimulationReport {
    return this.#counts.report();
  }

  /** Lets go of the timer that renews what is in flight. */
  close(): Promise<void> {
    return this.#guard.limiter.close();
  }
}

interface InFlight {
  readonly asked: PastAsked;
  readonly settle: (end: ResponseEnd) => void;
}

const SKIP: PastDecision = { kind: "skip" };

/** What a guard rules; a promise where it has to wait. */
function ruled(guard: Guard, asked: PastAsked): MaybePromise<Ruling> {
  let ruling: Ruling | undefined;
  let tell: ((ruling: Ruling) => void) | undefined;
  guard.rule(asked, (made) => {
    if (tell) tell(made);
    else ruling = made;
  });
  return ruling ?? new Promise<Ruling>((resolve) => (tell = resolve));
}

function frameworkOf(config: Config, { pattern }: SimulationOptions): Framework {
  optionalFunction("options.pattern", pattern);
  const needed = Object.keys(config?.routes ?? {}).length > 0;
  if (needed && !pattern) {
    const advice =
      "the configuration has routes: give a function from a pattern to a test for paths, by your framework's own library";
    throw new ConfigError("TIDEGATE_OPTION_INVALID", "options.pattern", pattern, advice);
  }
  return { trustSetting: "trustProxy", pattern: (text) => pattern!(text) };
}
