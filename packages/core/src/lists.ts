/** A list of a known length, to be filled. One that is pushed to keeps room for seventeen, and there are several for each decision. */
// oxlint-disable-next-line unicorn/no-new-array -- Array.from would fill it first.
export const listOf = <T>(length: number): T[] => new Array<T>(length);
