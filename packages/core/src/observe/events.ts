import { channel } from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { StoreErrorClass } from "../errors.ts";
import type { Degraded } from "../decision.ts";

/** A setting or a request that is not as it should be. Each code is given once per limiter, but for the faults of functions. */
export type WarningCode =
  /** Identities come from a header that nobody verifies, and no policy counts by address. Once. */
  | "TIDEGATE_UNVERIFIED_KEY"
  /** A request had no address to count by. Once. */
  | "TIDEGATE_NO_ADDRESS"
  /** A request came with `X-Forwarded-For`, and no proxy is believed: its peer was counted. Once. */
  | "TIDEGATE_FORWARDED_UNTRUSTED"
  /** Everybody is believed about whom they forward for: clients choose their address. Once. */
  | "TIDEGATE_TRUSTS_EVERYBODY"
  /** Production, and every process counts for itself. Once. */
  | "TIDEGATE_NO_SHARED_STORE"
  /** The store cannot be asked, and the failure rule answers. Given as a process warning only, when nobody listens. Once. */
  | "TIDEGATE_STORE_AWAY"
  /** This process's memory is full of who is refused: newcomers are counted together. Once. */
  | "TIDEGATE_MEMORY_FULL"
  /** A request met one limiter twice, and was counted once. Once, and to the debug log when nobody listens. */
  | "TIDEGATE_COUNTED_ONCE"
  /** A response had begun before its request was decided: it carries no fields. Once, and to the debug log when nobody listens. */
  | "TIDEGATE_HEADERS_SENT"
  /** An identity function threw, was too slow or gave nothing usable: the peer's address was counted. */
  | "TIDEGATE_IDENTITY_FAULT"
  /** A cost function threw, was too slow or gave no whole number: the cost was 1. */
  | "TIDEGATE_COST_FAULT"
  /** An idempotency function threw, was too slow or gave no text: the request was charged as any other. */
  | "TIDEGATE_IDEMPOTENCY_FAULT"
  /** A settle function threw or gave nothing usable: the charge was kept. */
  | "TIDEGATE_SETTLE_FAULT"
  /** A policy function threw, was too slow or gave no policy: the static one was used. */
  | "TIDEGATE_POLICY_FAULT"
  /** A skip function threw or was too slow: the request was counted. */
  | "TIDEGATE_SKIP_FAULT"
  /** An `onLimited` function threw or gave no answer: the usual one was sent. */
  | "TIDEGATE_LIMITED_FAULT"
  /** A function for partition keys threw or gave no bytes: the fields carry no `pk`. */
  | "TIDEGATE_PARTITION_FAULT"
  /** `onEvent` itself threw. Given as a process warning only. */
  | "TIDEGATE_EVENT_FAULT";

/** What the limiter has to tell besides decisions. Only an audit names anybody, as keys do. */
export type TidegateEvent =
  /** The failure rule answered one decision. */
  | { readonly type: "degraded"; readonly rule: Degraded["rule"]; readonly reason: StoreErrorClass }
  /** The store stopped answering: once, until it recovers. `server`: which one of a Cluster, by its address. */
  | {
      readonly type: "storeError";
      readonly reason: StoreErrorClass;
      readonly message: string;
      readonly server?: string;
    }
  /** The store, or that server, answers again. */
  | { readonly type: "recovered"; readonly afterMs: number; readonly server?: string }
  /** Somebody did something by hand. `reason`: of a block; of a reset, the policies forgotten. */
  | {
      readonly type: "audit";
      readonly action: "reset" | "block" | "unblock";
      readonly identity: string;
      readonly reason: string;
    }
  | { readonly type: "warning"; readonly code: WarningCode; readonly message: string };

/** Told of what happens besides decisions. What it throws is a warning of the process, and nothing else. */
export type EventListener = (event: TidegateEvent) => void;

/** For whoever watches a whole process. What a subscriber throws is raised by Node as uncaught: it must not throw. */
const channels = {
  degraded: channel("tidegate:degraded"),
  storeError: channel("tidegate:storeError"),
  recovered: channel("tidegate:recovered"),
  audit: channel("tidegate:audit"),
  warning: channel("tidegate:warning"),
};

const debug = debuglog("tidegate");

/** Hands events to the user's listener, and never lets it break a request. */
export class Events {
  readonly #listener: EventListener | undefined;
  readonly #prefix: string;
  readonly #given = new Set<WarningCode>();
  #isOver = false;

  /** @param prefix of the limiter's keys, for whoever listens to the channels of a whole process */
  constructor(listener: EventListener | undefined, prefix: string) {
    this.#listener = listener;
    this.#prefix = prefix;
  }

  emit(event: TidegateEvent): void {
    this.#publish(event);
    try {
      const returned: unknown = this.#listener?.(event);
      if (returned instanceof Promise) returned.catch((error: unknown) => this.#listenerFailed(error));
    } catch (error) {
      this.#listenerFailed(error);
    }
  }

  /** One of the warnings that say the same each time: given once, and to the process when nobody listens. */
  warnOnce(code: WarningCode, message: string): void {
    if (this.#given.has(code)) return;
    this.#given.add(code);
    this.emit({ type: "warning", code, message });
    if (!this.#listener) process.emitWarning(message, { type: "TidegateWarning", code });
  }

  /** What fails from now on fails because the limiter is closed. */
  end(): void {
    this.#isOver = true;
  }

  /** What events tell anyway: once, and to the process alone, when nobody listens to them. */
  unheard(code: WarningCode, message: string): void {
    if (this.#listener || this.#isOver || this.#given.has(code)) return;
    this.#given.add(code);
    process.emitWarning(message, { type: "TidegateWarning", code });
  }

  /** What may be as it should, and is of use to whoever looks for a reason: once, and to `NODE_DEBUG=tidegate` when nobody listens. */
  note(code: WarningCode, message: string): void {
    if (this.#given.has(code)) return;
    this.#given.add(code);
    this.emit({ type: "warning", code, message });
    if (!this.#listener) debug("%s: %s", code, message);
  }

  /** A fault of a user's function: an event each time, and to the process once when nobody listens. */
  fault(code: WarningCode, message: string): void {
    if (this.#listener || this.#given.has(code)) this.emit({ type: "warning", code, message });
    else this.warnOnce(code, message);
  }

  #publish(event: TidegateEvent): void {
    const channel = channels[event.type];
    if (channel.hasSubscribers) channel.publish({ prefix: this.#prefix, ...event });
  }

  #listenerFailed(error: unknown): void {
    if (this.#given.has("TIDEGATE_EVENT_FAULT")) return;
    this.#given.add("TIDEGATE_EVENT_FAULT");
    const message = `onEvent threw: ${error instanceof Error ? error.message : String(error)}`;
    process.emitWarning(message, { type: "TidegateWarning", code: "TIDEGATE_EVENT_FAULT" });
  }
}
