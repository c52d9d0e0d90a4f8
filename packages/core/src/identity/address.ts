import { isIP, isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import { LRUCache } from "lru-cache";
import { wholeNumber } from "../options.ts";

/** Which addresses count as one. */
export interface AddressOptions {
  /** IPv6 addresses with the same first bits count as one. 1 to 128, 64 by default: what a provider gives one customer. */
  ipv6Prefix?: number;
}

/** Who has no address: a closed or Unix socket. */
export const NO_ADDRESS = "none";

/** @throws ConfigError when the prefix is not a whole number from 1 to 128 */
export function checkPrefix(option: string, { ipv6Prefix = 64 }: AddressOptions): number {
  return wholeNumber(option, ipv6Prefix, 1, 128);
}

/**
 * What stands for an address in a key: IPv4 as it is, IPv6 as the hex digits of its prefix, IPv4
 * in IPv6 as the IPv4 it is. {@link NO_ADDRESS} when the text holds no address.
 */
export function addressValue(address: string | undefined, options: AddressOptions = {}): string {
  const prefix = checkPrefix("ipv6Prefix", options);
  if (address === undefined) return NO_ADDRESS;
  // As nearly all come: it is written in one way only.
  if (isIPv4(address)) return address;
  const known = values.get(address);
  if (known !== undefined && known.prefix === prefix) return known.value;
  const value = valueOf(address, prefix);
  // What is very long is no address, and would fill the memory that this is to spare.
  if (address.length <= MOST_KEPT) values.set(address, { prefix, value });
  return value;
}

/** Of the other addresses that came last: parsing one takes longer than to decide about it. */
const values = new LRUCache<string, { readonly prefix: number; readonly value: string }>({ max: 5_000 });

/** Characters: an IPv6 address with brackets, zone and port. */
const MOST_KEPT = 80;

function valueOf(address: string, prefix: number): string {
  const bare = bareAddress(address);
  if (bare === undefined) return NO_ADDRESS;
  const parsed = ipaddr.process(bare);
  if (parsed.kind() === "ipv4") return parsed.toString();
  const network = ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/${prefix}`);
  const digits = network.toByteArray().map((byte) => byte.toString(16).padStart(2, "0"));
  return digits.join("").slice(0, Math.ceil(prefix / 4));
}

/** The address alone, IPv4 in IPv6 as the IPv4 it is; `undefined` when the text holds none. */
export function plainAddress(text: string): string | undefined {
  const bare = bareAddress(text);
  return bare === undefined ? undefined : ipaddr.process(bare).toString();
}

/**
 * The address alone, out of what proxies write: `1.2.3.4:5678`, `[2001:db8::1]:443`, `fe80::1%eth0`.
 * `undefined` when it is none. Parsed, not cut: a bare IPv6 address has colons of its own.
 */
export function bareAddress(text: string): string | undefined {
  const given = text.trim();
  if (given.startsWith("[")) {
    const end = given.indexOf("]");
    const inner = withoutZone(given.slice(1, Math.max(1, end)));
    const rest = given.slice(end + 1);
    return isIP(inner) === 6 && (rest === "" || isPort(rest)) ? inHex(inner) : undefined;
  }
  const whole = withoutZone(given);
  if (isIP(whole)) return inHex(whole);
  const colon = whole.indexOf(":");
  const host = whole.slice(0, Math.max(0, colon));
  return isIPv4(host) && isPort(whole.slice(colon)) ? host : undefined;
}

/** IPv6 whose last part is written as IPv4, all in hex: `::1.2.3.4` is not the IPv4 that it looks like, `::ffff:1.2.3.4` is. */
function inHex(address: string): string {
  const [, head, tail] = /^(.*:)(\d+\.[\d.]+)$/.exec(address) ?? [];
  if (head === undefined || tail === undefined) return address;
  const [a, b, c, d] = ipaddr.IPv4.parse(tail).octets as [number, number, number, number];
  return `${head}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

function withoutZone(text: string): string {
  const percent = text.indexOf("%");
  return percent < 0 ? text : text.slice(0, percent);
}

function isPort(text: string): boolean {
  const digits = text.slice(1);
  return (
    text.startsWith(":") &&
    digits !== "" &&
    [...digits].every((c) => c >= "0" && c <= "9") &&
    Number(digits) <= 65535
  );
}
