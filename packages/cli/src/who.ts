import { isIP } from "node:net";
import { apiKey, type Identity, identity, ipOf, tenant, user } from "@tidegate/core";
import { CliError } from "./errors.ts";
import { nearestText } from "./nearest.ts";
import { plain } from "./plain.ts";

/** Somebody, as named on the command line. */
export interface Somebody {
  /** As it was given, fit for a terminal. */
  readonly told: string;
  readonly kind: string;
  /** As it would count by itself. */
  readonly identity: Identity;
  /** What a request of theirs would carry. Nothing where the name was taken from a key: then it stands as it is. */
  readonly carries: {
    readonly address?: string;
    readonly user?: string;
    readonly tenant?: string;
    readonly apiKey?: string;
  };
}

/** The grammar, for help texts. */
export const IDENTITY_HELP = `
An identity is one of
  user:42, tenant:acme     as the application names them
  ip:203.0.113.7           an address; IPv6 counts by its prefix
  key:zAVvCDZnRxo…         an API key, by the digest that stands in its Redis key
  key:-                    an API key, read from standard input
  {user:h.Wn9…}            as it stands in a Redis key; a whole key will do
  both:user:42+ip:1.2.3.4  who is counted by two together
  globally                 all requests together
  anything else, or id:…   an id, as a function of yours returns it`;

const KINDS = ["user", "tenant", "ip", "key", "id", "both", "all"];

/** As a key has it between braces: the value is fit for a key, and stays as it is. */
const IN_KEY = /\{([a-z]{1,16}):([A-Za-z0-9._~-]{1,64})(?:#\d{3})?\}/;

/** A 128-bit digest in base64url. */
const DIGEST = /^[A-Za-z0-9_-]{22}$/;

/**
 * @param given what standard input held, where `key:-` asks for it
 * @throws CliError when the text names nobody
 */
export function somebodyIn(text: string, given?: string): Somebody {
  const told = plain(text, 100);
  const [, inKey, exactly] = IN_KEY.exec(text) ?? [];
  if (inKey !== undefined && exactly !== undefined) return exact(told, inKey, exactly);
  if (text === "globally") return exact(told, "all", "-");
  const [, kind = "id", value = text] = /^([a-z]+):(.*)$/s.exec(text) ?? [];
  if (value === "") throw wrong(`"${told}" names nobody`);
  if (kind === "ip") return address(told, value);
  if (kind === "key") return key(told, value, given);
  const made = { told, kind, carries: {} };
  if (kind === "user") return { ...made, identity: user(value), carries: { user: value } };
  if (kind === "tenant") return { ...made, identity: tenant(value), carries: { tenant: value } };
  if (kind === "id") return { ...made, identity: identity(value) };
  if (kind === "both") return pair(told, value, given);
  if (kind === "all") return exact(told, kind, "-");
  throw wrong(
    `there is no kind "${plain(kind, 20)}"${nearestText(kind, KINDS)}. An id with a colon in it is written id:${told}`,
  );
}

/** The mark of what makers made comes along: the value is not made fit a second time. */
export const exact = (told: string, kind: string, value: string): Somebody => ({
  told,
  kind,
  identity: { ...identity("-"), kind, value },
  carries: {},
});

/** Between two, a kind follows. */
const PLUS = /\+(?=[a-z]+:)/;

/** Who is counted by two together, as `user().and(ip())` counts. */
function pair(told: string, value: string, given: string | undefined): Somebody {
  const both = value.split(PLUS).map((text) => somebodyIn(text, given));
  if (both.length !== 2) throw wrong(`"${told}": a pair is written both:user:42+ip:203.0.113.7`);
  const texts = both.map(({ identity: { kind, value } }) => `${kind}:${value}`);
  const carries = Object.assign({}, ...both.map(({ carries }) => carries)) as Somebody["carries"];
  return { told, kind: "both", identity: { kind: "both", value: texts.join("+") }, carries };
}

function address(told: string, value: string): Somebody {
  const found = ipOf(value);
  if (found.value !== "none" || value === "none")
    return { told, kind: "ip", identity: found, carries: value === "none" ? {} : { address: value } };
  // The prefix of an IPv6 address, as keys have it.
  if (isIP(value) === 0 && /^[0-9a-f]{1,32}$/.test(value)) return exact(told, "ip", value);
  throw wrong(`"${told}": this is no address`);
}

function key(told: string, value: string, given: string | undefined): Somebody {
  if (value === "-") {
    if (given === undefined || given === "") throw wrong("key:-: there is no API key on standard input");
    return { told, kind: "key", identity: digested(given), carries: { apiKey: given } };
  }
  if (DIGEST.test(value)) return exact(told, "key", value);
  throw wrong(
    "key: give the digest, 22 characters, as the Redis key has it; or key:- and the API key on standard input, so that it stands in no list of processes",
  );
}

/** As a source without a secret counts it. The API key itself stands nowhere. */
function digested(given: string): Identity {
  const nothing = {
    request: undefined,
    state: {},
    address: undefined,
    peer: undefined,
    query: () => undefined,
  };
  return apiKey({ header: "x" }).identify({ ...nothing, header: () => given }) as Identity;
}

const wrong = (message: string) => new CliError("TIDEGATE_CLI_IDENTITY", `identity: ${message}.`);
