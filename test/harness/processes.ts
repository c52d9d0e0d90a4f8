import { type ChildProcess, fork } from "node:child_process";
import { worker } from "./worker.ts";

export interface Race {
  readonly url: string;
  readonly prefix: string;
  readonly policies: Record<string, [maker: string, options: object]>;
  readonly times?: number;
  readonly cost?: number;
  readonly forMs?: number;
}

/** Processes that ask at the same moment, one per entry of `skews` (ms by which its wall clock is off). Gives how many were let in altogether. */
export async function race(options: Race, skews: readonly number[]): Promise<number> {
  const children = skews.map((skewMs) => {
    const child = fork(worker, [], { execArgv: [] });
    child.send({ run: "race", ...options, skewMs });
    return child;
  });
  await Promise.all(children.map((child) => messageOf(child)));
  for (const child of children) child.send("go");
  const results = await Promise.all(children.map((child) => messageOf(child)));
  let admitted = 0;
  for (const { result } of results as { result: { admitted: number; degraded: number } }[]) {
    if (result.degraded > 0) throw new Error(`${result.degraded} decisions were degraded`);
    admitted += result.admitted;
  }
  return admitted;
}

/** What the processes of a {@link Crew} ask, all at the same moment. */
interface Contest {
  readonly prefix: string;
  readonly policies: Record<string, [maker: string, options: object]>;
  /** How often each process asks. */
  readonly times: number;
  readonly identity?: string | Record<string, string>;
  readonly cost?: number | Record<string, number>;
  readonly idempotencyKey?: string;
}

/** Processes that stay, for many contests: starting one takes longer than asking. */
export interface Crew {
  /** Counts who was let in, and how many of them were replays. Throws when a decision was degraded. */
  contest(contest: Contest): Promise<{ admitted: number; replayed: number }>;
  end(): void;
}

export function startCrew(url: string, size: number): Crew {
  const children = Array.from({ length: size }, () => fork(worker, [], { execArgv: [] }));
  for (const child of children) child.send({ run: "crew", url });
  const tell = (message: object | string) => {
    const answers = Promise.all(children.map((child) => messageOf(child)));
    for (const child of children) child.send(message);
    return answers;
  };
  return {
    async contest(contest) {
      await tell(contest);
      const results = (await tell("go")) as { allowed: boolean; degraded?: object; replayed: boolean }[][];
      const all = results.flat();
      if (all.some(({ degraded }) => degraded)) throw new Error("a decision was degraded");
      const admitted = all.filter(({ allowed }) => allowed);
      return { admitted: admitted.length, replayed: admitted.filter(({ replayed }) => replayed).length };
    },
    end() {
      for (const child of children) child.send("end");
    },
  };
}

function messageOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const early = (code: number | null, signal: string | null) =>
      reject(new Error(`a worker ended early: ${code ?? signal}`));
    child.once("exit", early);
    child.once("message", (message) => {
      child.off("exit", early);
      resolve(message);
    });
  });
}
