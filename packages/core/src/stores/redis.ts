import type { ScriptClient } from "../clients/client.ts";
import { ConfigError, StoreError } from "../errors.ts";
import { onlyKnown } from "../options.ts";
import { headOf } from "../identity/key.ts";
import { uniqueId } from "../ids.ts";
import { tellLate } from "../observe/channels.ts";
import { decide as shippedDecide } from "../scripts/decide.ts";
import { manage as shippedManage } from "../scripts/manage.ts";
import { settle as shippedSettle } from "../scripts/settle.ts";
import { classify, notConnected } from "./classify.ts";
import {
  type Answer,
  answersOf,
  BOUNDS,
  type Command,
  encodeBlock,
  encodeChecks,
  encodeForget,
  encodeMoves,
  encodeRevoke,
  isLate,
  numbersIn,
  serverTime,
  strangeReply,
} from "./protocol.ts";
import { functionRunner, libraryOf, loadLibrary } from "./functions.ts";
import { runner, type Script } from "./scripts.ts";
import { ServerClock } from "./server-clock.ts";
import { timeIn, tooOld } from "./server-info.ts";
import type { Changed, Check, Done, Move, Nonce, Store } from "./store.ts";

/** What {@link redisStore} takes. */
export interface RedisStoreOptions {
  /** Scripts to run instead of those we ship. */
  scripts?: { readonly decide?: Script; readonly settle?: Script; readonly manage?: Script };
  /** Whether they run as scripts or as Redis Functions. `"scripts"` by default. */
  scripting?: Scripting;
}

/**
 * How Redis runs what decides:
 * - `scripts`: `EVALSHA`, and `EVAL` where the server has lost the text
 * - `functions`: `FCALL` of a library, which is loaded where it is missing
 */
export type Scripting = "scripts" | "functions";

/** A server that takes no writes is left for another at most so often, milliseconds. */
const RENEW_MS = 1000;

/** How much longer than a check's deadline its grant is known again, milliseconds. What runs after the deadline charges nothing. */
const DECIDED_MS = 2000;

/** How long a settlement is known again, milliseconds: it has no deadline, and ioredis tries for 73 s by default. */
const SETTLED_MS = 120_000;

/** What is on its way from one server to another is asked for again so soon, and no more with so little time left, milliseconds. */
const MOVING_MS = 10;
const MOVING_LEFT_MS = 30;

/** How long what has no deadline waits for a slot that is on its way, milliseconds. */
const SETTLED_WITHIN_MS = 2000;

/** Batches that may wait for the first connection. More would only be answered late. */
const MOST_WAITING = 1000;

const SHIPPED = { decide: shippedDecide, settle: shippedSettle, manage: shippedManage };

/**
 * Decides and settles by scripts in Redis or Valkey. For a client of one's own; a limiter makes this by itself of what it
 * is given as `redis`.
 *
 * @throws ConfigError when it is given something that is no ScriptClient
 */
