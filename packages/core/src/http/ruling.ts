import type { Refusal, Settlement } from "../config.ts";
import type { Decision } from "../decision.ts";
import type { Engine } from "../engine.ts";
import { show } from "../errors.ts";
import { blockedDecision, type Part } from "../explain.ts";
import { identityText } from "../identity/identity.ts";
import type { Plan } from "../plans.ts";
import type { Asked } from "./exchange.ts";
import { fieldsOf, retryAfter } from "./headers.ts";
import { type Header, type Told, violatedIn } from "./items.ts";
import { whenKnown } from "./maybe.ts";
import { partitionOf } from "./partition.ts";
import { isShown, type Prepared, shownLimits } from "./prepared.ts";
import type { Shared } from "./shared.ts";
import type { UserFunctions } from "./user-functions.ts";

/** What a framework does with a request: `headers` go onto the response, whoever writes it. */
export type Ruling =
  /** Not limited: the limiter leaves no trace. Also a request that this limiter has let pass before. */
  | { readonly kind: "skip" }
  | {
      readonly kind: "pass";
      readonly decision: Decision;
      readonly headers: readonly Header[];
      /** To be called once the response is through, or the client gone; `undefined` when nothing is to be settled. */
      readonly settle: ((end: ResponseEnd) => void) | undefined;
    }
  | {
      readonly kind: "refuse";
      readonly decision: Decision;
      readonly headers: readonly Header[];
      readonly refusal: Refusal;
    };

/** How a response ended. */
export interface ResponseEnd {
  /** The status; `undefined` where no response was begun. */
  readonly status: number | undefined;
  /** Whether the client went away before the response was whole. */
  readonly aborted: boolean;
}

/** What decisions mean for responses. */
export interface Rulings<R> {
  /** @param parts that were decided about */
  of(
    decision: Decision,
    parts: readonly Part[],
    prepared: Prepared<R>,
    plan: Plan<R>,
    asked: Asked<R>,
    shared: Shared,
  ): Ruling;
  /** Of a request from an address that is on the `deny` list. */
  denied(plan: Plan<R>, asked: Asked<R>, shared: Shared): Ruling;
}

export function rulingsOf<R, S>(engine: Engine<R, S>, functions: UserFunctions<R>): Rulings<R> {
  const { settings, events } = engine;

  function denied(plan: Plan<R>, asked: Asked<R>, shared: Shared): Ruling {
    const decision = blockedDecision(plan.policies, 1, Infinity, Date.now() * 1000);
    const limits = shownLimits(plan.policies);
    shared.told.push({ decision, limits, costs: [], partitions: undefined, policyField: undefined });
    return refuse(decision, shared.told);
  }

  function of(
    decision: Decision,
    parts: readonly Part[],
    { limits, policyField, localLimits }: Prepared<R>,
    plan: Plan<R>,
    asked: Asked<R>,
    { told: everybody }: Shared,
  ): Ruling {
    const shown = parts.filter(isShown);
    const local = decision.degraded?.rule === "local";
    const told: Told = {
      decision,
      limits: local ? localLimits : (limits ?? shownLimits(shown)),
      costs: shown.map(({ cost }) => cost),
      partitions: partitionsOf(shown, asked),
      policyField: local ? undefined : policyField,
    };
    everybody.push(told);
    if (!decision.allowed) return refuse(decision, everybody);
    const headers = fieldsOf(everybody, settings.headers, undefined);
    return { kind: "pass", decision, headers, settle: settlerOf(decision, plan, asked) };
  }

  /** @param everybody what all limiters of the request have told, this one last */
  function refuse(decision: Decision, everybody: readonly Told[]): Ruling {
    const closed = decision.degraded?.rule === "closed";
    const retryAfterSeconds = retryAfter(decision, settings.headers);
    const headers = fieldsOf(everybody, settings.headers, retryAfterSeconds);
    const refusal: Refusal = {
      kind: closed ? "closed" : decision.blocked ? "blocked" : "limit",
      decision,
      status: closed ? 503 : 429,
      retryAfterSeconds,
      violatedPolicies: violatedIn(everybody),
    };
    return { kind: "refuse", decision, headers: [...headers, ["Cache-Control", "no-store"]], refusal };
  }

  function partitionsOf(parts: readonly Part[], { request }: Asked<R>): Told["partitions"] {
    const setting = settings.headers.partitionKey;
    if (!setting) return undefined;
    return parts.map(({ name, identity }) => {
      try {
        const partition = partitionOf(setting, name, identityText(identity), request);
        if (partition === undefined)
          events.fault("TIDEGATE_PARTITION_FAULT", "The partition key function gave no Uint8Array");
        return partition;
      } catch (error) {
        const kind = error instanceof Error ? error.name : typeof error;
        events.fault("TIDEGATE_PARTITION_FAULT", `The partition key function threw ${kind}`);
        return undefined;
      }
    });
  }

  function settlerOf(
    decision: Decision,
    { settle }: Plan<R>,
    { request }: Asked<R>,
  ): ((end: ResponseEnd) => void) | undefined {
    if (!decision.receipt || (!settle && decision.receipt.lease === undefined)) return undefined;
    return ({ status, aborted }) => {
      const deadline = performance.now() + settings.timeoutMs;
      const outcome = functions.settlementOf(settle, { request, status, aborted }, deadline);
      // A store that cannot be asked has been reported; the charge stays.
      whenKnown(outcome, (settlement) => {
        const unknown = unknownIn(settlement, decision, engine);
        if (unknown !== undefined)
          events.fault(
            "TIDEGATE_SETTLE_FAULT",
            `The settle function named ${show(unknown)}, which is no policy`,
          );
        engine.settle(decision, settlement, () => {});
      });
    };
  }

  return { of, denied };
}

/** A name in a record of costs that no policy has. */
function unknownIn(settlement: Settlement, { verdicts }: Decision, engine: Engine): string | undefined {
  if (typeof settlement !== "object") return undefined;
  const known = [...engine.names(), ...verdicts.map(({ policy }) => policy)];
  return Object.keys(settlement).find((name) => !known.includes(name));
}
