import { rateLimit } from "@tidegate/express";
import { connected, identityOf, PLENTY, WINDOW_MS } from "../limits.js";
import { serveBehind } from "./express.js";

/** @type {import("../limits.js").Serve} */
export const serve = async (url) =>
  serveBehind(
    rateLimit({
      redis: connected(url, {}),
      shareConnection: true,
      limit: PLENTY,
      window: WINDOW_MS,
      by: identityOf,
      onEvent: () => {},
    }),
  );
