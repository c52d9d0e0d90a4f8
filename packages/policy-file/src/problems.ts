import {
  PolicyFileError,
  type PolicyFileErrorCode,
  type PolicyFileProblem,
  shortened,
  visible,
} from "./errors.ts";

/** Where something is in a text: from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** What is wrong, and where. */
export interface Fault {
  readonly code?: PolicyFileErrorCode;
  readonly place: Place;
  readonly option: string;
  /** What to do, and what stands there; without a full stop. */
  readonly message: string;
  /** Left out where it may be a secret. */
  readonly value?: unknown;
}

/** More help nobody. */
const MOST_PROBLEMS = 100;
/** Then nothing more is looked for: a text that is no policy file at all may be wrong in every word. */
const ENOUGH = 1000;
const LONGEST_OPTION = 120;
const LONGEST_MESSAGE = 600;

/** Everything that is wrong with a file, once each. */
export class Problems {
  readonly #file: string;
  readonly #found = new Map<string, PolicyFileProblem>();
  readonly #options = new Set<string>();
  /** The options, and what they are a part of. */
  readonly #around = new Set<string>();
  /** How often something was wrong: more than it is told where an alias says it again. */
  count = 0;

  constructor(file: string) {
    this.#file = file;
  }

  /** @throws PolicyFileError when there are too many by now */
  add({ code = "TIDEGATE_FILE_OPTION", place: { line, column }, option, message, value }: Fault): void {
    this.count++;
    const what = option === "" ? message : `${shortened(option, LONGEST_OPTION)}: ${message}`;
    const told = `${shortened(visible(what), LONGEST_MESSAGE)}.`;
    const isPlain = ["string", "number", "boolean"].includes(typeof value);
    const problem = {
      code,
      line,
      column,
      option,
      value: isPlain ? (value as string) : undefined,
      message: told,
    };
    const key = `${line}:${column}:${message}`;
    if (!this.#found.has(key)) this.#found.set(key, problem);
    this.#options.add(option);
    for (const part of [option, ...wholesOf(option)]) this.#around.add(part);
    if (this.#found.size >= ENOUGH) this.throwIfAny();
  }

  /** Whether something is known to be wrong with an option, with a part of it, or with what it is a part of. */
  touches(option: string): boolean {
    return this.#around.has(option) || wholesOf(option).some((whole) => this.#options.has(whole));
  }

  /** @throws PolicyFileError when there are any */
  throwIfAny(): void {
    const [first, ...rest] = [...this.#found.values()].sort(inOrder);
    if (!first) return;
    const told = rest.slice(0, MOST_PROBLEMS - 1);
    throw new PolicyFileError(this.#file, [first, ...told], rest.length - told.length);
  }
}

/** Names may be as long as a file, and hold as many dots: these have no parts worth knowing. */
const LONGEST_NAMED = 1000;

/** What an option is a part of: `policies.burst` and `policies` for `policies.burst.limit`. */
function wholesOf(option: string): string[] {
  if (option.length > LONGEST_NAMED) return [];
  const wholes: string[] = [];
  for (let dot = option.indexOf("."); dot > 0; dot = option.indexOf(".", dot + 1))
    wholes.push(option.slice(0, dot));
  return wholes;
}

const inOrder = (one: PolicyFileProblem, other: PolicyFileProblem): number =>
  one.line - other.line || one.column - other.column;
