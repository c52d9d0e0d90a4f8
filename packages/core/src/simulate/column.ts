/** Numbers by place, 0 where none was set. In chunks: one growing list would be copied, and held twice meanwhile. */
export class Column {
  readonly #bytes: 4 | 8;
  readonly #chunks: (Float64Array | Uint32Array)[] = [];

  /** @param bytes 4: whole numbers below 2³², 8: any */
  constructor(bytes: 4 | 8) {
    this.#bytes = bytes;
  }

  /** Whether every number is 0. */
  get isEmpty(): boolean {
    return this.#chunks.length === 0;
  }

  get(place: number): number {
    const chunk = this.#chunks[place >>> BITS];
    return chunk === undefined ? 0 : chunk[place & MASK]!;
  }

  set(place: number, value: number): void {
    const at = place >>> BITS;
    if (at >= this.#chunks.length) {
      if (value === 0) return;
      while (this.#chunks.length <= at) this.#chunks.push(this.#chunk());
    }
    this.#chunks[at]![place & MASK] = value;
  }

  #chunk(): Float64Array | Uint32Array {
    return this.#bytes === 8 ? new Float64Array(SIZE) : new Uint32Array(SIZE);
  }
}

/** 32 KB of the longer ones: little for a policy that few requests meet. */
const BITS = 12;
const SIZE = 1 << BITS;
const MASK = SIZE - 1;
