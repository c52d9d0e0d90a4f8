/**
 * One thing that is measured: a way to put a question to Redis.
 *
 * @typedef {object} Subject
 * @property {string} name what `--only` and the tables say; `<what>:<how>` for a variant
 * @property {(url: string) => Promise<Session>} open
 * @property {RegExp} answer what the last answers on the wire look like when all went as it should
 * @property {number} [decisions] decisions per step: 1, or the size of a batch
 * @property {number} [commands] commands per step, 1 by default
 * @property {number} [spend] steps per key that use up what it has, before refusals are measured
 * @property {boolean} [baseline] always measured, so that there are ratios
 *
 * @typedef {object} Session
 * @property {(step: number) => Promise<unknown>} decide one step; each number asks about keys of its own
 * @property {() => void | Promise<void>} close
 */

/** Keys that a recording goes over: as many decisions as keys. */
export const KEYS = 1024;

/** @param {number} i */
export const identityOf = (i) => `user:u${String(i).padStart(9, "0")}`;

/** @param {Subject} subject */
export const decisionsOf = ({ decisions = 1 }) => decisions;
