import type { Decision } from "./decision.ts";
import type { Engine } from "./engine.ts";
import type { Question } from "./question.ts";
import { type RequestErrorCode, TidegateError } from "./errors.ts";
import { identityText } from "./identity/identity.ts";
import type { DecideRequest } from "./request.ts";

/** How long {@link Limiter.wait} may take. */
export interface WaitOptions {
  /** Ends the waiting; the promise rejects with its reason. */
  signal?: AbortSignal;
  /** The longest to wait, milliseconds. Given up at once when the wait is known to be longer. No bound by default. */
  maxWaitMs?: number;
}

/** How often to look whether a slot in flight came free elsewhere: its end is not known beforehand. */
const LOOK_AGAIN_MS = 1000;

/** Longer than this `setTimeout` cannot sleep. */
const LONGEST_SLEEP_MS = 2 ** 31 - 1;

/**
 * Waiting for admission. Those who wait for the same identities and policies stand in one line: only
 * the first asks, so that nobody is overtaken and nobody asks in vain.
 */
export function createWaiting(
  engine: Engine,
  questionOf: (request: DecideRequest) => Question,
  ask: (question: Question) => Promise<Decision>,
): (request: DecideRequest & WaitOptions) => Promise<Decision> {
  /** The last in each line: fulfilled when it and all before it are through. */
  const lines = new Map<string, Promise<unknown>>();
  const woken = new Set<() => void>();
  let releases = 0;
  engine.onRelease(() => {
    releases++;
    for (const wake of woken) wake();
  });

  async function wait(request: DecideRequest & WaitOptions): Promise<Decision> {
    const { signal, maxWaitMs = Infinity } = request;
    signal?.throwIfAborted();
    const { parts } = questionOf(request);
    const line = parts.map(({ name, identity }) => `${name} ${identityText(identity)}`).join("\n");
    const end = performance.now() + maxWaitMs;
    const before = lines.get(line);
    const turn = before
      ? until(before, end, signal).then(() => admission(request, end, signal))
      : admission(request, end, signal);
    const through = Promise.allSettled([before, turn]);
    lines.set(line, through);
    void through.then(() => {
      if (lines.get(line) === through) lines.delete(line);
    });
    return turn;
  }

  async function admission(
    request: DecideRequest,
    end: number,
    signal: AbortSignal | undefined,
  ): Promise<Decision> {
    for (;;) {
      signal?.throwIfAborted();
      if (performance.now() > end) throw waitError("TIDEGATE_WAIT_TIMEOUT", "the time to wait is over");
      const before = releases;
      const decision = await ask(questionOf(request));
      if (decision.allowed) {
        if (!signal?.aborted) return decision;
        // Nobody is there any more to use what was just granted.
        engine.settle(decision, "giveBack", () => {});
        throw signal.reason;
      }
      const ms = pause(decision, end);
      const early = decision.retryAfterMs === null;
      // A slot that was given back while the refusal was on its way wakes nobody later.
      if (!early || releases === before) await sleep(ms, early, signal);
    }
  }

  /** How long to sleep before asking again. */
  function pause({ degraded, retryAfterMs, verdicts, blocked }: Decision, end: number): number {
    if (degraded && degraded.rule !== "local")
      throw waitError("TIDEGATE_WAIT_DEGRADED", "the store cannot be asked, and the rule is closed");
    const left = end - performance.now();
    if (retryAfterMs === null) {
      const inFlight = verdicts.some(({ reason }) => reason === "concurrency");
      const hopeless = blocked || verdicts.some(({ reason, shadow }) => reason === "never" && !shadow);
      if (hopeless || !inFlight) throw waitError("TIDEGATE_WAIT_NEVER", "no wait would let this request in");
      return Math.min(LOOK_AGAIN_MS, Math.max(0, left));
    }
    if (retryAfterMs > left) {
      throw waitError(
        "TIDEGATE_WAIT_TIMEOUT",
        `it would take ${retryAfterMs} ms, which is longer than allowed`,
      );
    }
    return retryAfterMs;
  }

  /** @param early whether a slot given back in this process ends the sleep */
  async function sleep(ms: number, early: boolean, signal: AbortSignal | undefined): Promise<void> {
    let wake = () => {};
    const released = new Promise<void>((resolve) => (wake = resolve));
    if (early) woken.add(wake);
    await withTimer(Math.min(ms, LONGEST_SLEEP_MS), signal, (over) => Promise.race([over, released])).finally(
      () => woken.delete(wake),
    );
  }

  return wait;
}

/** Stands in line. Rejects when the time is over or the signal comes before those in front are through. */
function until(before: Promise<unknown>, end: number, signal: AbortSignal | undefined): Promise<unknown> {
  return withTimer(end - performance.now(), signal, (over) => {
    const late = over.then(() => {
      throw waitError("TIDEGATE_WAIT_TIMEOUT", "the time to wait is over");
    });
    return Promise.race([before, late]);
  });
}

/** Runs something beside a timer that leaves nothing behind. Rejects with the signal's reason when that comes first. */
function withTimer<T>(
  ms: number,
  signal: AbortSignal | undefined,
  run: (over: Promise<void>) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    // What is longer than a timer can be is not timed: something else ends it, or nothing does.
    const over = new Promise<void>((ring) => {
      if (ms <= LONGEST_SLEEP_MS) timer = setTimeout(ring, Math.max(0, ms));
    });
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", abort, { once: true });
    run(over)
      .then(resolve, reject)
      .finally(() => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      });
  });
}

const waitError = (code: RequestErrorCode, message: string) => new TidegateError(code, `wait: ${message}.`);
