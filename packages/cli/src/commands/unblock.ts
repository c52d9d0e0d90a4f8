import { Command } from "commander";
import { change, type ManageFlags, subjectOf, withManage } from "../manage.ts";
import type { Io } from "../io.ts";
import { IDENTITY_HELP } from "../who.ts";

/** `tidegate unblock`: ends a block. */
export function unblockCommand(io: Io): Command {
  const command = new Command("unblock")
    .summary("end a block")
    .description("Ends a block. What was counted meanwhile stays.");
  return withManage(command)
    .addHelpText("after", IDENTITY_HELP)
    .addHelpText("after", EXAMPLES)
    .action((identity: string, flags: ManageFlags) => unblock(io, identity, flags));
}

const EXAMPLES = `
Examples:
  tidegate unblock ip:203.0.113.7 --policy limits.yaml
  tidegate unblock user:42 --policy limits.yaml --yes`;

async function unblock(io: Io, identity: string, flags: ManageFlags): Promise<void> {
  const subject = await subjectOf(io, identity, flags);
  await change(io, subject, flags, {
    action: "unblock",
    what: `unblock ${subject.somebody.told}`,
    act: (limiter, who) => limiter.unblock(who),
  });
}
