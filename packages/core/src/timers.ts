import { AsyncResource } from "node:async_hooks";

/**
 * A timer made within a request would keep all that the request's AsyncLocalStorage holds for as long
 * as it runs. Ours outlive requests, so they are made in a context of their own.
 */
const outside = new AsyncResource("tidegate");

/** Repeats until it is cleared, and holds no process. */
export const every = (ms: number, act: () => void): NodeJS.Timeout =>
  outside.runInAsyncScope(() => setInterval(act, ms).unref());
