/** Limiters on a real Redis and the real clock. */
import { type Config, createLimiter, type Limiter, type TidegateEvent } from "@tidegate/core";
import { eventually } from "./eventually.ts";
import { freshPrefix } from "./pair.ts";
import type { RedisServer } from "./redis.ts";

export interface Live {
  readonly limiter: Limiter;
  readonly prefix: string;
  readonly events: TidegateEvent[];
  /** Decides for `identity` so often at once, and counts who was let in. Throws when the store could not be asked. */
  readonly admitted: (times: number, identity?: string, cost?: number) => Promise<number>;
}

/** A limiter whose connection is ready. The deadline is generous: these tests are not about it. */
export async function live(server: RedisServer, config: Config): Promise<Live> {
  const events: TidegateEvent[] = [];
  const prefix = freshPrefix();
  const limiter = createLimiter({
    redis: server.url,
    prefix,
    timeoutMs: 5000,
    onEvent: (event) => events.push(event),
    ...config,
  });
  await eventually("the limiter reaches Redis", async () => {
    const { degraded } = await limiter.decide({ identity: "warm-up", cost: 0 });
    return !degraded;
  });
  return {
    limiter,
    prefix,
    events,
    async admitted(times, identity = "somebody", cost = 1) {
      const decisions = await Promise.all(
        Array.from({ length: times }, () => limiter.decide({ identity, cost })),
      );
      const failed = decisions.find(({ degraded }) => degraded);
      if (failed) throw new Error(`a decision was degraded: ${failed.degraded?.reason}`);
      return decisions.filter(({ allowed }) => allowed).length;
    },
  };
}

/** All keys under a prefix. */
export const keysUnder = (server: RedisServer, prefix: string): Promise<string[]> =>
  server.client.keys(`${prefix}:*`);

/** Calls of a command since the last `resetStats`, scripts' own included. */
export async function callsOf(server: RedisServer, command: string): Promise<number> {
  const stats = await server.client.info("commandstats");
  const line = stats.split("\r\n").find((text) => text.startsWith(`cmdstat_${command}:`));
  return Number(/calls=(\d+)/.exec(line ?? "")?.[1] ?? 0);
}

export const resetStats = (server: RedisServer): Promise<unknown> => server.client.config("RESETSTAT");
