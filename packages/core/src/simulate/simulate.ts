import type { Config } from "../config.ts";
import { isThenable } from "../identity/sources.ts";
import type { PastRequest } from "./past-request.ts";
import type { SimulationReport } from "./report.ts";
import { Run, type SimulationOptions } from "./simulation.ts";

/**
 * A whole log at once: what the limits of a configuration would have done. Functions of the configuration may answer
 * later; each is waited for.
 *
 * @throws ConfigError (the promise rejects) for the first setting that cannot work
 * @throws SimulationError TIDEGATE_SIMULATION_REQUEST (the promise rejects) for the first request whose times are none
 */
export async function simulate(
  config: Config,
  requests: Iterable<PastRequest> | AsyncIterable<PastRequest>,
  options: SimulationOptions = {},
): Promise<SimulationReport> {
  const run = new Run(config, options);
  try {
    if (Symbol.asyncIterator in requests) for await (const request of requests) await run.decide(request);
    else await decideAll(run, requests);
    return run.report();
  } finally {
    await run.close();
  }
}

/** Waits only where there is something to wait for. */
async function decideAll(run: Run, requests: Iterable<PastRequest>): Promise<void> {
  for (const request of requests) {
    const decision = run.decide(request);
    if (isThenable(decision)) await decision;
  }
}
