/** Whether there is a server at all. */
import { errorIn, type Failure } from "../ask.ts";
import type { Facts } from "../facts.ts";
import { type Found, found } from "../finding.ts";
import { notReady, wordOf } from "./server.ts";

/** What keeps a connection from coming about. */
export function troubleFound({ error, about }: Failure, address: string): Found {
  const { reason, message } = error;
  const word = wordOf(message);
  if (about === "cluster") return noCluster(address);
  if (reason === "denied") return word === "NOPERM" ? mayNotLook(address) : notLetIn(address, word);
  if (reason === "unavailable" || reason === "readonly") return notReady(message);
  if (reason === "unknown" && !/^E[A-Z]{3,}$/.test(word ?? "")) return strange(address, word);
  return unreachable(address, reason === "timeout" ? message : (word ?? message));
}

function noCluster(address: string): Found {
  const message = `There is a server, and no Cluster: ${address}.`;
  const advice = "Give a client of one server as redis: new Redis(port, host), or a URL.";
  return found("TOPOLOGY", "must", message, advice);
}

function notLetIn(address: string, word: string | undefined): Found {
  const none = word === "NOAUTH";
  const message = none
    ? `${address} wants a user and a password.`
    : `${address} refuses the user or the password.`;
  const advice = "Put them into the URL, redis://user:password@host:6379, or into the client's options.";
  return found("LOGIN", "must", message, advice, { word });
}

function mayNotLook(address: string): Found {
  const message = `${address}: the user may not ask which server has which slots.`;
  const advice = "ACL SETUSER <user> +cluster|slots";
  return found("RIGHTS", "must", message, advice, { missing: ["cluster|slots"] });
}

function strange(address: string, word = "no code"): Found {
  const advice =
    "Look at the port, and at what stands before the server: a proxy may not let everything through.";
  return found("CONNECTION", "must", `${address} does not answer as Redis does (${word}).`, advice, { word });
}

function unreachable(address: string, why: string): Found {
  const advice = [
    "Look at host and port, at TLS (rediss://), and at what stands between; redis-cli -h HOST -p PORT ping asks the same.",
    "A server that loads its data is not there yet, and in a Cluster the user needs +cluster|slots.",
  ].join(" ");
  return found("CONNECTION", "must", `There is no answer from ${address}: ${why}.`, advice, { why });
}

/** Whether a server stopped answering while it was asked. */
export function silenceFound({ address, info, config, user, sent, denied, runs }: Facts): Found[] {
  const errors = [info, config, user, ...sent.values(), denied, ...runs].map(errorIn);
  const error = errors.find((each) => each?.reason === "timeout" || each?.reason === "connection");
  return error ? [unreachable(address, error.message)] : [];
}
