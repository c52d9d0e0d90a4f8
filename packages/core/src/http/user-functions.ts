import { type Cost, isPolicy, type Policy } from "../algorithms/policy.ts";
import type { Answer, ResponseOutcome, Settlement } from "../config.ts";
import { show } from "../errors.ts";
import {
  addressOf,
  type Identity,
  type IdentitySource,
  type MaybePromise,
  type RequestContext,
  toIdentity,
} from "../identity/identity.ts";
import { isThenable } from "../identity/sources.ts";
import { isSettlement } from "../limiter.ts";
import type { Events, WarningCode } from "../observe/events.ts";
import { isCost } from "../options.ts";
import type { NamedPolicy } from "../named-policies.ts";
import type { Plan } from "../plans.ts";
import type { Settings } from "../settings.ts";

/**
 * What a configuration's functions say of a request. None of them ever throws or takes longer than
 * `deadline` (milliseconds of `performance.now()`): where one fails, the strict answer stands in,
 * with a warning. A failing function is no way to pass uncounted.
 */
export interface UserFunctions<R> {
  readonly skips: (context: RequestContext<R>, deadline: number) => MaybePromise<boolean>;
  /** @param cost the configuration's, or a policy's own */
  readonly costOf: (cost: Cost<R>, context: RequestContext<R>, deadline: number) => MaybePromise<number>;
  readonly policyOf: (
    named: NamedPolicy<R>,
    context: RequestContext<R>,
    deadline: number,
  ) => MaybePromise<Policy>;
  readonly identityOf: (
    source: IdentitySource<R>,
    context: RequestContext<R>,
    deadline: number,
  ) => MaybePromise<Identity>;
  readonly idempotencyKeyOf: (
    context: RequestContext<R>,
    deadline: number,
  ) => MaybePromise<string | undefined>;
  readonly settlementOf: (
    settle: Plan<R>["settle"],
    response: ResponseOutcome<R>,
    deadline: number,
  ) => MaybePromise<Settlement>;
  /** Not bounded: the decision has been made, and whoever answers may take the time it takes. */
  readonly answerOf: (ask: () => MaybePromise<unknown>, answered: () => boolean) => MaybePromise<Answer>;
}

export function userFunctions<R>(settings: Settings<R>, events: Events): UserFunctions<R> {
  const { skip, idempotencyKey } = settings;

  /** Asks a function; `instead` answers where it gives nothing that `accept` takes. */
  function soundly<T>(
    ask: () => MaybePromise<unknown>,
    accept: (value: unknown) => T | undefined,
    instead: () => T,
    deadline: number,
    [code, what]: [WarningCode, string],
  ): MaybePromise<T> {
    const refuse = (how: string): T => {
      events.fault(code, `${what} ${how}`);
      return instead();
    };
    const judge = (value: unknown): T => {
      const accepted = accept(value);
      return accepted === undefined ? refuse(`gave ${show(value)}`) : accepted;
    };
    // Only the kind: the text of an error may quote the very secret it was about.
    const thrown = (error: unknown) => refuse(`threw ${error instanceof Error ? error.name : typeof error}`);
    try {
      const value = ask();
      if (!isThenable(value)) return judge(value);
      return inTime(value, deadline).then(
        (found) => (found === TOO_LATE ? refuse("took longer than the deadline") : judge(found)),
        thrown,
      );
    } catch (error) {
      return thrown(error);
    }
  }

  return {
    skips({ request }, deadline) {
      if (!skip) return false;
      const fault: [WarningCode, string] = ["TIDEGATE_SKIP_FAULT", "The skip function"];
      return soundly(
        () => skip(request),
        Boolean,
        () => false,
        deadline,
        fault,
      );
    },

    costOf(cost, { request }, deadline) {
      if (typeof cost === "number") return cost;
      const accept = (value: unknown) => (isCost(value) ? value : undefined);
      const fault: [WarningCode, string] = ["TIDEGATE_COST_FAULT", "The cost function"];
      return soundly(
        () => cost(request),
        accept,
        () => 1,
        deadline,
        fault,
      );
    },

    policyOf({ name, policy, choose }, { request }, deadline) {
      if (!choose) return policy;
      // Who is counted is settled beforehand, by the base: another answer here would be passed over in silence.
      const accept = (value: unknown) =>
        isPolicy(value) && (value.by ?? policy.by) === policy.by ? value : undefined;
      const fault: [WarningCode, string] = ["TIDEGATE_POLICY_FAULT", `The function of policy ${name}`];
      return soundly(
        () => choose(request),
        accept,
        () => policy,
        deadline,
        fault,
      );
    },

    identityOf(source, context, deadline) {
      const fault: [WarningCode, string] = [
        "TIDEGATE_IDENTITY_FAULT",
        "The function that says who is counted",
      ];
      return soundly(
        () => source.identify(context),
        toIdentity,
        () => addressOf(context),
        deadline,
        fault,
      );
    },

    idempotencyKeyOf({ request }, deadline) {
      if (!idempotencyKey) return undefined;
      // An empty text is what a missing header is to many a function: no key.
      const accept = (value: unknown) =>
        typeof value === "string" && value !== "" ? [value] : value ? undefined : [];
      const fault: [WarningCode, string] = ["TIDEGATE_IDEMPOTENCY_FAULT", "The idempotency key function"];
      const found = soundly<string[]>(
        () => idempotencyKey(request),
        accept,
        () => [],
        deadline,
        fault,
      );
      return isThenable(found) ? found.then(([key]) => key) : found[0];
    },

    answerOf(ask, answered) {
      // Whoever has answered may return what they like: many a framework's `send` returns the response.
      const accept = (value: unknown) =>
        value === undefined || answered() ? {} : isAnswer(value) ? value : undefined;
      const fault: [WarningCode, string] = ["TIDEGATE_LIMITED_FAULT", "The onLimited function"];
      return soundly<Answer>(ask, accept, () => ({}), Infinity, fault);
    },

    settlementOf(settle, response, deadline) {
      if (!settle) return "keep";
      const accept = (value: unknown) => (isSettlement(value) ? value : undefined);
      const fault: [WarningCode, string] = ["TIDEGATE_SETTLE_FAULT", "The settle function"];
      return soundly<Settlement>(
        () => settle(response),
        accept,
        () => "keep",
        deadline,
        fault,
      );
    },
  };
}

/** Whether a value can be answered. */
function isAnswer(value: unknown): value is Answer {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { status, type, title, body, contentType } = value as Record<string, unknown>;
  const isText = (text: unknown) => text === undefined || typeof text === "string";
  const statusOk =
    status === undefined || (Number.isInteger(status) && Number(status) >= 400 && Number(status) < 600);
  const bodyOk = isText(body) || (typeof body === "object" && body !== null);
  return statusOk && bodyOk && isText(type) && isText(title) && isText(contentType);
}

const TOO_LATE = Symbol("too late");

function inTime<T>(promise: PromiseLike<T>, deadline: number): PromiseLike<T | typeof TOO_LATE> {
  if (deadline === Infinity) return promise;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof TOO_LATE>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, deadline - performance.now()), TOO_LATE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
