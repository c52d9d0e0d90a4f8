import { Command } from "commander";
import { change, type ManageFlags, subjectOf, withManage } from "../manage.ts";
import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { namesOf } from "../policies.ts";
import { nearestText } from "../nearest.ts";
import { IDENTITY_HELP } from "../who.ts";

interface Flags extends ManageFlags {
  readonly only?: string;
}

/** `tidegate reset`: forgets what was counted for somebody. */
export function resetCommand(io: Io): Command {
  const command = new Command("reset")
    .summary("forget what was counted for somebody")
    .description(
      "Forgets what every policy of a file, or one, has counted for somebody: the next request finds all unused, or one a second later, as each process remembers a refusal for so long (`denyCache`). A block stays. What counts everybody together is forgotten only for `globally`.",
    )
    .option("--only <policy>", "forget what this policy counted, and no other");
  return withManage(command)
    .addHelpText("after", IDENTITY_HELP)
    .addHelpText("after", EXAMPLES)
    .action((identity: string, flags: Flags) => reset(io, identity, flags));
}

const EXAMPLES = `
Examples:
  tidegate reset user:42 --policy limits.yaml --dry-run
  tidegate reset user:42 --policy limits.yaml --only login
  tidegate reset ip:2001:db8::1 --policy limits.yaml --yes --json`;

async function reset(io: Io, identity: string, flags: Flags): Promise<void> {
  const subject = await subjectOf(io, identity, flags);
  const { file, somebody } = subject;
  const { all, shared } = namesOf(file.config);
  const { only } = flags;
  if (only !== undefined && !all.includes(only)) {
    const near = nearestText(only, all);
    const known = all.map((name) => plain(name)).join(", ");
    io.fail(
      "TIDEGATE_CLI_POLICY",
      `--only: ${file.name} has no policy "${plain(only, 64)}"${near}; it has ${known}.`,
    );
  }
  const everybody = somebody.kind === "all";
  const names = only === undefined ? (everybody ? shared : [undefined]) : [only];
  if (names.length === 0)
    io.fail("TIDEGATE_CLI_POLICY", `No policy of ${file.name} counts everybody together.`);
  await change(io, subject, flags, {
    action: "reset",
    what: `forget what ${only === undefined ? "all policies" : plain(only)} counted for ${somebody.told}`,
    told: { policy: only ?? null },
    act: async (limiter, who) => {
      for (const name of names) await limiter.reset(who, name);
    },
  });
}
