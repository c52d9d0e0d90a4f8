import type { ScriptClient } from "../clients/client.ts";
import { StoreError } from "../errors.ts";
import { uniqueId } from "../ids.ts";
import { tellLate } from "../observe/channels.ts";
import { decide as shippedDecide } from "../scripts/decide.ts";
import { manage as shippedManage } from "../scripts/manage.ts";
import { settle as shippedSettle } from "../scripts/settle.ts";
import { classify } from "./classify.ts";
import {
  type Answer,
  answersOf,
  BOUNDS,
  type Command,
  encodeBlock,
  encodeChecks,
  encodeForget,
  encodeMoves,
  isLate,
  serverTime,
} from "./protocol.ts";
import { runner, type Script } from "./scripts.ts";
import { ServerClock } from "./server-clock.ts";
import type { Changed, Check, Done, Move, Store } from "./store.ts";

export interface RedisStoreOptions {
  /** Scripts to run instead of those we ship. */
  scripts?: { readonly decide?: Script; readonly settle?: Script; readonly manage?: Script };
}

/** A server that takes no writes is left for another at most so often, milliseconds. */
const RENEW_MS = 1000;

/** How much longer than its deadline a client may send a command again, milliseconds. What runs later than that charges nothing. */
const SETTLED_MS = 2000;

/** Batches that may wait for the first connection. More would only be answered late. */
const MOST_WAITING = 1000;

const SHIPPED = { decide: shippedDecide, settle: shippedSettle, manage: shippedManage };

/** Decides and settles by scripts in Redis or Valkey. */
export function redisStore(client: ScriptClient, options: RedisStoreOptions = {}): Store {
  const scripts = { ...SHIPPED, ...options.scripts };
  const clock = new ServerClock();
  const waiting: (() => void)[] = [];
  const run = {
    decide: runner(client, scripts.decide),
    settle: runner(client, scripts.settle),
    manage: runner(client, scripts.manage),
  };
  let unfit: StoreError | undefined;
  let renewedAt = -Infinity;

  client.onState(() => {
    if (client.state === "ready") prepare();
    else clock.forget();
    for (const go of waiting.splice(0)) go();
  });

  /** On every new connection, ahead of all decisions: it may lead to another server. */
  function prepare(): void {
    unfit = undefined;
    client.send("info", ["server"], (_, reply) => {
      unfit = tooOld(reply);
    });
    // Where this is not permitted, the first decision brings the script along.
    client.send("script", ["LOAD", scripts.decide.text], () => {});
  }

  /** Goes on when there is a connection; else fails, at once or, before the first one, when that fails. */
  function whenReady(go: () => void, fail: (error: StoreError) => void): void {
    if (client.state === "connecting") {
      if (waiting.length < MOST_WAITING) waiting.push(() => whenReady(go, fail));
      else fail(new StoreError("overload", "too many requests wait for the first connection to Redis"));
    } else if (unfit) fail(unfit);
    else if (client.state === "ready") go();
    else fail(notConnected());
  }

  function notConnected(): StoreError {
    const why = client.trouble === undefined ? undefined : classify(client.trouble);
    return why?.reason === "denied" ? why : new StoreError("connection", "there is no connection to Redis");
  }

  function decide(batch: readonly Check[], done: readonly Done[]): void {
    whenReady(
      () => {
        const sent = client.resends ? batch.map(recognisable) : batch;
        ask(sent, done, clock.latest(earliest(batch)), clock.now(), true);
      },
      (error) => failAll(done, error),
    );
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
    run.decide(encodeChecks(batch, { deadline, now }), (error, reply) => {
      if (error) return failAll(done, errorOf(error));
      // With time left it was the clock that stepped, not the answer that was slow.
      const timeLeft = earliest(batch) > performance.now();
      if (isLate(reply) && again) {
        clock.forget();
        if (timeLeft) return ask(batch, done, undefined, serverTime(reply) / 1000, false);
      } else if (Array.isArray(reply)) clock.learn(sent, performance.now(), serverTime(reply));

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
    const nonce = client.resends && moves[0] ? nonceBeside(moves[0].key, SETTLED_MS) : undefined;
    change("settle", encodeMoves(moves, now, nonce), (error, moved, reply) => {
      const missed = again && reply ? moves.filter((_, i) => reply[i + 2] === BOUNDS) : [];
      if (error || !reply || missed.length === 0) return done(error, moved);
      settle(missed, serverTime(reply) / 1000, false, (error, more) => done(error, moved + more));
    });
  }

  type ChangedAs = (error: StoreError | undefined, changed: number, reply?: number[]) => void;

  function change(script: "settle" | "manage", command: Command, done: ChangedAs): void {
    const fail = (error: StoreError) => done(error, 0);
    whenReady(() => {
      run[script](command, (error, reply) => {
        if (error) return fail(errorOf(error));
        const changes = (reply as number[]).slice(2);
        done(
          undefined,
          changes.reduce((sum, one) => sum + Math.max(0, one), 0),
          reply as number[],
        );
      });
    }, fail);
  }

  return {
    batches: true,
    decide,
    settle: (moves, done) => settle(moves, clock.now(), true, done),
    forget: (keys, done) => change("manage", encodeForget(keys), done),
    block: (key, ms, reason, done) => change("manage", encodeBlock(key, ms, reason), done),
    close: () => client.close(),
  };
}

/** Behind the same brace as the keys it stands beside: of the same slot. */
const nonceBeside = (key: string, keepMs: number) => ({
  key: `${key.slice(0, key.indexOf("}") + 1)}::n:${uniqueId()}`,
  keepMs,
});

/** Nonces of ours: a client's own are of its requests, and their replays are told as such. */
const OURS = new WeakSet<object>();

/** A check that is charged once, should the client send it twice. */
function recognisable(check: Check): Check {
  if (check.nonce || check.peek) return check;
  const nonce = nonceBeside(check.keys[0]!, Math.ceil(check.deadline - performance.now()) + SETTLED_MS);
  OURS.add(nonce);
  return { ...check, nonce };
}

/** The answer to the second copy of a command is the first one's, and nothing else than that. */
function ownAnswer({ nonce, keys }: Check, answer: NonNullable<Answer>): NonNullable<Answer> {
  const [error, outcome] = answer;
  if (!outcome?.replayed || !nonce || !OURS.has(nonce)) return answer;
  tellLate(keys[0]!.slice(0, keys[0]!.indexOf(":{")), "double");
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

/** The scripts need Redis 7.0; Valkey calls itself Redis 7.2.4. A server that tells nothing is taken to be fit. */
function tooOld(info: unknown): StoreError | undefined {
  const version = /^redis_version:(\d+)\.(\S+)/m.exec(String(info));
  if (!version || Number(version[1]) >= 7) return undefined;
  const found = `the server is Redis ${version[1]}.${version[2]}`;
  return new StoreError("server", `${found}; Redis 7.0 or Valkey 7.2 or newer is needed`);
}
