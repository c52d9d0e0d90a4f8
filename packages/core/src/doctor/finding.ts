/** What is looked at. Each name is the end of a code, and has a row in docs/doctor.md. */
export type Subject =
  | "CONNECTION"
  | "LOGIN"
  | "TOPOLOGY"
  | "VERSION"
  | "REPLICA"
  | "READY"
  | "RIGHTS"
  | "MANAGE"
  | "SCRIPT_LOAD"
  | "SCRIPTS"
  | "DATABASE"
  | "EVICTION"
  | "MEMORY"
  | "PERSISTENCE"
  | "IDLE_TIMEOUT"
  | "SCRIPT_LIMIT"
  | "CLOCK"
  | "CLOCK_SPREAD"
  | "LATENCY"
  | "CLUSTER"
  | "REPLICAS"
  | "KEYS"
  | "PREFIX"
  | "NO_EXPIRY"
  | "WRONG_TYPE"
  | "TWO_CONFIGURATIONS"
  | "FOREIGN_KEYS"
  | "SHARED"
  | "LOOK";

/** What was looked at, by a name that stays: each has a row in docs/doctor.md. */
export type DoctorCode = `TIDEGATE_DOCTOR_${Subject}`;

/**
 * How bad a finding is:
 * - `must`: limits do not hold, or not for everybody, until this is changed
 * - `warning`: they hold now, and something may undo them
 * - `notice`: worth knowing; often as it should be
 * - `ok`: looked at, and well
 */
export type Level = "must" | "warning" | "notice" | "ok";

/** Something that was looked at, and what was found. */
export interface Finding {
  /** What was looked at. */
  readonly code: DoctorCode;
  /** How bad it is. */
  readonly level: Level;
  /** The server's address; `undefined`: all of them together. */
  readonly server: string | undefined;
  /** What was found, with its numbers. Holds no password, and of keys nothing that names anybody. */
  readonly message: string;
  /** What to change, and how; `undefined` where nothing is to be changed. */
  readonly advice: string | undefined;
  /** The numbers of the message, for programs; `undefined` where there are none. */
  readonly value: Value | undefined;
}

export type Value = Readonly<
  Record<string, number | string | boolean | readonly string[] | Readonly<Record<string, number>> | undefined>
>;

/** What a check has found, of a server that is named later. */
export type Found = Omit<Finding, "server">;

/** That something is well. */
export const well = (subject: Subject, message: string, value?: Value): Found =>
  found(subject, "ok", message, undefined, value);

export const found = (
  subject: Subject,
  level: Level,
  message: string,
  advice: string | undefined,
  value?: Value,
): Found => ({ code: `TIDEGATE_DOCTOR_${subject}`, level, message, advice, value });

const WORST_FIRST: readonly Level[] = ["must", "warning", "notice", "ok"];

/** The worst first; of one level in the order in which they were found. */
export const sorted = (findings: readonly Finding[]): Finding[] =>
  WORST_FIRST.flatMap((level) => findings.filter((finding) => finding.level === level));
