/** What a decision is compared with. */
import { Redis } from "ioredis";
import { identityOf } from "./subject.js";

/** Our own single decision sends as many arguments, of about these lengths. */
const AS_OURS = [1, 1790000000123456, 1, 1, "tb", "e", 1, 1000000000, 1000000, 1000, 0, 1, 1, 1, ""];

/** What does nothing costs this much all the same. */
const EMPTY = "return 1";

/**
 * The common recipe: seconds and tokens as fractions, both arguments and both fields through
 * `tonumber`, one expiry whatever the state, and a write even when it refuses.
 */
export const CLASSIC = `
local key = KEYS[1]
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call('HMGET', key, 'tokens', 'ts')
local tokens = tonumber(bucket[1]) or capacity
local ts = tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - ts) * rate)
local allowed, wait = 0, 0
if tokens >= cost then
  tokens = tokens - cost
  allowed = 1
else
  wait = math.ceil((cost - tokens) / rate * 1000)
end
redis.call('HSET', key, 'tokens', tokens, 'ts', now)
redis.call('PEXPIRE', key, math.ceil(capacity / rate * 1000))
return { allowed, math.floor(tokens), wait }
`;

/** @type {import("./subject.js").Subject[]} */
export const baselines = [
  subject("ping", /\+PONG/, (client) => () => client.ping()),
  subject("incr", /:\d+/, (client) => (step) => client.incr(`rl:{${identityOf(step)}}:api:n`)),
  scripted("evalsha", EMPTY, /:1/, AS_OURS),
  scripted("classic", CLASSIC, /\*3\r\n:1/, [1000, 0.05, 1]),
  { ...scripted("classic:refused", CLASSIC, /\*3\r\n:0/, [2, 0.0001, 1]), spend: 2 },
];

/**
 * @param {string} name
 * @param {RegExp} answer
 * @param {(client: Redis) => (step: number) => Promise<unknown>} decide
 * @returns {import("./subject.js").Subject}
 */
function subject(name, answer, decide) {
  return {
    name,
    answer,
    baseline: true,
    async open(url) {
      const client = new Redis(url);
      return { decide: decide(client), close: () => client.disconnect() };
    },
  };
}

/**
 * @param {string} name
 * @param {string} script
 * @param {RegExp} answer
 * @param {(string | number)[]} args
 * @returns {import("./subject.js").Subject}
 */
function scripted(name, script, answer, args) {
  return {
    ...subject(name, answer, () => async () => {}),
    async open(url) {
      const client = new Redis(url);
      const sha = String(await client.script("LOAD", script));
      return {
        decide: (step) => client.evalsha(sha, 1, `rl:{${identityOf(step)}}:api:${name}`, ...args),
        close: () => client.disconnect(),
      };
    },
  };
}
