import type { TidegateEvent, WarningCode } from "../observe/events.ts";

/** What a configuration says of itself, or of proxies, is for whoever mounts it, and not for whoever simulates it. */
const HEARD: readonly WarningCode[] = [
  "TIDEGATE_MEMORY_FULL",
  "TIDEGATE_IDENTITY_FAULT",
  "TIDEGATE_COST_FAULT",
  "TIDEGATE_IDEMPOTENCY_FAULT",
  "TIDEGATE_SETTLE_FAULT",
  "TIDEGATE_POLICY_FAULT",
  "TIDEGATE_SKIP_FAULT",
];

/** What a limiter said while it was simulated, each text once and how often. */
export class Warnings {
  readonly #said = new Map<string, number>();

  hear(event: TidegateEvent): void {
    if (event.type !== "warning" || !HEARD.includes(event.code)) return;
    const text = `${event.code}: ${event.message}`;
    this.#said.set(text, (this.#said.get(text) ?? 0) + 1);
  }

  get texts(): string[] {
    return [...this.#said].map(([text, times]) => (times > 1 ? `${text} (${times} times).` : `${text}.`));
  }
}
