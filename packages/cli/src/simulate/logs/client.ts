import { BlockList, isIP, isIPv6 } from "node:net";
import { CliError } from "../../errors.ts";
import { plain } from "../../plain.ts";
import type { Entry } from "./format.ts";

/** The client's address, out of what a line says of the connection. */
export type ClientOf = (entry: Pick<Entry, "peer" | "forwarded" | "client">) => string | undefined;

/** Which proxies to believe: how many, or which networks. */
export type Believed = number | readonly string[];

/** Whom nobody said to believe: the server's own word for the client, or the peer. */
export const unproxied: ClientOf = ({ client, peer }) => client ?? peer;

/**
 * The same as the middleware finds, with this `trustProxy`.
 *
 * @throws CliError for what is no network
 */
export function clientBehind(believed: Believed): ClientOf {
  return typeof believed === "number" ? behindHops(believed) : behindNetworks(believed);
}

function behindHops(hops: number): ClientOf {
  return ({ peer, forwarded }) => {
    if (hops === 0 || forwarded === undefined) return peer;
    const chain = entriesOf(forwarded);
    // An entry that is missing was not written by a proxy of ours: then no entry is believed.
    if (chain.length < hops) return peer;
    const written = chain.filter((entry) => entry !== "");
    const client = written.at(-hops) ?? written[0];
    return (client && bare(client)) ?? peer;
  };
}

function behindNetworks(networks: readonly string[]): ClientOf {
  const ours = listOf(networks);
  const isOurs = (address: string) => ours.check(address, isIPv6(address) ? "ipv6" : "ipv4");
  return ({ peer, forwarded }) => {
    const chain = forwarded === undefined ? [] : entriesOf(forwarded).filter((entry) => entry !== "");
    let client = peer === undefined ? undefined : bare(peer);
    while (client !== undefined && isOurs(client) && chain.length > 0) client = bare(chain.pop()!);
    // What is no address counts as the peer.
    return client ?? peer;
  };
}

/** More proxies than stand anywhere: of a chain that is longer, the end is looked at. */
const LONGEST_CHAIN = 4096;

const entriesOf = (forwarded: string): string[] =>
  forwarded
    .slice(-LONGEST_CHAIN)
    .split(",")
    .map((entry) => entry.trim());

/** The address alone: without a port, a zone or brackets. */
function bare(text: string): string | undefined {
  const end = text.indexOf("]");
  if (text.startsWith("["))
    return isPort(text.slice(end + 1)) ? addressIn(text.slice(1, Math.max(1, end))) : undefined;
  const colon = text.indexOf(":");
  if (colon < 0 || colon !== text.lastIndexOf(":")) return addressIn(text);
  return isPort(text.slice(colon)) ? addressIn(text.slice(0, colon)) : undefined;
}

const isPort = (text: string): boolean =>
  text === "" || (/^:\d{1,5}$/.test(text) && Number(text.slice(1)) <= 65_535);

function addressIn(text: string): string | undefined {
  const percent = text.indexOf("%");
  const address = percent < 0 ? text : text.slice(0, percent);
  if (isIP(address) === 0) return undefined;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  return mapped ? mapped[1] : address;
}

/** source: what Express calls so */
const NAMED: Readonly<Record<string, readonly string[]>> = {
  loopback: ["127.0.0.1/8", "::1/128"],
  linklocal: ["169.254.0.0/16", "fe80::/10"],
  uniquelocal: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
};

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks.flatMap((name) => NAMED[name] ?? [name])) add(list, network);
  return list;
}

function add(list: BlockList, network: string): void {
  const slash = network.indexOf("/");
  const address = slash < 0 ? network : network.slice(0, slash);
  const family = isIP(address);
  const most = family === 6 ? 128 : 32;
  const bits = slash < 0 ? most : Number(network.slice(slash + 1));
  if (family === 0 || !Number.isInteger(bits) || bits < 0 || bits > most)
    throw new CliError(
      "TIDEGATE_CLI_TRUST_PROXY",
      `--trust-proxy: give how many proxies stand in front, or networks such as 10.0.0.0/8, got ${plain(network, 80)}.`,
    );
  list.addSubnet(address, bits, family === 6 ? "ipv6" : "ipv4");
}

/**
 * `1`, or `10.0.0.0/8,loopback`.
 *
 * @throws CliError when it is neither
 */
export function parseBelieved(text: string): Believed {
  if (/^\d{1,2}$/.test(text)) return Number(text);
  const networks = text.split(",").map((network) => network.trim());
  listOf(networks);
  return networks;
}
