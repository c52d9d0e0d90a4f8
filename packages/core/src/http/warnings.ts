import { NO_ADDRESS } from "../identity/address.ts";
import type { Trust } from "../identity/proxy.ts";
import type { Events } from "../observe/events.ts";
import type { Prepared } from "./prepared.ts";

/** What a guard says once of its configuration and of the requests it meets. */
export interface Warnings {
  readonly unverifiedKeys: (prepared: Pick<Prepared, "policies">) => void;
  readonly noAddress: () => void;
  /** @param whom the application believes, of a request that was forwarded */
  readonly trust: (whom: Trust["whom"]) => void;
  readonly secondTime: () => void;
}

/** @param trustSetting by which the application says whom it believes */
export const warningsOf = (events: Events, trustSetting: string): Warnings => ({
  unverifiedKeys({ policies }) {
    if (!policies.some(({ by }) => by.unverified)) return;
    if (policies.some(({ by, policy }) => by.address && policy.mode === "enforce")) return;
    events.warnOnce(
      "TIDEGATE_UNVERIFIED_KEY",
      "API keys are not verified, and no policy counts by address: whoever invents a key gets a new quota. Give apiKey({ verify }) or a policy with by: ip().",
    );
  },

  noAddress() {
    events.warnOnce(
      "TIDEGATE_NO_ADDRESS",
      `A request had no address (a Unix socket, or one already closed): such requests count together as ip:${NO_ADDRESS}. Give by a function if they should not.`,
    );
  },

  trust(whom) {
    if (whom === "nobody") {
      events.warnOnce(
        "TIDEGATE_FORWARDED_UNTRUSTED",
        `A request came with X-Forwarded-For, and no proxy is believed: the address of its peer was counted. Behind a proxy set ${trustSetting}, or everybody counts as that proxy.`,
      );
    } else if (whom === "everybody") {
      events.warnOnce(
        "TIDEGATE_TRUSTS_EVERYBODY",
        `Every proxy is believed, so clients choose their own address by X-Forwarded-For: name your proxies in ${trustSetting}.`,
      );
    }
  },

  secondTime() {
    events.note(
      "TIDEGATE_COUNTED_ONCE",
      "A request met this limiter more than once, and was counted once: it may be mounted on the application and on a route.",
    );
  },
});
