/** A policy of every algorithm, with numbers that leave a test on the real clock all the time it needs. */
import {
  concurrency,
  fixedWindow,
  gcra,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "@tidegate/core";

const makers = { concurrency, fixedWindow, gcra, slidingLog, slidingWindow, tokenBucket };

/** As a worker process takes it. */
export type Recipe = [maker: keyof typeof makers, options: Record<string, unknown>];

/** A zone in which it is not near midnight. */
export function calmZone(): string {
  const hour = new Date().getUTCHours();
  return hour >= 6 && hour < 18 ? "UTC" : "Etc/GMT+12";
}

/** How to make a policy of each algorithm, by what stands in test names. */
export const recipes: Record<string, (limit: number) => Recipe> = {
  tb: (capacity) => ["tokenBucket", { capacity, refillPerSecond: 0.001 }],
  gc: (limit) => ["gcra", { limit, window: limit * 1_000_000 }],
  sw: (limit) => ["slidingWindow", { limit, window: "30m" }],
  sl: (limit) => ["slidingLog", { limit, window: "30m" }],
  "fw first": (limit) => ["fixedWindow", { limit, window: "30m" }],
  "fw clock": (limit) => ["fixedWindow", { limit, window: "300d", align: "clock" }],
  "fw day": (limit) => ["fixedWindow", { limit, window: "day", timeZone: calmZone() }],
  "fw month": (limit) => ["fixedWindow", { limit, window: "month", timeZone: calmZone() }],
  cc: (limit) => ["concurrency", { limit, leaseMs: 600_000 }],
};

export const names = Object.keys(recipes);

/** All but those that count what is in flight. */
export const rates = names.filter((name) => name !== "cc");

export const made = ([maker, options]: Recipe): Policy => makers[maker](options as never);

export const policyOf = (name: string, limit: number): Policy => made(recipes[name]!(limit));
