import { Command } from "commander";
import { CliError } from "../errors.ts";
import { change, type ManageFlags, subjectOf, withManage } from "../manage.ts";
import type { Io } from "../io.ts";
import { plain } from "../plain.ts";
import { IDENTITY_HELP } from "../who.ts";

interface Flags extends ManageFlags {
  readonly for: string;
  readonly reason?: string;
  readonly force?: boolean;
}

/** `tidegate block`: refuses somebody whatever their limits. */
export function blockCommand(io: Io): Command {
  const command = new Command("block")
    .summary("refuse somebody whatever their limits")
    .description(
      "Refuses somebody whatever their limits, for a time or until they are unblocked. A new block replaces the old one. Only applications with `blocking: true` heed it, and the file has to say that.",
    )
    .requiredOption("--for <span>", "for how long: 90s, 15m, 1h, 2d, or forever")
    .option("--reason <text>", "why; kept in Redis and told by explain, and to no client", "")
    .option(
      "--force",
      "block although the file has no `blocking: true`, as the application sets it beside the file",
    );
  return withManage(command)
    .addHelpText("after", IDENTITY_HELP)
    .addHelpText("after", EXAMPLES)
    .action((identity: string, flags: Flags) => block(io, identity, flags));
}

const EXAMPLES = `
Examples:
  tidegate block ip:203.0.113.7 --policy limits.yaml --for 1h --reason "scraping, ticket 1234"
  tidegate block user:42 --policy limits.yaml --for forever --yes
  tidegate block user:42 --policy limits.yaml --for 15m --dry-run`;

/** An option of this command, and not of the limiter. */
function spanFault(error: unknown): CliError | undefined {
  const { option, message } = error as { option?: unknown; message?: unknown };
  if (option !== "block.span") return undefined;
  return new CliError("TIDEGATE_CLI_OPTION", plain(String(message).replace("block.span", "--for")));
}

async function block(io: Io, identity: string, flags: Flags): Promise<void> {
  const subject = await subjectOf(io, identity, flags);
  const { file, somebody, counted } = subject;
  if (file.config.blocking !== true && !flags.force) {
    const advice = "Add it, or say --force where the application sets it beside the file";
    io.fail(
      "TIDEGATE_BLOCKING_OFF",
      `${file.name} has no \`blocking: true\`: an application that reads it heeds no block. ${advice}.`,
    );
  }
  if (!counted)
    io.note(
      io.errorColour.yellow(
        `No policy of ${file.name} counts ${somebody.told}: nobody may ever look for this block.`,
      ),
    );
  const { for: span, reason = "" } = flags;
  const time = span === "forever" ? "until unblocked" : `for ${plain(span, 20)}`;
  const why = reason === "" ? "" : `, because "${plain(reason, 100)}"`;
  await change(io, subject, flags, {
    action: "block",
    what: `block ${somebody.told} ${time}${why}`,
    told: { for: span, reason },
    async act(limiter, who) {
      await limiter.block(who, span, reason).catch((error: unknown) => {
        throw spanFault(error) ?? error;
      });
    },
  });
}
