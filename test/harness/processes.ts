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

function messageOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", (code, signal) => reject(new Error(`a worker ended early: ${code ?? signal}`)));
  });
}
