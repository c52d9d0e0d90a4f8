/** Asks the doctor as the tests of this folder do. */
import { doctor, type DoctorOptions, type DoctorReport, type Finding, type Level } from "@tidegate/core";
import type { RedisServer } from "../harness/redis.ts";

/** With more patience than anybody has: these machines are busy. */
export const examine = (options: DoctorOptions): Promise<DoctorReport> =>
  doctor({ timeoutMs: 10_000, answerMs: 10_000, ...options });

/** The end of a code. */
const subjectOf = ({ code }: Finding): string => code.replace("TIDEGATE_DOCTOR_", "");

/** The findings of a subject; of a server, where one is named. */
export const of = ({ findings }: DoctorReport, subject: string): Finding[] =>
  findings.filter((finding) => subjectOf(finding) === subject);

/** The one finding of a subject. */
export function the(report: DoctorReport, subject: string): Finding {
  const all = of(report, subject);
  if (all.length !== 1) throw new Error(`there are ${all.length} findings of ${subject}`);
  return all[0]!;
}

/** What was found on a level, by the end of the code, in alphabetical order. */
export const onLevel = ({ findings }: DoctorReport, ...levels: Level[]): string[] =>
  findings
    .filter(({ level }) => levels.includes(level))
    .map(subjectOf)
    .toSorted();

/** A user of this server, and the URL that it logs in by. The rules follow `resetchannels -@all`. */
export async function userOf(server: RedisServer, name: string, ...rules: string[]): Promise<string> {
  await server.client.call(
    "ACL",
    "SETUSER",
    name,
    "reset",
    "on",
    ">secret",
    "resetchannels",
    "-@all",
    ...rules,
  );
  return `redis://${name}:secret@127.0.0.1:${server.port}`;
}
