import type { PastRequest } from "@tidegate/core/simulate";
import type { LogSource } from "./source.ts";

/**
 * The requests of several files in order of time; equal times in the order of the files. Only what each file has next is
 * looked at, so that files of any size are merged in little memory.
 *
 * @param take told of each request. Not an iteration: a million steps of an asynchronous one take a second
 * @param onStep told now and then, whenever a file was read further
 */
export async function merge(
  sources: readonly LogSource[],
  take: (request: PastRequest) => void,
  onStep: () => void = () => {},
): Promise<void> {
  let open = [...sources];
  while (open.length > 0) {
    const filled = await Promise.all(open.map((source) => source.fill()));
    open = open.filter((_, i) => filled[i]);
    onStep();
    for (let next = firstOf(open); next !== undefined; next = firstOf(open)) {
      take(next.head()!);
      next.drop();
    }
  }
}

/** The file whose head comes first; undefined when one of them has to be read further before that is known. */
function firstOf(sources: readonly LogSource[]): LogSource | undefined {
  let first: LogSource | undefined;
  let least = Infinity;
  for (const source of sources) {
    const head = source.head();
    if (head === undefined) return undefined;
    if (first === undefined || head.at < least) {
      first = source;
      least = head.at;
    }
  }
  return first;
}
