/** The proxies that tests put in front of the frameworks. */
import { delimiter } from "node:path";
import { findProgram } from "./run.js";
import { ensureProgram } from "./system-package.js";

/** @typedef {"nginx" | "haproxy"} Proxy */

/** Debian keeps servers where only root's PATH leads. */
process.env.PATH = [process.env.PATH, "/usr/local/sbin", "/usr/sbin"].join(delimiter);

/**
 * The path of a proxy, or undefined when it is not there.
 *
 * @param {Proxy} proxy
 */
export const findProxy = (proxy) => findProgram(proxy);

/** Installs what is missing, and says so where that cannot be done: the tests decide what it means. */
export function ensureProxies() {
  for (const proxy of /** @type {Proxy[]} */ (["nginx", "haproxy"])) {
    try {
      ensureProgram(proxy, { "apt-get": proxy, apk: proxy, dnf: proxy, brew: proxy });
    } catch (error) {
      console.error(error instanceof Error ? error.message : error);
    }
  }
}
