/** Ways to keep a limiter busy. */

/** @typedef {import("../limiters/limiter.js").Opened} Opened */
/** @typedef {Omit<Opened, "close">} Asked */
/** @typedef {Record<import("../limiters/limiter.js").Verdict, number>} Counts */
/** @typedef {Counts & { ms: number, cpu: number }} Driven `ms`: the last answer included; `cpu`: of the process, µs */

/** Requests of a flood from outside come in portions, milliseconds apart. */
const PORTION_MS = 1;

/**
 * So many lanes, each asking again as soon as it is answered, until the time is over. What is
 * answered at once is asked again in the next turn of the event loop only: requests come in
 * through it.
 *
 * @param {Asked} limiter
 * @param {{ next: () => string, inFlight: number, ms?: number, isOver?: () => boolean }} load `next`: who asks
 * @returns {Promise<Driven>}
 */
export async function drive({ ask, read, failed = rethrow }, { next, inFlight, ms, isOver = after(ms) }) {
  /** @type {Counts} */
  const counts = { allowed: 0, refused: 0, degraded: 0 };
  const turns = turnsOf(inFlight);
  let over = false;

  // As answerOf does it, without a promise more.
  async function lane() {
    while (!over && !isOver()) {
      let verdict;
      try {
        verdict = read(await ask(next()));
      } catch (reason) {
        verdict = failed(reason);
      }
      counts[verdict]++;
      if (turns.isFull()) await turns.next();
    }
  }

  const cpu = process.cpuUsage();
  const start = performance.now();
  try {
    await Promise.all(Array.from({ length: inFlight }, lane));
  } finally {
    over = true;
  }
  const { user, system } = process.cpuUsage(cpu);
  return { ms: performance.now() - start, cpu: user + system, ...counts };
}

/**
 * So many requests a second, however they are answered. What is due while `most` are in flight is
 * never asked.
 *
 * @param {Asked} limiter
 * @param {{ next: () => string, perSecond: number, most: number, isOver: () => boolean }} load
 * @returns {Promise<Counts>}
 */
export async function pace(limiter, { next, perSecond, most, isOver }) {
  /** @type {Counts} */
  const counts = { allowed: 0, refused: 0, degraded: 0 };
  let inFlight = 0;
  const askOnce = async () => {
    counts[await answerOf(limiter, next())]++;
    inFlight--;
  };
  const start = performance.now();
  for (let asked = 0; !isOver();) {
    const due = Math.floor(((performance.now() - start) * perSecond) / 1000);
    const some = Math.min(due - asked, most - inFlight);
    inFlight += some;
    for (let i = 0; i < some; i++) void askOnce();
    asked = due;
    await new Promise((resolve) => setTimeout(resolve, PORTION_MS));
  }
  return counts;
}

/**
 * One at a time.
 *
 * @param {Asked} limiter
 * @param {{ next: () => string, isOver: () => boolean }} load
 * @returns {Promise<number[]>} how long each took, milliseconds
 */
export async function waits(limiter, { next, isOver }) {
  const all = [];
  while (!isOver()) {
    const start = performance.now();
    const verdict = await answerOf(limiter, next());
    if (verdict === "refused") throw new Error("who waited was refused, though it had room");
    all.push(performance.now() - start);
  }
  return all;
}

/**
 * Whether a time is over.
 *
 * @param {number} [ms]
 */
export function after(ms) {
  let over = false;
  if (ms !== undefined) setTimeout(() => (over = true), ms);
  return () => over;
}

/**
 * @param {Asked} limiter
 * @param {string} identity
 */
async function answerOf({ ask, read, failed = rethrow }, identity) {
  try {
    return read(await ask(identity));
  } catch (reason) {
    return failed(reason);
  }
}

/**
 * @param {unknown} reason
 * @returns {never}
 */
function rethrow(reason) {
  throw reason;
}

/**
 * Notices a turn of the event loop in which more is answered than was in flight when it began.
 *
 * @param {number} most
 */
function turnsOf(most) {
  let answers = 0;
  /** @type {(() => void)[]} */
  let waiting = [];
  const begin = () => {
    answers = 0;
    const lanes = waiting;
    waiting = [];
    for (const go of lanes) go();
  };
  return {
    isFull() {
      if (answers++ === 0) setImmediate(begin);
      return answers > most;
    },
    next: () => new Promise((/** @type {(value?: undefined) => void} */ resolve) => waiting.push(resolve)),
  };
}
