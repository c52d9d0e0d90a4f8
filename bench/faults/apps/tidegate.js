import { rateLimit } from "@tidegate/express";
import { identityOf, PLENTY, WINDOW_MS } from "../limits.js";
import { serveBehind } from "./express.js";

/** @type {import("../limits.js").Serve} */
export const serve = async (redis) =>
  serveBehind(rateLimit({ redis, limit: PLENTY, window: WINDOW_MS, by: identityOf, onEvent: () => {} }));
