import type { Refusal } from "../config.ts";
import { stateFields } from "./headers.ts";
import type { Events } from "../observe/events.ts";
import type { Settings } from "../settings.ts";
import type { Exchange } from "./exchange.ts";
import type { Ruling } from "./ruling.ts";
import type { Header } from "./items.ts";
import { bodyOf } from "./problem.ts";
import { isThenable } from "../identity/sources.ts";
import type { UserFunctions } from "./user-functions.ts";

/** What a response is written by. */
export interface Manner<R, S> {
  readonly settings: Settings<R, S>;
  readonly events: Events;
  readonly functions: UserFunctions<R>;
  /** The fields that scripts of other origins may read; none: these say nothing of it. */
  readonly exposed: readonly string[];
}

/**
 * Does to a response what a ruling says. `done` hears whether the request goes on. Somebody may have begun to answer,
 * or have answered, while the decision was under way: it counts all the same, and nothing is written over.
 */
export function respond<R, S>(
  exchange: Exchange<R, S>,
  ruling: Ruling,
  manner: Manner<R, S>,
  done: (passes: boolean) => void,
): void {
  const { answered } = exchange;
  if (ruling.kind === "skip") return done(!answered);
  exchange.keep(ruling.decision);
  writeHead(exchange, ruling.headers, manner);
  if (ruling.kind === "pass" && ruling.settle) settleAfter(exchange, ruling.settle);
  if (answered) return done(false);
  if (ruling.kind === "pass") return done(true);
  if (exchange.headersSent) {
    exchange.end();
    return done(false);
  }
  refuse(exchange, ruling.refusal, manner, () => done(false));
}

function writeHead<R, S>(
  exchange: Exchange<R, S>,
  headers: readonly Header[],
  { settings, events, exposed }: Manner<R, S>,
): void {
  if (exchange.headersSent) {
    events.note(
      "TIDEGATE_HEADERS_SENT",
      "A response had begun before its request was decided, so it says nothing of limits. Mount the limiter before whatever answers.",
    );
    return;
  }
  for (const [name, value] of headers) exchange.setHeader(name, value);
  if (exposed.length > 0) exchange.setHeader(EXPOSE, withNames(exchange.getHeader(EXPOSE), exposed));
  if (settings.headers.omitOnRedirect) leaveOutOfRedirects(exchange, settings);
}

const EXPOSE = "Access-Control-Expose-Headers";

/** A list of field names with these in it, each once. */
function withNames(list: string | undefined, names: readonly string[]): string {
  const there = (list ?? "").split(",").map((name) => name.trim());
  const known = new Set(there.map((name) => name.toLowerCase()));
  return [...there.filter(Boolean), ...names.filter((name) => !known.has(name.toLowerCase()))].join(", ");
}

/** 304 is an answer about the resource itself; the others send the client elsewhere. source: RFC 9110 §15.4 */
const REDIRECTS = [301, 302, 303, 307, 308];

function leaveOutOfRedirects<R, S>(exchange: Exchange<R, S>, settings: Settings<R, S>): void {
  const fields = stateFields(settings.headers);
  if (fields.length === 0) return;
  exchange.beforeHead(() => {
    if (REDIRECTS.includes(exchange.status)) for (const name of fields) exchange.setHeader(name, undefined);
  });
}

function settleAfter(exchange: Exchange, settle: NonNullable<(Ruling & { kind: "pass" })["settle"]>): void {
  exchange.afterwards((whole) =>
    settle({ status: exchange.headersSent ? exchange.status : undefined, aborted: !whole }),
  );
}

function refuse<R, S>(
  exchange: Exchange<R, S>,
  refusal: Refusal,
  { settings: { onLimited }, functions }: Manner<R, S>,
  done: () => void,
): void {
  exchange.setStatus(refusal.status);
  if (!onLimited) {
    const { contentType, text } = bodyOf(refusal, {});
    exchange.send(contentType, text);
    return done();
  }
  const asked = functions.answerOf(
    () => onLimited(refusal, exchange.request, exchange.response),
    () => exchange.answered || exchange.headersSent,
  );
  const finish = (answer: Awaited<typeof asked>) => {
    if (!exchange.answered && !exchange.headersSent) {
      const { status, contentType, text } = bodyOf(refusal, answer);
      exchange.setStatus(status);
      exchange.send(contentType, text);
    }
    done();
  };
  if (isThenable(asked)) void asked.then(finish);
  else finish(asked);
}
