import { randomBytes } from "node:crypto";

/** Names this process among all that share a store. */
const PROCESS = randomBytes(9).toString("base64url");
let count = 0;

/** An id that nothing else has, here or in another process. */
export const uniqueId = (): string => `${PROCESS}-${(++count).toString(36)}`;
