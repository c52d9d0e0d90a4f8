const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];

const times = (unit: number, ...counts: number[]): number[] => counts.map((count) => count * unit);

/** Steps that a reader can name, ms. */
const ROUND: readonly number[] = [
  times(1, 1, 2, 5, 10, 20, 50, 100, 200, 500),
  times(SECOND, 1, 2, 5, 10, 15, 20, 30),
  times(MINUTE, 1, 2, 5, 10, 15, 20, 30),
  times(HOUR, 1, 2, 3, 4, 6, 8, 12),
  times(DAY, 1, 2, 4, 7, 14, 28),
].flat();

/** Steps of which each is a whole number of the one before, ms; behind the last, twice as much each time. */
const GROWING: readonly number[] = [
  times(1, 1, 2, 10, 20, 100, 200),
  times(SECOND, 1, 2, 10, 20),
  times(MINUTE, 1, 2, 10, 20),
  times(HOUR, 1, 2, 12),
  times(DAY, 1),
].flat();

const after = (step: number): number => GROWING.find((next) => next > step) ?? step * 2;

/** So many finer steps for each that is shown: a round one can be chosen in the end. */
const FINER = 16;

/**
 * Counts over time, without knowing how long it will be: in steps that grow, all series in the same ones. Moments never
 * go back.
 */
export class Steps {
  readonly #most: number;
  #stepMs = 1;
  /** Number of the first step since 1970; `undefined` before anything was counted. */
  #first: number | undefined;
  #last = 0;
  readonly #series: number[][] = [];

  /** @param points that are shown at most */
  constructor(points: number) {
    this.#most = points * FINER;
  }

  /** A new series, of nothing yet. */
  series(): number[] {
    const series: number[] = [];
    this.#series.push(series);
    return series;
  }

  /** From now on it is counted at this moment, ms since 1970. */
  reach(ms: number): void {
    this.#first ??= Math.floor(ms / this.#stepMs);
    for (;;) {
      this.#last = Math.floor(ms / this.#stepMs) - this.#first;
      if (this.#last < this.#most) return;
      this.#widen();
    }
  }

  count(series: number[]): void {
    while (series.length <= this.#last) series.push(0);
    series[this.#last]!++;
  }

  #widen(): void {
    const wider = after(this.#stepMs);
    const first = Math.floor((this.#first! * this.#stepMs) / wider);
    for (const series of this.#series) regroup(series, this.#first!, wider / this.#stepMs, first);
    this.#stepMs = wider;
    this.#first = first;
  }

  /**
   * What is shown: the series in round steps. Leaves what was counted as it is.
   *
   * @param points at most
   */
  shown(points: number): { stepMs: number; start: number; of: (series: readonly number[]) => number[] } {
    const [own, first] = [this.#stepMs, this.#first ?? 0];
    const lengthIn = (stepMs: number) => {
      const times = stepMs / own;
      return Math.floor((first + this.#last) / times) - Math.floor(first / times) + 1;
    };
    let stepMs = own;
    while (lengthIn(stepMs) > points) stepMs = nextShown(stepMs, own);
    const start = Math.floor((first * own) / stepMs);
    const length = this.#first === undefined ? 0 : lengthIn(stepMs);
    const of = (series: readonly number[]) => {
      const copy = [...series];
      regroup(copy, first, stepMs / own, start);
      return Array.from({ length }, (_, i) => copy[i] ?? 0);
    };
    return { stepMs, start: start * stepMs, of };
  }
}

/** The next round step that is a whole number of our own. */
const nextShown = (step: number, own: number): number =>
  ROUND.find((next) => next > step && next % own === 0) ?? step * 2;

/** Puts the counts of finer steps, the first of which is number `first`, together into wider ones from number `start`. */
function regroup(series: number[], first: number, times: number, start: number): void {
  const wider: number[] = [];
  for (let i = 0; i < series.length; i++) {
    const place = Math.floor((first + i) / times) - start;
    while (wider.length <= place) wider.push(0);
    wider[place]! += series[i] ?? 0;
  }
  series.length = 0;
  for (const count of wider) series.push(count);
}
