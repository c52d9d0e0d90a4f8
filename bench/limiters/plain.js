/** What a decision is compared with: single commands of ioredis, each sent when it is asked. */
import { CLASSIC } from "../subjects/baselines.js";
import { connected, SLOW_S, verdict } from "./limiter.js";

/** @typedef {import("./limiter.js").Limit} Limit */
/** @typedef {import("ioredis").Redis | import("ioredis").Cluster} Client */

/** The least that limits at all: a counter that ends with its window. */
const COUNTER = `
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return { count <= tonumber(ARGV[1]) and 1 or 0, count, redis.call('PTTL', KEYS[1]) }
`;

/** @type {Record<string, { text: string, args: (limit: Limit) => (string | number)[] }>} */
const SCRIPTS = {
  evalsha: { text: COUNTER, args: ({ limit, windowMs }) => [limit, windowMs] },
  classic: { text: CLASSIC, args: ({ limit }) => [limit, limit / SLOW_S, 1] },
};

/** @type {import("./limiter.js").Open} */
export async function open(name, target, limit) {
  const [what = "", how] = name.split(":");
  const client = await connected(target, { enableAutoPipelining: how === "autopipelined" });
  const script = SCRIPTS[what];
  const ask = script
    ? await scripted(client, script.text, script.args(limit), name)
    : COMMANDS[what]?.(client);
  if (!ask) throw new Error(`there is no command or script for ${name}`);
  return { ask, read: isAllowed, close: () => client.disconnect() };
}

/** @type {Record<string, (client: Client) => (identity: string) => Promise<unknown>>} */
const COMMANDS = {
  ping: (client) => () => client.ping(),
  incr: (client) => (identity) => client.incr(`incr:{${identity}}`),
};

/**
 * @param {Client} client
 * @param {string} text
 * @param {(string | number)[]} args
 * @param {string} prefix
 */
async function scripted(client, text, args, prefix) {
  const servers = "nodes" in client ? client.nodes("master") : [client];
  const [sha = ""] = (await Promise.all(servers.map((server) => server.script("LOAD", text)))).map(String);
  return (/** @type {string} */ identity) => client.evalsha(sha, 1, `${prefix}:{${identity}}`, ...args);
}

/** @param {unknown} answer of a script: a list that begins with 1 or 0 */
const isAllowed = (answer) => verdict(!Array.isArray(answer) || answer[0] === 1);
