import type { IncomingMessage } from "node:http";
import proxyAddr from "@fastify/proxy-addr";
import { ConfigError } from "../errors.ts";
import { wholeNumber } from "../options.ts";
import { bareAddress, plainAddress } from "./address.ts";

/**
 * Which proxies to believe about whom they forward for:
 * - a number: so many of them stand in front, each adding one entry to `X-Forwarded-For`
 * - networks: `["10.0.0.0/8", "loopback"]`; `loopback`, `linklocal` and `uniquelocal` are known by name
 * - a function of an address, and of how many hops away it is, counted from 0. A peer without an address, such as one
 *   on a Unix socket, is told as `unix`
 */
export type TrustProxy = number | readonly string[] | ((address: string, hop: number) => boolean);

/** Whom an application believes. */
export interface Trust {
  /**
   * `nobody`: the peer is the client. `some`: certain proxies are believed. `everybody`: clients choose their address.
   */
  readonly whom: "nobody" | "some" | "everybody";
  /** How many proxies, where they are counted and not known by address. */
  readonly hops?: number | undefined;
}

/** The way from a connection to the client behind the proxies. */
export interface Proxies {
  readonly trust: Trust;
  /** The client's address out of `X-Forwarded-For`; the peer's, where nobody who is believed says otherwise. */
  clientOf(peer: string | undefined, forwardedFor: string | undefined): string | undefined;
}

/** A peer without an address. No network holds it. */
const UNIX = "unix";

/** More proxies than stand anywhere. */
const LONG = 64;

/** Never anybody's: who trusts these trusts everybody. source: RFC 5737 §3, RFC 3849 */
const NOBODYS = ["192.0.2.1", "2001:db8::1"];

/** @throws ConfigError when it is no such setting */
export function proxiesOf(setting: TrustProxy): Proxies {
  const trusts = compileTrust(setting);
  const hops = typeof setting === "number" ? setting : undefined;
  return {
    trust: { whom: whomOf(setting, trusts), hops },
    clientOf(given, forwardedFor) {
      if (forwardedFor === undefined) return given;
      const peer = given ?? UNIX;
      // An entry that is missing was not written by a proxy of ours: then no entry is believed.
      if (hops !== undefined && entriesOf(forwardedFor) < hops) return peer;
      const chain = { headers: { "x-forwarded-for": forwardedFor }, socket: { remoteAddress: peer } };
      return proxyAddr(chain as unknown as IncomingMessage, trusts);
    },
  };
}

const samples = new WeakMap<object, Trust>();

/**
 * Whom an application believes, where its setting is not to be read: out of what it makes of a chain of proxies that
 * nobody has. Asked once for each application.
 *
 * @param addressesOf the addresses that it believes to be in a request's chain, the peer's first; `undefined`: it
 *   believes nobody
 */
export function trustBySample(
  application: object,
  addressesOf: (raw: object) => readonly string[] | undefined,
): Trust {
  let trust = samples.get(application);
  if (trust) return trust;
  const [nobodys] = NOBODYS;
  const forwardedFor = Array(LONG).fill(nobodys).join(", ");
  const chain = { headers: { "x-forwarded-for": forwardedFor }, socket: { remoteAddress: nobodys } };
  const addresses = addressesOf(chain);
  const hops = addresses && addresses.length - 1;
  if (hops === undefined) trust = { whom: "nobody" };
  else trust = hops === LONG ? { whom: "everybody" } : { whom: "some", hops: hops || undefined };
  samples.set(application, trust);
  return trust;
}

/** Whether an address is one of a private network or of this machine: proxies have such, and clients of the internet do not. */
const isInside = proxyAddr.compile(["loopback", "linklocal", "uniquelocal"]);

/**
 * Whether a request looks as if a proxy had forwarded it that nobody believes: it comes from inside, and says whom it is for.
 */
export const isUnbelieved = (peer: string | undefined, client: string | undefined): boolean => {
  const bare = peer === undefined ? undefined : bareAddress(peer);
  return bare !== undefined && peer === client && isInside(bare, 0);
};

/** How many addresses a field of X-Forwarded-For holds. */
export const entriesOf = (forwardedFor: string | undefined): number =>
  forwardedFor === undefined || forwardedFor === "" ? 0 : forwardedFor.split(",").length;

/**
 * A test whether an address lies in one of some networks.
 *
 * @throws ConfigError when one of them is no network
 */
export function networks(option: string, list: readonly string[]): (address: string) => boolean {
  if (!Array.isArray(list)) throw networkError(option, list);
  if (list.length === 0) return () => false;
  for (const [i, network] of list.entries()) {
    try {
      proxyAddr.compile(network);
    } catch {
      throw networkError(`${option}.${i}`, network);
    }
  }
  const within = proxyAddr.compile([...list]);
  return (address) => {
    const bare = bareAddress(address);
    return bare !== undefined && within(bare, 0);
  };
}

function networkError(option: string, value: unknown): ConfigError {
  const advice = 'give addresses and networks such as "203.0.113.7", "10.0.0.0/8" or "2001:db8::/32"';
  return new ConfigError("TIDEGATE_OPTION_INVALID", option, value, advice);
}

function compileTrust(setting: TrustProxy): (address: string, hop: number) => boolean {
  if (typeof setting === "function") return soundly(setting);
  if (Array.isArray(setting)) return networks("trustProxy", setting);
  const advice = " of proxies, a list of networks, or a function of an address";
  const hops = wholeNumber("trustProxy", setting, 0, LONG, advice);
  return (_, hop) => hop < hops;
}

/** Told the address alone, IPv4 as it is. Whoever a function fails for is not believed. */
const soundly =
  (trusts: (address: string, hop: number) => boolean) =>
  (address: string, hop: number): boolean => {
    try {
      return trusts(plainAddress(address) ?? address, hop) === true;
    } catch {
      return false;
    }
  };

function whomOf(setting: TrustProxy, trusts: (address: string, hop: number) => boolean): Trust["whom"] {
  if (setting === 0 || (Array.isArray(setting) && setting.length === 0)) return "nobody";
  if (typeof setting === "number") return "some";
  return NOBODYS.some((address) => trusts(address, LONG - 1)) ? "everybody" : "some";
}
