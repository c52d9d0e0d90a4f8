/** How long a sample of the server's clock is trusted, milliseconds. */
const TRUSTED_MS = 30_000;

interface Sample {
  readonly at: number;
  readonly roundTrip: number;
  /** Server's time less ours at the middle of the round trip, milliseconds. */
  readonly offset: number;
}

/**
 * What the server's clock says, learned from replies: the sample with the shortest round trip of
 * the last half minute. Ours is `performance.now()`, so a changed system time changes nothing.
 */
export class ServerClock {
  #best: Sample | undefined;

  /** @param sent,received milliseconds of `performance.now()`. @param server µs */
  learn(sent: number, received: number, server: number): void {
    const roundTrip = received - sent;
    const best = this.#best;
    if (best && roundTrip > best.roundTrip && received - best.at < TRUSTED_MS) return;
    this.#best = { at: received, roundTrip, offset: server / 1000 - (sent + received) / 2 };
  }

  /** The server stepped its clock, or is another. */
  forget(): void {
    this.#best = undefined;
  }

  /** The server's time, milliseconds since 1970; this machine's while nothing is known. */
  now(): number {
    return this.#best ? performance.now() + this.#best.offset : Date.now();
  }

  /**
   * The latest server time, whole µs, at which a script may still run for its answer to be here by
   * `deadline` (`performance.now()`); `undefined` while nothing is known.
   */
  latest(deadline: number): number | undefined {
    const best = this.#best;
    return best && Math.floor((deadline + best.offset - best.roundTrip / 2) * 1000);
  }
}
