import { StoreError, type StoreErrorClass } from "../errors.ts";
import { duration, type Duration, oneOf, onlyKnown, wholeNumber } from "../options.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Changed, Check, Done, Move, Store } from "../stores/store.ts";
import { type Clock, clockOf, type VirtualClock, virtualClock } from "./clock.ts";

/** What {@link testStore} takes. */
export interface TestStoreOptions<C extends Clock = VirtualClock> {
  /** What tells it the time. A {@link virtualClock} of its own by default. */
  clock?: C;
  /** Entries kept, one per identity and policy. 100,000 by default. */
  maxEntries?: number;
}

/** One question to the store. */
export interface StoreCall {
  /**
   * - `decide`: a request is decided
   * - `look`: the same, charging nothing: `limiter.peek()`, and the breaker's own looks in the background
   * - `settle`: units come back or are charged after a response
   * - `renew`: slots in flight are held on
   * - `forget`, `block`: `limiter.reset()`, `block()` and `unblock()`
   */
  readonly kind: "decide" | "look" | "settle" | "renew" | "forget" | "block";
  /** As they stand in Redis: `rl:{ip:127.0.0.1}:default:sw`. */
  readonly keys: readonly string[];
  /** One per key: units asked for. Of a settlement those to be charged, below 0 those to come back. None of `forget` and `block`. */
  readonly units: readonly number[];
  /** When it was asked, by the store's clock, milliseconds since 1970. */
  readonly at: number;
  /** What it answered; `undefined`: nothing yet. */
  readonly answer: "granted" | "refused" | "done" | StoreErrorClass | undefined;
}

/** A store for tests: real decisions in memory, by a clock that the test moves, and failures on command. */
export interface TestStore<C extends Clock = VirtualClock> extends Store {
  /** What tells it the time. */
  readonly clock: C;
  /** Every question since the beginning or the last `clear()`, in order. Nothing is dropped: this store is not for load. */
  readonly calls: readonly StoreCall[];
  /** How many entries there are, one per identity and policy. */
  readonly size: number;
  /**
   * From now on every question fails so, at once, and nothing is charged.
   *
   * @throws ConfigError `TIDEGATE_OPTION_INVALID` for what is no class of store errors
   */
  fail(reason: StoreErrorClass): void;
  /**
   * The next decisions fail so, and then all is well again. Looks fail meanwhile; whatever else is asked is carried out.
   *
   * @param times how many, 1 to 1,000,000
   * @param reason `"connection"` by default
   * @throws ConfigError `TIDEGATE_OPTION_INVALID`
   */
  failNext(times: number, reason?: StoreErrorClass): void;
  /**
   * From now on nothing is answered, so that `timeoutMs` ends decisions. What was asked meanwhile is answered by
   * `heal()`, as by a Redis that goes on: what nobody waits for any more charges nothing.
   */
  hang(): void;
  /**
   * From now on everything is carried out at once, and answered only so much later, by a timer.
   *
   * @throws ConfigError `TIDEGATE_OPTION_INVALID`
   */
  slow(by: Duration): void;
  /** All is well again, and limiters notice at once, as when a connection is back: no test waits for the next look. */
  heal(): void;
  /** As new: nothing is counted, no call is known, nothing fails. The clock stays. */
  clear(): void;
}

interface Failing {
  readonly kind: "fail";
  readonly reason: StoreErrorClass;
  /** So many decisions more. */
  left: number;
}

type Trouble =
  | Failing
  | { readonly kind: "none" }
  | { readonly kind: "hang" }
  | { readonly kind: "slow"; readonly ms: number };

type Recorded = { -readonly [K in keyof StoreCall]: StoreCall[K] };

const WELL: Trouble = { kind: "none" };

/** What production says of each. */
const MESSAGES: Readonly<Record<StoreErrorClass, string>> = {
  timeout: "Redis did not answer within the deadline",
  late: "the script began after the deadline and did nothing",
  connection: "there is no connection to Redis",
  unavailable: "the server cannot decide now (LOADING)",
  moving: "the slot of a key is on its way to another server (TRYAGAIN)",
  readonly: "the server is a replica and takes no writes (READONLY)",
  foreign: "a key of this limiter holds another type (WRONGTYPE)",
  broken: "a key holds what this policy did not write",
  denied: "the Redis user may not do what a decision needs, or is not logged in (NOPERM)",
  server: "the server is Redis 6.2; Redis 7.0 or Valkey 7.2 or newer is needed",
  overload: "too many requests wait for the first connection to Redis",
  unknown: "the server answered an error (no code)",
};
const CLASSES = Object.keys(MESSAGES) as StoreErrorClass[];

/** Of these a store knows without asking. */
const NOT_CONNECTED: readonly StoreErrorClass[] = ["connection", "server"];

/**
 * A store to give as `store` in a test. It decides in memory as Redis would, at the time of its clock.
 *
 * @throws ConfigError for an option that cannot work
 */
