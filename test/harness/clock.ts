/** Time as a test tells it, for the memory store and for the script in a real Redis alike. */
import { createHash } from "node:crypto";
import type { ScriptClient } from "@tidegate/core";
import { compose } from "../../lua/compose.js";

export interface FakeClock {
  /** Whole microseconds. Needs no `this`: `memoryStore({ nowUs: clock.now })`. */
  now: () => number;
  /** To a moment, milliseconds since 1970; fractions down to a microsecond. */
  set(ms: number): void;
  /** By so many milliseconds; fewer than 0 is a step back. */
  advance(ms: number): void;
}

/** 2026-11-29T00:00:00.250Z, µs: not at the beginning of any window. */
export const START_US = 1_795_910_400_250_000;

export function fakeClock(startUs: number = START_US): FakeClock {
  let now = startUs;
  return {
    now: () => now,
    set: (ms) => (now = Math.round(ms * 1000)),
    advance: (ms) => (now += Math.round(ms * 1000)),
  };
}

/** A script as it is shipped, but for its time. */
function clocked(entry: string) {
  const text = compose(entry, { "shared/time": new URL("./time.lua", import.meta.url) });
  return { sha: createHash("sha1").update(text).digest("hex"), text };
}

export const clockedScripts = {
  decide: clocked("decide"),
  settle: clocked("settle"),
  manage: clocked("manage"),
};

/**
 * The client, telling every run of {@link clockedScript} the time. A deadline is of real time, so
 * the script is told of none.
 */
export function clockedClient(client: ScriptClient, clock: FakeClock): ScriptClient {
  /** Calendar windows are sent as of what the server said last: on another day than the clock's they would be others. */
  const timed = (info: unknown): unknown =>
    typeof info === "string"
      ? info.replace(/^server_time_usec:\d+/m, `server_time_usec:${clock.now()}`)
      : info;

  return {
    get state() {
      return client.state;
    },
    get trouble() {
      return client.trouble;
    },
    onState: (listener) => client.onState(listener),
    send(command, args, done) {
      if (command === "info") return client.send(command, args, (error, reply) => done(error, timed(reply)));
      if (command !== "evalsha" && command !== "eval") return client.send(command, args, done);
      // A deadline is the one number of this size in its place.
      const place = 2 + Number(args[1]) + 1;
      const isTimed = typeof args[place] === "number" && args[place] > 1e14;
      client.send(command, [...(isTimed ? args.with(place, "") : args), clock.now()], done);
    },
    close: () => client.close(),
  };
}
