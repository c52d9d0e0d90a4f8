import type { Config, Settlement } from "./config.ts";
import type { Decision } from "./decision.ts";
import { type RequestErrorCode, show, TidegateError } from "./errors.ts";
import { createEngine, type Engine } from "./engine.ts";
import type { Question } from "./question.ts";
import type { Part } from "./explain.ts";
import type { HealthReport } from "./failure/health.ts";
import { EVERYONE, type Identity, toIdentity } from "./identity/identity.ts";
import { type Duration, duration, isCost, onlyKnown } from "./options.ts";
import type { NamedPolicy } from "./named-policies.ts";
import type { DecideRequest, IdentityInput } from "./request.ts";
import { createWaiting, type WaitOptions } from "./wait.ts";

/** Units that were taken beforehand, for work whose cost is known afterwards. */
export interface Reservation {
  /** Whether the units were there. Do not begin when they were not. */
  readonly decision: Decision;
  /**
   * It cost so many units in the end: less comes back, more is charged into debt. Once; a second time does nothing. A
   * reservation that is never settled stays charged.
   *
   * @param actual units, of each policy that has no cost of its own; or a record from policy name to units
   * @throws TidegateError TIDEGATE_SETTLEMENT (the promise rejects) when it is no whole number from 0
   * @throws StoreError (the promise rejects) when the store cannot be asked
   */
  commit(actual: number | Readonly<Record<string, number>>): Promise<void>;
  /**
   * It cost nothing: all that was taken comes back.
   *
   * @throws StoreError (the promise rejects) when the store cannot be asked
   */
  cancel(): Promise<void>;
}

/**
 * Limits for anything that is not an HTTP request, and what people do by hand. Made by {@link createLimiter}; every
 * middleware has one as `limiter`.
 */
export interface Limiter {
  /**
   * Decides, and charges when the decision is to allow. Always answers within the configuration's
   * `timeoutMs`, by the failure rule if need be; a store that fails is never an exception.
   *
   * @throws TidegateError (the promise rejects) when an identity is missing or the cost is no whole number
   */
  decide(request: DecideRequest): Promise<Decision>;
  /**
   * What {@link decide} would answer now. Charges nothing, writes nothing.
   *
   * @throws TidegateError (the promise rejects) when an identity is missing or the cost is no whole number
   */
  peek(request: DecideRequest): Promise<Decision>;
  /**
   * Tells what became of a request, once its work is done: gives units back or charges more, and frees what was in
   * flight. Once per decision; a second time does nothing.
   *
   * @throws TidegateError TIDEGATE_SETTLEMENT (the promise rejects) when the outcome is none
   * @throws StoreError (the promise rejects) when the store cannot be asked
   */
  settle(decision: Decision, outcome: Settlement): Promise<void>;
  /**
   * Takes units for work whose cost is known afterwards.
   *
   * @throws TidegateError (the promise rejects) when an identity is missing or the cost is no whole number
   */
  reserve(request: DecideRequest): Promise<Reservation>;
  /**
   * Resolves when the request was let in: sleeps as long as the decision says, without asking in
   * between; who asked first goes first, within this process.
   *
   * @throws TidegateError (the promise rejects) by code: TIDEGATE_WAIT_NEVER, TIDEGATE_WAIT_TIMEOUT,
   * TIDEGATE_WAIT_DEGRADED; or the reason of the signal
   */
  wait(request: DecideRequest & WaitOptions): Promise<Decision>;
  /**
   * Forgets what was counted for an identity: by one policy, or by all of them. A policy by `globally()` counts nobody
   * alone: it is forgotten only when it is named.
   *
   * @param policy its name; left out: all of them
   * @throws TidegateError (the promise rejects) by code: TIDEGATE_IDENTITY_MISSING, TIDEGATE_POLICY_UNKNOWN
   * @throws StoreError (the promise rejects) when the store cannot be asked
   */
  reset(identity: IdentityInput, policy?: string): Promise<void>;
  /**
   * Refuses an identity whatever its limits, for a span or, as `"forever"` says, until unblocked. Attempts meanwhile
   * change nothing. Needs `blocking: true` in the configuration of whoever decides.
   *
   * @param span milliseconds, text such as `"1h"`, or `"forever"`
   * @param reason for the audit; empty by default
   * @throws TidegateError (the promise rejects) by code: TIDEGATE_IDENTITY_MISSING, TIDEGATE_BLOCKING_OFF
   * @throws ConfigError (the promise rejects) when the span is none
   * @throws StoreError (the promise rejects) when the store cannot be asked
   */
  block(identity: IdentityInput, span: Duration, reason?: string): Promise<void>;
  /**
   * Ends a block; of an identity that is not blocked it changes nothing.
   *
   * @throws TidegateError TIDEGATE_IDENTITY_MISSING (the promise rejects)
   * @throws StoreError (the promise rejects) when the store cannot be asked
   */
  unblock(identity: IdentityInput): Promise<void>;
  /** Whether the store answers, for readiness endpoints. Asks nothing. */
  health(): HealthReport;
  /**
   * Gives back reservations and slots in flight that this process still holds, and closes what the limiter opened.
   * Takes at most `timeoutMs` and a little. May be called twice.
   */
  close(): Promise<void>;
}