export function redisStore(client: ScriptClient, options: RedisStoreOptions = {}): Store {
  if (typeof client?.onState !== "function") {
    const advice =
      "give a ScriptClient, such as ioredisClient(url); or give a URL or a client to the limiter as redis";
    throw new ConfigError("TIDEGATE_CLIENT_UNKNOWN", "redisStore", client, advice);
  }
  onlyKnown("redisStore", options, ["scripts", "scripting"]);
  const scripts = { ...SHIPPED, ...options.scripts };
  const clock = new ServerClock();
  const waiting: (() => void)[] = [];
  const library = options.scripting === "functions" ? libraryOf(scripts) : undefined;
  const runnerOf = (name: keyof typeof scripts) =>
    library ? functionRunner(client, library, name) : runner(client, scripts[name]);
  const run = { decide: runnerOf("decide"), settle: runnerOf("settle"), manage: runnerOf("manage") };
  let unfit: StoreError | undefined;
  /** Whether this connection's server has told what it is, and what time it is. */
  let introduced = false;
  let tell = () => {};
  let renewedAt = -Infinity;

  client.onState(connected);
  if (client.state === "ready") prepare();

  function connected(): void {
    introduced = false;
    clock.forget();
    if (client.state === "ready") prepare();
    goOn();
  }

  function goOn(): void {
    for (const go of waiting.splice(0)) go();
  }

  /** On every new connection, ahead of all decisions: it may lead to another server. */
  function prepare(): void {
    unfit = undefined;
    const sent = performance.now();
    client.send("info", ["server"], (_, reply) => {
      unfit = tooOld(reply);
      const now = timeIn(reply);
      if (now !== undefined) clock.learn(sent, performance.now(), now);
      introduced = true;
      goOn();
      tell();
    });
    if (library) return loadLibrary(client, library);
    // Where this is not permitted, the first decision brings the script along.
    client.send("script", ["LOAD", scripts.decide.text], () => {});
  }

  /** Goes on when there is a connection whose server is known; else fails, at once or when that is known to fail. */
  function whenReady(go: () => void, fail: (error: StoreError) => void): void {
    if (client.state === "connecting" || (client.state === "ready" && !introduced)) {
      if (waiting.length < MOST_WAITING) waiting.push(() => whenReady(go, fail));
      else fail(new StoreError("overload", "too many requests wait for the first connection to Redis"));
    } else if (unfit) fail(unfit);
    else if (client.state === "ready") go();
    else fail(whyNot());
  }

  function whyNot(): StoreError {
    const why = client.trouble === undefined ? undefined : classify(client.trouble);
    return why?.reason === "denied" ? why : notConnected(client.trouble);
  }

  function decide(batch: readonly Check[], done: readonly Done[]): void {
    whenReady(
      () => askInTime(batch, done),
      (error) => failAll(done, error),
    );
  }

  /** What waited for the connection beyond its deadline is not sent any more: nobody waits for the answer. */
  function askInTime(batch: readonly Check[], done: readonly Done[]): void {
    const now = performance.now();
    if (earliest(batch) <= now) {
      const inTime = batch.map(({ deadline }) => deadline > now);
      const gone = done.filter((_, i) => !inTime[i]);
      failAll(gone, new StoreError("timeout", "Redis could not be asked within the deadline"));
      batch = batch.filter((_, i) => inTime[i]);
      done = done.filter((_, i) => inTime[i]);
      if (batch.length === 0) return;
    }
    const sent = client.resends ? batch.map(recognisable) : batch;
    ask(sent, done, clock.latest(earliest(batch)), clock.now(), true);
  }

  /** What a client's error means; and a server that takes no writes is left for another. */
  function errorOf(error: unknown): StoreError {
    if (unfit) return unfit;
    const failure = classify(error);
    if (failure.reason === "readonly" && performance.now() - renewedAt > RENEW_MS) {
      renewedAt = performance.now();
      client.renew?.();
    }
    return failure;
  }

  /** @param again whether a reply that says nothing was done may still be answered by asking again */
  function ask(
    batch: readonly Check[],
    done: readonly Done[],
    deadline: number | undefined,
    now: number,
    again: boolean,
  ): void {
    const sent = performance.now();
    run.decide(encodeChecks(batch, { deadline, now }), (error, answer, elsewhere) => {
      if (error) {
        const failure = errorOf(error);
        const took = performance.now() - sent;
        const needed = Math.max(MOVING_LEFT_MS, 2 * took + MOVING_MS);
        if (failure.reason !== "moving" || earliest(batch) - performance.now() < needed)
          return failAll(done, failure);
        return void setTimeout(() => ask(batch, done, deadline, now, again), MOVING_MS);
      }
      const reply = numbersIn(answer);
      if (!reply) return failAll(done, strangeReply());
      // With time left it was the clock that stepped, not the answer that was slow.
      const timeLeft = earliest(batch) > performance.now();
      if (isLate(reply) && timeLeft && again) {
        clock.forget();
        // It told its time a moment ago: what is left counts from then.
        const until = serverTime(reply) + (earliest(batch) - performance.now()) * 1000;
        return ask(batch, done, Math.floor(until), serverTime(reply) / 1000, false);
      }
      // Another server's clock says nothing of this one's.
      if (!elsewhere) clock.learn(sent, performance.now(), serverTime(reply));

      const missed: number[] = [];
      answersOf(batch, reply).forEach((answer, i) => {
        if (answer) done[i]!(...ownAnswer(batch[i]!, answer));
        else missed.push(i);
      });
      if (missed.length === 0) return;
      const [checks, dones] = [missed.map((i) => batch[i]!), missed.map((i) => done[i]!)];
      if (again && timeLeft) ask(checks, dones, deadline, serverTime(reply) / 1000, false);
      else
        failAll(dones, new StoreError("unavailable", "the calendar window changed on the server meanwhile"));
    });
  }

  function settle(moves: readonly Move[], now: number, again: boolean, done: Changed): void {
    const nonce = client.resends && moves[0] ? ownNonce(moves[0].key, SETTLED_MS) : undefined;
    change("settle", encodeMoves(moves, now, nonce), (error, moved, reply) => {
      const missed = again && reply ? moves.filter((_, i) => reply[i + 2] === BOUNDS) : [];
      if (error || !reply || missed.length === 0) return done(error, moved);
      settle(missed, serverTime(reply) / 1000, false, (error, more) => done(error, moved + more));
    });
  }

  type ChangedAs = (error: StoreError | undefined, changed: number, reply?: readonly number[]) => void;

  function change(script: "settle" | "manage", command: Command, done: ChangedAs): void {
    const fail = (error: StoreError) => done(error, 0);
    const until = performance.now() + SETTLED_WITHIN_MS;
    const go = () =>
      run[script](command, (error, answer) => {
        if (error) {
          const failure = errorOf(error);
          if (failure.reason !== "moving" || performance.now() > until) return fail(failure);
          return void setTimeout(go, MOVING_MS);
        }
        const reply = numbersIn(answer);
        if (!reply) return fail(strangeReply());
        const changed = reply.slice(2).reduce((sum, one) => sum + Math.max(0, one), 0);
        done(undefined, changed, reply);
      });
    whenReady(go, fail);
  }

  return {
    batches: true,
    onConnected: (listener) => void (tell = listener),
    isConnected: () => client.state === "ready" && introduced && unfit === undefined,
    cork: (act) => (client.cork ? client.cork(act) : act()),
    decide,
    settle: (moves, done) => settle(moves, clock.now(), true, done),
    forget: (keys, done) => change("manage", encodeForget(keys), done),
    revoke: (nonces, done) => change("manage", encodeRevoke(nonces), done),
    block: (key, ms, reason, done) => change("manage", encodeBlock(key, ms, reason), done),
    close: () => client.close(),
  };
}

