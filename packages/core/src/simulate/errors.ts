import { show, TidegateError } from "../errors.ts";

/**
 * What cannot be simulated:
 * - `TIDEGATE_SIMULATION_REQUEST`: a request of the past has a field that cannot be
 * - `TIDEGATE_SIMULATION_ASYNC`: a function of the configuration answers later, and nobody waits for it
 */
export type SimulationErrorCode = "TIDEGATE_SIMULATION_REQUEST" | "TIDEGATE_SIMULATION_ASYNC";

/** What cannot be simulated. The message names the field or the option, and says what to do. */
export class SimulationError extends TidegateError {
  override readonly name = "SimulationError";
  declare readonly code: SimulationErrorCode;
  /** The field of the request, or the option of the configuration. */
  readonly option: string;
  /** The value at fault. */
  readonly value: unknown;

  constructor(code: SimulationErrorCode, option: string, value: unknown, advice: string) {
    super(code, `${option}: ${advice}, got ${show(value)}.`);
    this.option = option;
    this.value = value;
  }
}
