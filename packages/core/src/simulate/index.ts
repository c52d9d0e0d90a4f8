export { SimulationError, type SimulationErrorCode } from "./errors.ts";
export { type PastRequest, SimulatedRequest } from "./past-request.ts";
export type {
  CurvePoint,
  IdentityReport,
  Peak,
  PolicyReport,
  SimulationReport,
  Suggestion,
  Timeline,
} from "./report.ts";
export { simulate } from "./simulate.ts";
export {
  createSimulation,
  type PastDecision,
  type Simulation,
  type SimulationOptions,
} from "./simulation.ts";