/**
 * A limiter for anything that is not an HTTP request: messages, jobs, calls.
 *
 * @throws ConfigError for the first setting that cannot work
 */
export function createLimiter(config: Config): Limiter {
  return limiterOf(createEngine(config));
}

export function limiterOf(engine: Engine): Limiter {
  const { settings } = engine;
  const { plan } = settings;
  const ownNames = plan.policies.map(({ name }) => name);

  function questionOf(request: DecideRequest | undefined): Question {
    const { identity, cost, idempotencyKey } = request ?? ({} as Partial<DecideRequest>);
    if (typeof cost === "object" && cost !== null) checkNames("cost", cost, ownNames);
    const usual = typeof plan.cost === "number" ? plan.cost : 1;
    const whole = typeof cost === "object" && cost !== null ? usual : cost === undefined ? usual : cost;
    if (!isCost(whole)) throw costError(whole);
    const parts = plan.policies.map((named): Part => {
      const { name, segment, policy } = named;
      const given = typeof cost === "object" && cost !== null ? cost[name] : undefined;
      // There is no request here that a policy's cost function could look at.
      const own = given ?? (typeof policy.cost === "number" ? policy.cost : undefined);
      const units = own ?? whole;
      if (!isCost(units)) throw costError(units);
      return {
        name,
        segment,
        policy,
        identity: identityFor(named, identity),
        cost: units,
        ownCost: own !== undefined,
      };
    });
    const { rule: failure } = plan.failure;
    const deadline = performance.now() + settings.timeoutMs;
    const local = () => plan.failure.local.map((named) => localPart(named, identity, cost, whole));
    return { parts, cost: whole, deadline, idempotencyKey, failure, local };
  }

  const ask = (question: Question) => new Promise<Decision>((resolve) => engine.decide(question, resolve));
  const settle = (decision: Decision, outcome: Settlement) =>
    promised((done) => engine.settle(decision, soundSettlement(outcome, namesOf(decision)), done));
  const namesOf = ({ verdicts }: Decision) => [...engine.names(), ...verdicts.map(({ policy }) => policy)];
  /** One promise: an async function would make two more. */
  const decide = (request: DecideRequest) =>
    new Promise<Decision>((resolve) => {
      checkRequest("decide", request, DECIDE);
      engine.decide(questionOf(request), resolve);
    });

  const wait = createWaiting(engine, questionOf, ask);

  return {
    decide,
    async peek(request) {
      checkRequest("peek", request, DECIDE);
      return ask({ ...questionOf(request), peek: true });
    },
    async settle(decision, outcome) {
      return settle(decision, outcome);
    },
    async reserve(request) {
      checkRequest("reserve", request, DECIDE);
      const decision = await ask({ ...questionOf(request), fresh: true });
      engine.reserved(decision);
      return {
        decision,
        commit: async (actual) => settle(decision, actual),
        cancel: async () => settle(decision, "giveBack"),
      };
    },
    async wait(request) {
      checkRequest("wait", request, WAIT);
      return wait(request);
    },
    async reset(identity, policy) {
      if (policy !== undefined) checkNames("policy", { [policy]: true }, engine.names());
      return promised((done) =>
        engine.reset(oneIdentity(identity), policy === undefined ? undefined : [policy], done),
      );
    },
    async block(identity, span, reason = "") {
      if (!settings.blocking) {
        const advice = "set blocking: true in every limiter that is to heed it";
        throw requestError("TIDEGATE_BLOCKING_OFF", `block: this limiter heeds no blocks; ${advice}.`);
      }
      const ms = span === "forever" ? Infinity : duration("block.span", span);
      return promised((done) => engine.block(oneIdentity(identity), ms, reason, done));
    },
    async unblock(identity) {
      return promised((done) => engine.unblock(oneIdentity(identity), done));
    },
    health: () => engine.health(),
    close: () => engine.close(),
  };
}

