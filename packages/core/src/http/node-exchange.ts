import type { IncomingMessage, ServerResponse } from "node:http";
import onHeaders from "on-headers";
import type { Decision } from "../decision.ts";
import type { Trust } from "../identity/proxy.ts";
import type { Exchange } from "./exchange.ts";

const NOBODY: Trust = { whom: "nobody" };

/**
 * A request and its response as Node has them: what a framework's own exchange begins with. Something that only looks
 * like a response is written as far as it can be.
 */
export class NodeExchange<R, S> implements Exchange<R, S> {
  readonly request: R;
  readonly response: S;
  readonly raw: IncomingMessage;
  /** Node's own response. */
  protected readonly outgoing: ServerResponse;

  constructor(request: R, response: S, raw: IncomingMessage, outgoing: ServerResponse) {
    this.request = request;
    this.response = response;
    this.raw = raw;
    this.outgoing = outgoing;
  }

  get method(): string {
    return this.raw.method ?? "GET";
  }

  get url(): string {
    return this.raw.url ?? "/";
  }

  get peer(): string | undefined {
    return this.raw.socket?.remoteAddress;
  }

  get address(): string | undefined {
    return this.peer;
  }

  get trust(): Trust {
    return NOBODY;
  }

  get state(): object {
    return this.request as object;
  }

  get route(): string | undefined {
    return undefined;
  }

  header(name: string): string | undefined {
    const value = this.raw.headers?.[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  get headersSent(): boolean {
    return this.outgoing.headersSent;
  }

  get answered(): boolean {
    return this.outgoing.writableEnded;
  }

  get status(): number {
    return this.outgoing.statusCode;
  }

  getHeader(name: string): string | undefined {
    return textOf(this.outgoing.getHeader?.(name));
  }

  setHeader(name: string, value: string | undefined): void {
    if (value === undefined) this.outgoing.removeHeader?.(name);
    else this.outgoing.setHeader?.(name, value);
  }

  setStatus(status: number): void {
    this.outgoing.statusCode = status;
  }

  keep(decision: Decision): void {
    (this.state as { rateLimit?: Decision }).rateLimit = decision;
  }

  beforeHead(act: () => void): void {
    onHeaders(this.outgoing, act);
  }

  /** `finish` comes for a response that is whole, `close` for one that is not; after a whole one both, or one alone. */
  afterwards(act: (whole: boolean) => void): void {
    if (this.outgoing.closed) return act(this.outgoing.writableFinished);
    let over = false;
    const end = (whole: boolean) => {
      if (!over) act(whole);
      over = true;
    };
    this.outgoing.once?.("finish", () => end(true));
    this.outgoing.once?.("close", () => end(false));
  }

  send(contentType: string, body: string): void {
    this.setHeader("Content-Type", contentType);
    this.outgoing.end?.(this.method === "HEAD" ? undefined : body);
  }

  end(): void {
    this.outgoing.end?.();
  }
}

/** A field as the wire has it. */
export const textOf = (value: number | string | readonly string[] | undefined): string | undefined =>
  value === undefined ? undefined : Array.isArray(value) ? value.join(", ") : String(value);
