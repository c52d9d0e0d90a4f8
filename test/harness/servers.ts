/** The servers that `npm test` has made ready to start. Tests fetch nothing: they read what it wrote down. */
import { existsSync, readFileSync } from "node:fs";
import { listFile, type Server, type ServerName, serverNames } from "../../scripts/servers.js";

export type { ServerName };

function listed(name: ServerName): Server {
  const list: Server[] = existsSync(listFile) ? JSON.parse(readFileSync(listFile, "utf8")) : [];
  return list.find((server) => server.name === name) ?? { name, missing: "run `node scripts/servers.js`." };
}

/** A server's version, and how it is started. Throws with the reason when it is not there. */
export function serverOf(name: ServerName) {
  const server = listed(name);
  if ("command" in server) return server;
  throw new Error(`${name} is not to be had: ${server.missing}`);
}

export const isDebian =
  existsSync("/etc/os-release") && /^ID=debian$/m.test(readFileSync("/etc/os-release", "utf8"));

/** What is to be tested: on Debian every server, so that one that is missing fails; elsewhere those that are there. */
export const servers: readonly ServerName[] = serverNames.filter(
  (name) => isDebian || "command" in listed(name),
);