const DECIDE = ["identity", "cost", "idempotencyKey"];
const WAIT = [...DECIDE, "maxWaitMs", "signal"];

/** A misspelt option would be an option left out. Looked at without a list, as it is for every decision. */
function checkRequest(method: string, request: object | undefined, known: readonly string[]): void {
  for (const name in request) if (!known.includes(name)) onlyKnown(method, request, known);
}

/** @throws TidegateError when a record names a policy that there is not */
function checkNames(what: string, record: object, names: readonly string[]): void {
  const unknown = Object.keys(record).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const known = names.length === 0 ? "none" : [...new Set(names)].join(", ");
  throw requestError("TIDEGATE_POLICY_UNKNOWN", `${what}: there is no ${show(unknown)}; there are ${known}.`);
}

const requestError = (code: RequestErrorCode, message: string) => new TidegateError(code, message);

const costError = (cost: unknown) =>
  requestError("TIDEGATE_COST", `cost: give a whole number from 0, got ${show(cost)}.`);

const promised = (act: (done: (error: Error | undefined) => void) => void) =>
  new Promise<void>((resolve, reject) => act((error) => (error ? reject(error) : resolve())));

/** Whether a settlement can be carried out. */
export function isSettlement(outcome: unknown): outcome is Settlement {
  if (outcome === "keep" || outcome === "giveBack" || isCost(outcome)) return true;
  if (typeof outcome !== "object" || outcome === null || Array.isArray(outcome)) return false;
  return Object.values(outcome).every(isCost);
}

function soundSettlement(outcome: unknown, names: readonly string[]): Settlement {
  if (isSettlement(outcome)) {
    if (typeof outcome === "object") checkNames("settle", outcome, names);
    return outcome;
  }
  const advice = `give "keep", "giveBack", a whole number from 0, or a record of those by policy`;
  throw requestError("TIDEGATE_SETTLEMENT", `settle: ${advice}, got ${show(outcome)}.`);
}

function oneIdentity(given: IdentityInput): Identity {
  const found = toIdentity(given);
  if (found) return found;
  const advice = "give user(id), ipOf(address) or text that is not empty";
  throw requestError("TIDEGATE_IDENTITY_MISSING", `identity: ${advice}, got ${show(given)}.`);
}

/** A policy of this process's own: who it counts is not to be asked for by its name, which is nobody's else. */
function localPart(
  named: NamedPolicy,
  given: DecideRequest["identity"] | undefined,
  cost: DecideRequest["cost"],
  whole: number,
): Part {
  const { name, segment, policy } = named;
  const known = named.by?.constant ?? toIdentity(given) ?? toIdentity((given as Given)?.[name]);
  const identity =
    known ??
    Object.values(given ?? {})
      .map(toIdentity)
      .find(Boolean) ??
    EVERYONE;
  const told = typeof cost === "object" && cost !== null ? cost[name] : undefined;
  const own = told ?? (typeof policy.cost === "number" ? policy.cost : undefined);
  return { name, segment, policy, identity, cost: own ?? whole, ownCost: own !== undefined };
}

type Given = Readonly<Record<string, unknown>> | undefined;

function identityFor(named: NamedPolicy, given: DecideRequest["identity"] | undefined): Identity {
  const constant = named.by?.constant;
  if (constant) return constant;
  const whole = toIdentity(given);
  const found = whole ?? toIdentity((given as Record<string, unknown> | null | undefined)?.[named.name]);
  if (found) return found;
  throw requestError(
    "TIDEGATE_IDENTITY_MISSING",
    `identity: policy ${named.name} needs one; give user(id), ipOf(address) or text that is not empty, or a record with ${named.name}, got ${show(given)}.`,
  );
}
