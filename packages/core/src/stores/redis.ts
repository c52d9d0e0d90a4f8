import type { ScriptClient } from "../clients/client.ts";
import { StoreError } from "../errors.ts";
import { decide as shipped } from "../scripts/decide.ts";
import { classify, isNoScript } from "./classify.ts";
import { deliver, encode, isLate, serverTime } from "./protocol.ts";
import { ServerClock } from "./server-clock.ts";
import type { Check, Done, Store } from "./store.ts";

export interface RedisStoreOptions {
  /** The script to run; the one we ship by default. */
  script?: { readonly sha: string; readonly text: string };
}

/** Batches that may wait for the first connection. More would only be answered late. */
const MOST_WAITING = 1000;

/** Runs one script in Redis or Valkey per batch: EVALSHA, and the whole text only when the server does not know it. */
export function redisStore(client: ScriptClient, { script = shipped }: RedisStoreOptions = {}): Store {
  const clock = new ServerClock();
  const waiting: (() => void)[] = [];
  let healing = false;
  let unfit: StoreError | undefined;

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
    client.send("script", ["LOAD", script.text], () => {});
  }

  function decide(batch: readonly Check[], done: readonly Done[]): void {
    if (client.state === "connecting") {
      if (waiting.length < MOST_WAITING) waiting.push(() => decide(batch, done));
      else
        failAll(done, new StoreError("overload", "too many requests wait for the first connection to Redis"));
      return;
    }
    if (unfit) return failAll(done, unfit);
    if (client.state !== "ready") return failAll(done, notConnected());
    run("evalsha", batch, done, 2, true);
  }

  function notConnected(): StoreError {
    const why = client.trouble === undefined ? undefined : classify(client.trouble);
    return why?.reason === "denied" ? why : new StoreError("connection", "there is no connection to Redis");
  }

  /** @param tries how often NOSCRIPT may still be answered by another command. @param timed whether the server is told the deadline */
  function run(
    command: "evalsha" | "eval",
    batch: readonly Check[],
    done: readonly Done[],
    tries: number,
    timed: boolean,
  ): void {
    const { keys, args } = encode(batch, timed ? clock.latest(earliest(batch)) : undefined);
    const sent = performance.now();
    client.send(
      command,
      [command === "eval" ? script.text : script.sha, keys.length, ...keys, ...args],
      (error, reply) => {
        if (command === "eval") healing = false;
        if (error) {
          if (isNoScript(error) && tries > 0) heal(batch, done, tries - 1, timed);
          else failAll(done, unfit ?? classify(error));
        } else if (isLate(reply) && timed) {
          clock.forget();
          // Nothing was charged. With time left it was the clock that stepped, not the answer that was slow.
          if (earliest(batch) > performance.now()) run("evalsha", batch, done, tries, false);
          else deliver(batch, done, reply);
        } else {
          if (Array.isArray(reply)) clock.learn(sent, performance.now(), serverTime(reply));
          deliver(batch, done, reply);
        }
      },
    );
  }

  /**
   * The server has lost the script. One batch carries the whole text; those behind it need not,
   * since a connection keeps order.
   */
  function heal(batch: readonly Check[], done: readonly Done[], tries: number, timed: boolean): void {
    if (healing && tries > 0) return run("evalsha", batch, done, tries, timed);
    healing = true;
    run("eval", batch, done, tries, timed);
  }

  return { decide, close: () => client.close() };
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
  return new StoreError(
    "server",
    `the server is Redis ${version[1]}.${version[2]}; Redis 7.0 or Valkey 7.2 or newer is needed`,
  );
}
