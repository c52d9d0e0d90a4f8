import { type Config, ConfigError, createLimiter, memoryStore } from "@tidegate/core";
import type { PolicyFileConfig } from "./policies-from.ts";
import type { Problems } from "./problems.ts";
import type { Reading } from "./read.ts";

/** So many are told at most: what comes behind need not be looked for. */
const ENOUGH = 100;

/**
 * Makes a limiter of the configuration. Where that fails it makes one of each part, so that every part tells what is
 * wrong with it: core tells of one thing at a time.
 */
export function check(config: PolicyFileConfig, reading: Reading, problems: Problems): void {
  const whole = faultOf(config);
  if (!whole) return;
  const before = problems.count;
  const { routes = {}, headers, ...given } = config;
  const base = given.policies || given.limit !== undefined ? given : { ...given, limit: 1, window: 1 };
  if (headers) tellNew(faultOf({ limit: 1, window: 1, headers }), reading, problems);
  const isBaseWrong = tellNew(faultOf(base), reading, problems);
  // A base that only lacks this is no reason to pass over the routes.
  const around = isBaseWrong ? { ...base, instances: base.instances ?? 1 } : base;
  for (const [name, line] of Object.entries(routes)) {
    if (problems.count > before + ENOUGH) break;
    tellNew(faultOf({ ...around, routes: { [name]: line } }), reading, problems);
  }
  // The parts may be right, and not fit together.
  if (problems.count === before) tellNew(whole, reading, problems);
}

/** What core has against a configuration. */
function faultOf(config: Config): ConfigError | undefined {
  try {
    void createLimiter({ ...config, store: memoryStore(), onEvent: () => undefined }).close();
    return undefined;
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

/** Tells what has not been told, and does not only follow from what has. Whether there was a fault at all. */
function tellNew(fault: ConfigError | undefined, reading: Reading, problems: Problems): boolean {
  if (!fault) return false;
  const follows = fault.code === "TIDEGATE_POLICY_MISSING" && problems.count > 0;
  if (!follows && !problems.touches(fault.option)) tell(fault, fault.option, reading, problems);
  return true;
}

/** Tells what core says of an option, where that stands in the file. */
export function tell(fault: ConfigError, option: string, reading: Reading, problems: Problems): void {
  const { message, value } = fault;
  const said = message.slice(fault.option.length + 2).replace(/\.$/, "");
  problems.add({ place: reading.placeOf(option), option, message: said, value });
}
