import { setTimeout as sleep } from "node:timers/promises";

/** Waits until something holds, and says so if it never does. */
export async function eventually(what: string, holds: () => unknown, withinMs = 5000): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(5);
  }
}
