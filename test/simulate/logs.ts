/** Logs for the tests of simulations, the same in every run. */
import type { PastRequest } from "@tidegate/core/simulate";
import { randomNumbers } from "../../bench/lib/traffic.js";
import { EPOCH_MS } from "../harness/pair.ts";

export interface LogShape {
  readonly seed: number;
  readonly requests: number;
  /** About how long the whole is, ms. */
  readonly spanMs: number;
  readonly clients?: number;
  readonly paths?: readonly string[];
  /** Longest duration, ms. */
  readonly durationMs?: number;
}

/** Requests of a few clients, the first of whom asks most; some come at the same moment, many in bursts. */
export function logOf({
  seed,
  requests,
  spanMs,
  clients = 5,
  paths = ["/"],
  durationMs,
}: LogShape): PastRequest[] {
  const random = randomNumbers(seed);
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!;
  let us = EPOCH_MS * 1000;
  return Array.from({ length: requests }, (): PastRequest => {
    const mean = (spanMs / requests) * 1000;
    const gap = random() < 0.15 ? 0 : random() < 0.5 ? random() * 0.2 : random() * 4;
    us += Math.round(gap * mean);
    const who = Math.floor(clients * random() ** 2);
    return {
      at: us / 1000,
      method: random() < 0.3 ? "POST" : "GET",
      url: pick(paths),
      address: `192.0.2.${who + 1}`,
      user: random() < 0.5 ? `u${who % 3}` : undefined,
      status: pick([200, 200, 204, 302, 401, 404, 500]),
      headers: { "x-key": `k${Math.floor(random() * 40)}` },
      durationMs: durationMs === undefined ? undefined : Math.round(random() ** 2 * durationMs * 1000) / 1000,
    };
  });
}
