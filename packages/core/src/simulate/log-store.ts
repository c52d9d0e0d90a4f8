import type { Numbers } from "../algorithms/algorithm.ts";
import type { Policy } from "../algorithms/policy.ts";
import { listOf } from "../lists.ts";
import type { Check, Move, Nonce, Outcome, Store } from "../stores/store.ts";
import { chargeMore, giveBack, type Kept, put, stateAt, type Steps } from "./kept.ts";

/** What is kept under one key, and whose count it is. */
interface Entry<C> extends Kept {
  readonly counter: C;
}

/** A check and what it found. */
export interface Judged<C> {
  readonly check: Check;
  /** By policy. */
  readonly entries: readonly Entry<C>[];
}

/**
 * Keeps state by the clock of a log: decides as the memory store does, line for line, and finds with a key whose count
 * it is. Nothing is ever thrown out, as every key is counted anyway; nothing is blocked.
 */
export interface LogStore<C> extends Store {
  /** What it judged since the last {@link forgetJudged}. */
  readonly judged: Judged<C> | undefined;
  forgetJudged(): void;
}

/** A grant that may be given again to the same nonce. */
interface Grant {
  readonly outcome: Outcome;
  readonly ends: number;
  replays: number;
}

/** A grant is replayed so often to whoever brings its nonce again, then it is charged as usual. */
const REPLAYS = 3;

/** 100 years, µs. */
const FOR_EVER = 100 * 365 * 86_400 * 1_000_000;

/**
 * @param clock whole µs; never goes back
 * @param counterOf whose count a key is: asked once for each
 */
export function logStore<C>(clock: () => number, counterOf: (key: string) => C): LogStore<C> {
  const entries = new Map<string, Entry<C>>();
  const nonces = new Map<string, Grant>();
  let judged: Judged<C> | undefined;

  function entryOf(key: string): Entry<C> {
    let entry = entries.get(key);
    if (!entry) entries.set(key, (entry = { counter: counterOf(key), state: undefined, ends: 0 }));
    return entry;
  }

  function decide(check: Check): Outcome {
    const now = clock();
    judged = { check, entries: check.keys.map(entryOf) };
    const grant = check.nonce && grantFor(check.nonce, now);
    if (grant && grant.replays < REPLAYS) {
      grant.replays++;
      return { ...grant.outcome, replayed: true };
    }
    const outcome = judge(judged, now);
    if (check.nonce && outcome.granted) keep(check.nonce, outcome, now);
    return outcome;
  }

  /** All are kept equally long, so those that have ended stand first. */
  function grantFor({ key }: Nonce, now: number): Grant | undefined {
    for (const [nonce, { ends }] of nonces) {
      if (ends > now) break;
      nonces.delete(nonce);
    }
    return nonces.get(key);
  }

  function keep({ key, keepMs }: Nonce, outcome: Outcome, now: number): void {
    nonces.delete(key);
    nonces.set(key, { outcome, ends: now - (now % 1000) + keepMs * 1000, replays: 0 });
  }

  return {
    get judged() {
      return judged;
    },
    forgetJudged: () => (judged = undefined),
    nowUs: clock,
    decide: (batch, done) => batch.forEach((check, i) => done[i]!(undefined, decide(check))),
    settle(moves, done) {
      const now = clock();
      done(
        undefined,
        moves.reduce((sum, move) => sum + moved(entryOf(move.key), move, now), 0),
      );
    },
    forget: (_, done) => done(undefined, 0),
    revoke: (keys, done) => done(undefined, keys.filter((key) => nonces.delete(key)).length),
    block: (_key, _ms, _reason, done) => done(undefined, 0),
    close: async () => {},
  };
}

/** As the memory store does it. Loops, as there are millions of them. */
function judge<C>({ check, entries }: Judged<C>, now: number): Outcome {
  const { policies, costs } = check;
  const count = policies.length;
  const rooms = listOf<number>(count);
  let granted = true;
  for (let i = 0; i < count; i++) {
    const policy = policies[i]!;
    const state = stateAt(entries[i]!, now);
    rooms[i] = stepsOf(policy).room(numbersOf(policy, now), state, now, costs[i]!, 1);
    if (rooms[i]! < 1 && policy.mode !== "shadow") granted = false;
  }
  const words: number[] = [];
  for (let i = 0; i < count; i++) {
    const policy = policies[i]!;
    const fits = rooms[i]! >= 1;
    const step = { now, cost: costs[i]!, charges: granted && fits, fits };
    const state = stateAfter(policy, entries[i]!, step);
    const report = stepsOf(policy).report(numbersOf(policy, now), state, now, costs[i]!);
    for (const word of report) words.push(word);
    if (policy.mode === "shadow") words.push(fits ? 1 : 0);
  }
  return { granted, now, words, blockedUs: undefined, replayed: false };
}

interface Step {
  readonly now: number;
  readonly cost: number;
  readonly charges: boolean;
  readonly fits: boolean;
}

/** The state that a decision leaves, written where it changed. */
function stateAfter(policy: Policy, entry: Kept, { now, cost, charges, fits }: Step): unknown {
  const steps = stepsOf(policy);
  const numbers = numbersOf(policy, now);
  const before = stateAt(entry, now);
  let after: unknown;
  if (charges && cost > 0) after = steps.charge(numbers, before, now, cost);
  else if (!fits && before !== undefined && cost <= policy.limit)
    after = steps.mend(numbers, before, now, entry.ends - now);
  if (after === undefined) return before;
  put(entry, steps, numbers, after, now);
  return after;
}

/** How many units a move moved. */
function moved(kept: Kept, move: Move, now: number): number {
  const { kind, policy, units } = move;
  // What is in flight stays so until it is given back.
  if (kind === "renew") return units;
  const numbers = numbersOf(policy, now);
  return kind === "credit"
    ? giveBack(kept, stepsOf(policy), numbers, move, now)
    : chargeMore(kept, stepsOf(policy), numbers, units, now);
}

const numbersOf = ({ numbers, numbersAt }: Policy, now: number): Numbers =>
  numbersAt ? numbersAt(now / 1000) : numbers;

const stepsOf = ({ algorithm }: Policy): Steps => (algorithm.renew ? inFlight : algorithm);

/**
 * What is in flight, as a number: a process that lives renews its leases, so that each lasts until it is given back, and
 * none is asked for twice. To a caller they end when they would without being renewed.
 */
const inFlight: Steps = {
  room: ({ a }, held, _now, cost, n) => (cost === 0 ? n : Math.floor((a - unitsOf(held)) / cost)),
  charge: (_numbers, held, _now, units) => unitsOf(held) + units,
  mend: () => undefined,
  keepFor: () => FOR_EVER,
  report: ({ b }, held, now) => [unitsOf(held), unitsOf(held) > 0 ? now + b : 0],
  credit: (_numbers, held, _now, units) => Math.max(0, unitsOf(held) - units),
};

const unitsOf = (held: unknown): number => (held as number | undefined) ?? 0;
