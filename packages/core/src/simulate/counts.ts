import type { Settlement } from "../config.ts";
import type { Decision } from "../decision.ts";
import { actualOf } from "../engine.ts";
import type { MaybePromise } from "../identity/identity.ts";
import { isThenable } from "../identity/sources.ts";
import type { Settings } from "../settings.ts";
import type { Judged } from "./log-store.ts";
import type { PastRequest } from "./past-request.ts";
import { type PolicySettings, policyReport } from "./policy-report.ts";
import type { SimulationReport } from "./report.ts";
import { doubtsOf, type Unclear } from "./doubts.ts";
import { Steps } from "./steps.ts";
import { Tallies } from "./tallies.ts";
import type { Counter, Tally } from "./tally.ts";
import type { Warnings } from "./warnings.ts";
import type { Watches } from "./watch.ts";

export interface CountSettings extends PolicySettings {
  /** Steps of the timeline at most. */
  readonly points: number;
}

/** What is told of a configuration while it is simulated. */
export interface Heard {
  readonly warnings: Warnings;
  readonly watches: Watches;
}

/** Counts what became of requests. */
export class Counts {
  readonly #settings: CountSettings;
  readonly #countsPreflights: boolean;
  readonly #warnings: Warnings;
  readonly #steps: Steps;
  readonly #admittedOver: number[];
  readonly #refusedOver: number[];
  readonly #tallies: Tallies;
  readonly #requests = { pass: 0, refuse: 0, skip: 0 };
  #outOfOrder = 0;
  #from = Infinity;
  #to = -Infinity;
  /** µs. */
  #now = 0;
  readonly #unclear: Unclear = { requests: 0, address: 0, status: 0, duration: 0, preflight: 0 };

  constructor(settings: Settings, { warnings, watches }: Heard, own: CountSettings) {
    this.#settings = own;
    this.#countsPreflights = settings.countsPreflights;
    this.#warnings = warnings;
    this.#steps = new Steps(own.points);
    this.#admittedOver = this.#steps.series();
    this.#refusedOver = this.#steps.series();
    this.#tallies = new Tallies(settings, this.#steps, watches);
  }

  /** @param now its moment, µs, or that of a later one which came before */
  decided(past: PastRequest, now: number, kind: "pass" | "refuse" | "skip"): void {
    const { at } = past;
    if (at < this.#to) this.#outOfOrder++;
    this.#from = Math.min(this.#from, at);
    this.#to = Math.max(this.#to, at);
    this.#now = now;
    this.#requests[kind]++;
    this.#steps.reach(now / 1000);
    if (kind === "pass") this.#steps.count(this.#admittedOver);
    else if (kind === "refuse") this.#steps.count(this.#refusedOver);
    if (kind !== "skip") this.#lookFor(past);
  }

  /** What the log does not tell. */
  #lookFor({ address, status, durationMs, method, headers }: PastRequest): void {
    this.#unclear.requests++;
    if (address === undefined) this.#unclear.address++;
    if (status === undefined) this.#unclear.status++;
    if (durationMs === undefined) this.#unclear.duration++;
    if (method === "OPTIONS" && headers === undefined && !this.#countsPreflights) this.#unclear.preflight++;
  }

  /** Whose count a key is. */
  counterOf(key: string): Counter {
    return this.#tallies.counterOf(key);
  }

  /**
   * What the policies were asked by the request that was {@link decided} last.
   *
   * @param lasted how long it took, µs
   * @param outcome what it cost in the end
   */
  asked(
    { check: { policies, costs }, entries }: Judged<Counter>,
    { verdicts, replayed }: Decision,
    lasted: number,
    outcome: MaybePromise<Settlement>,
  ): void {
    for (let i = 0; i < policies.length; i++) {
      const { counter } = entries[i]!;
      const { tally } = counter;
      const { allowed } = verdicts[i]!;
      const units = costs[i]!;
      let more = 0;
      if (isThenable(outcome)) tally.settlesLater = true;
      else if (outcome !== "keep" && !policies[i]!.algorithm.renew)
        more = actualOf(outcome, tally.place.name, units, policies[i]!.cost !== undefined) - units;
      counter.count({ now: this.#now, units, allowed, replayed, lasted, more });
      if (!allowed) this.#steps.count(tally.refusals);
    }
  }

  report(): SimulationReport {
    const { pass, refuse, skip } = this.#requests;
    const { stepMs, start, of } = this.#steps.shown(this.#settings.points);
    const { all } = this.#tallies;
    const isEmpty = pass + refuse + skip === 0;
    return {
      from: isEmpty ? null : this.#from,
      to: isEmpty ? null : this.#to,
      requests: pass + refuse + skip,
      admitted: pass,
      refused: refuse,
      notLimited: skip,
      outOfOrder: this.#outOfOrder,
      identities: different(all, () => true),
      identitiesRefused: different(
        all.filter(({ place }) => place.policy.mode === "enforce"),
        ({ refused }) => refused > 0,
      ),
      timeline: { stepMs, start, admitted: of(this.#admittedOver), refused: of(this.#refusedOver) },
      policies: all.map((tally) => policyReport(tally, of(tally.refusals), this.#settings)),
      warnings: [...doubtsOf(all, this.#unclear, this.#settings.curve), ...this.#warnings.texts],
    };
  }
}

/** How many different identities there are of which something is true. */
function different(tallies: readonly Tally[], holds: (counter: Counter) => boolean): number {
  const found = new Set<string>();
  for (const { counters } of tallies)
    for (const counter of counters) if (holds(counter)) found.add(counter.identity);
  return found.size;
}