/** Behind the same brace as the keys it stands beside: of the same slot. */
const ownNonce = (key: string, keepMs: number): Nonce => ({
  key: `${headOf(key)}::n:${uniqueId()}`,
  keepMs,
  resent: true,
});

/** A check that is charged once, should the client send it twice. */
function recognisable(check: Check): Check {
  if (check.nonce || check.peek || check.costs.every((cost) => cost === 0)) return check;
  const keepMs = Math.ceil(check.deadline - performance.now()) + DECIDED_MS;
  return { ...check, nonce: ownNonce(check.keys[0]!, keepMs) };
}

/** The answer to the second copy of a command is the first one's, and nothing else than that. */
function ownAnswer({ nonce, keys, times = 1 }: Check, answer: NonNullable<Answer>): NonNullable<Answer> {
  const [error, outcome] = answer;
  if (!outcome?.replayed || !nonce?.resent) return answer;
  const prefix = keys[0]!.slice(0, keys[0]!.indexOf(":{"));
  for (let i = 0; i < times; i++) tellLate(prefix, "double");
  return [error, { ...outcome, replayed: false }];
}

function earliest(batch: readonly Check[]): number {
  let deadline = Infinity;
  for (const check of batch) if (check.deadline < deadline) deadline = check.deadline;
  return deadline;
}

function failAll(done: readonly Done[], error: StoreError): void {
  for (const each of done) each(error, undefined);
}
