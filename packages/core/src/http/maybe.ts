import type { MaybePromise } from "../identity/identity.ts";
import { isThenable } from "../identity/sources.ts";

/** Goes on at once where there is nothing to wait for. */
export function whenKnown<T>(value: MaybePromise<T>, go: (value: T) => void): void {
  if (isThenable(value)) void value.then(go);
  else go(value);
}

/** All values, at once where there is nothing to wait for. */
export function all<T extends readonly unknown[]>(values: {
  readonly [K in keyof T]: MaybePromise<T[K]>;
}): MaybePromise<T> {
  const given = values as readonly MaybePromise<unknown>[];
  return (given.some(isThenable) ? Promise.all(given) : given) as MaybePromise<T>;
}