export function testStore<C extends Clock = VirtualClock>(options: TestStoreOptions<C> = {}): TestStore<C> {
  onlyKnown("testStore", options, ["clock", "maxEntries"]);
  const { clock: given = virtualClock(), maxEntries } = options;
  const clock = clockOf("testStore.clock", given) as C;
  const nowUs = () => Math.round(clock.now() * 1000);
  const memory = memoryStore({
    nowUs,
    ...(maxEntries !== undefined && { maxEntries }),
  });
  const listeners: (() => void)[] = [];
  const calls: Recorded[] = [];
  let trouble: Trouble = WELL;
  /** What hangs. */
  let held: (() => void)[] = [];
  /** Of answers that are on their way. */
  const timers = new Set<NodeJS.Timeout>();

  function record(kind: StoreCall["kind"], keys: readonly string[], units: readonly number[]): Recorded {
    const call: Recorded = { kind, keys, units, at: clock.now(), answer: undefined };
    calls.push(call);
    return call;
  }

  function decide(check: Check, done: Done): void {
    const call = record(check.peek ? "look" : "decide", check.keys, check.costs);
    const tell: Done = (error, outcome) => {
      call.answer = error?.reason ?? (outcome?.granted ? "granted" : "refused");
      done(error, outcome);
    };
    if (trouble.kind === "fail") return failDecision(trouble, check.peek, tell);
    if (trouble.kind === "hang") return void held.push(() => decideLate(check, tell));
    memory.decide([check], [(error, outcome) => answer(() => tell(error, outcome))]);
  }

  function failDecision(failing: Failing, isLook: boolean, tell: Done): void {
    tell(errorOf(failing.reason), undefined);
    if (isLook) return;
    failing.left--;
    if (failing.left === 0 && trouble === failing) heal();
  }

  /** A script that begins after the deadline does nothing. */
  function decideLate(check: Check, tell: Done): void {
    if (check.deadline <= performance.now()) tell(errorOf("late"), undefined);
    else memory.decide([check], [tell]);
  }

  function change(call: Recorded, carryOut: (done: Changed) => void, done: Changed): void {
    const tell: Changed = (error, changed) => {
      call.answer = error?.reason ?? "done";
      done(error, changed);
    };
    if (trouble.kind === "fail" && trouble.left === Infinity) return tell(errorOf(trouble.reason), 0);
    if (trouble.kind === "hang") return void held.push(() => carryOut(tell));
    carryOut((error, changed) => answer(() => tell(error, changed)));
  }

  function answer(tell: () => void): void {
    if (trouble.kind !== "slow") return tell();
    const timer = setTimeout(() => {
      timers.delete(timer);
      tell();
    }, trouble.ms);
    timers.add(timer);
  }

  function heal(): void {
    trouble = WELL;
    const waiting = held;
    held = [];
    for (const goOn of waiting) goOn();
    for (const listener of listeners) listener();
  }

  async function drop(): Promise<void> {
    held = [];
    for (const timer of timers) clearTimeout(timer);
    timers.clear();
    await memory.close();
  }

  return {
    clock,
    nowUs,
    calls,
    get size() {
      return memory.size;
    },
    fail(reason) {
      trouble = { kind: "fail", reason: oneOf("store.fail", reason, CLASSES), left: Infinity };
    },
    failNext(times, reason = "connection") {
      const left = wholeNumber("store.failNext", times, 1, 1_000_000);
      trouble = { kind: "fail", reason: oneOf("store.failNext", reason, CLASSES), left };
    },
    hang() {
      trouble = { kind: "hang" };
    },
    slow(by) {
      trouble = { kind: "slow", ms: duration("store.slow", by) };
    },
    heal,
    clear() {
      void drop();
      heal(); // Its look is the last that is known of what was.
      calls.length = 0;
    },
    isConnected: () => trouble.kind !== "fail" || !NOT_CONNECTED.includes(trouble.reason),
    onConnected: (listener) => void listeners.push(listener),
    onOverflow: (listener) => memory.onOverflow?.(listener),
    decide: (batch, done) => batch.forEach((check, i) => decide(check, done[i]!)),
    settle(moves, done) {
      const kind = moves.every(({ kind }) => kind === "renew") ? "renew" : "settle";
      const call = record(
        kind,
        moves.map(({ key }) => key),
        moves.map(unitsOf),
      );
      change(call, (done) => memory.settle(moves, done), done);
    },
    forget: (keys, done) => change(record("forget", keys, []), (done) => memory.forget(keys, done), done),
    block: (key, ms, reason, done) =>
      change(record("block", [key], []), (done) => memory.block(key, ms, reason, done), done),
    close: drop,
  };
}

/** What came back counts below 0. */
const unitsOf = ({ kind, units }: Move): number => (kind === "credit" ? -units : units);

const errorOf = (reason: StoreErrorClass) => new StoreError(reason, MESSAGES[reason]);
