/** How the server is set up. */
import { type Fields, numberIn, replyOf } from "../ask.ts";
import type { Facts } from "../facts.ts";
import { type Found, found, well } from "../finding.ts";
import { bytesText, countText, msText, numberText } from "../text.ts";

/** Whether the server throws keys away when it is full. */
function evictionFound(info: Fields | undefined): Found[] {
  const policy = info?.get("maxmemory_policy");
  if (policy === undefined) return [];
  const maxmemory = numberIn(info, "maxmemory") ?? 0;
  const evicted = numberIn(info, "evicted_keys") ?? 0;
  const value = { policy, maxmemory, evicted };
  if (policy === "noeviction") return [well("EVICTION", "Its maxmemory-policy is noeviction.", value)];
  if (maxmemory === 0) {
    const message = `Its maxmemory-policy is ${policy}. Without maxmemory nothing is evicted.`;
    const advice = "Before you set maxmemory: CONFIG SET maxmemory-policy noeviction";
    return [found("EVICTION", "notice", message, advice, value)];
  }
  const so =
    evicted === 0 ? "None has been so far." : `${countText(evicted, "key")} went that way since it started.`;
  const message = `Its maxmemory-policy is ${policy}: once it holds ${bytesText(maxmemory)}, keys of limiters are evicted, and these limits begin anew. ${so}`;
  const advice =
    "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file. If a cache shares the server, give the limiter one of its own.";
  return [found("EVICTION", "warning", message, advice, value)];
}

/** Part of maxmemory from which on it counts as full. */
const FULL = 0.9;

function memoryFound(info: Fields | undefined): Found[] {
  const used = numberIn(info, "used_memory");
  const maxmemory = numberIn(info, "maxmemory");
  if (used === undefined || maxmemory === undefined) return [];
  const value = { used, maxmemory };
  if (maxmemory === 0) {
    const message = `It has no maxmemory, and uses ${bytesText(used)}. When the machine's memory is used up, the server is ended.`;
    const advice = "CONFIG SET maxmemory to what it may take, with maxmemory-policy noeviction";
    return [found("MEMORY", "notice", message, advice, value)];
  }
  const message = `It uses ${bytesText(used)} of ${bytesText(maxmemory)}, ${numberText((used / maxmemory) * 100)} %.`;
  if (used < maxmemory * FULL) return [well("MEMORY", message, value)];
  const advice =
    "Raise maxmemory, or find out who fills it. The limiter writes on when it is full; others cannot, or their keys are evicted.";
  return [found("MEMORY", "warning", message, advice, value)];
}

/** What is left after a restart. Limits can do without. */
function persistenceFound(config: Fields | undefined): Found[] {
  if (!config?.has("save")) return [];
  const [saves, appends] = [config.get("save") !== "", config.get("appendonly") === "yes"];
  const value = { save: config.get("save"), appendonly: appends, appendfsync: config.get("appendfsync") };
  if (appends && config.get("appendfsync") === "always") {
    const message = "It writes every decision to its disk before it answers (appendfsync always).";
    return [found("PERSISTENCE", "notice", message, "CONFIG SET appendfsync everysec", value)];
  }
  if (saves || appends) return [well("PERSISTENCE", "It keeps its data over a restart.", value)];
  const message = "It keeps nothing over a restart: limits begin anew then, and blocks are gone.";
  return [
    found("PERSISTENCE", "notice", message, "Nothing, if that may be. Else CONFIG SET appendonly yes", value),
  ];
}

function idleTimeoutFound(config: Fields | undefined): Found[] {
  const seconds = numberIn(config, "timeout");
  if (seconds === undefined) return [];
  const value = { seconds };
  if (seconds === 0) return [well("IDLE_TIMEOUT", "It closes no connection that is idle.", value)];
  const message = `It closes connections that are idle for ${numberText(seconds)} s. A limiter connects again at once, but what is decided until then is the failure rule's.`;
  return [found("IDLE_TIMEOUT", "notice", message, "CONFIG SET timeout 0", value)];
}

/** How long somebody's script may run before others are told, ms. Redis's own default. */
const USUAL_MS = 5000;

function scriptLimitFound(config: Fields | undefined): Found[] {
  const ms = numberIn(config, "busy-reply-threshold") ?? numberIn(config, "lua-time-limit");
  if (ms === undefined) return [];
  const value = { ms };
  if (ms > 0 && ms <= USUAL_MS)
    return [well("SCRIPT_LIMIT", `A script that runs for ${msText(ms)} can be ended.`, value)];
  const message =
    ms === 0
      ? "It lets scripts run without a limit: one that does not end is ended together with the server, or never."
      : `A script that does not end can be ended only after ${msText(ms)}. Until then nothing is decided.`;
  return [found("SCRIPT_LIMIT", "notice", message, `CONFIG SET busy-reply-threshold ${USUAL_MS}`, value)];
}

/** All that is judged by settings alone. */
export function settingsFound({ info, config }: Facts): Found[] {
  const [told, set] = [replyOf(info), replyOf(config)];
  return [
    ...evictionFound(told),
    ...memoryFound(told),
    ...persistenceFound(set),
    ...idleTimeoutFound(set),
    ...scriptLimitFound(set),
  ];
}
