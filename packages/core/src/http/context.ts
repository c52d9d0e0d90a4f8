import type { RequestContext } from "../identity/identity.ts";
import { entriesOf, isUnbelieved, type Proxies, type Trust } from "../identity/proxy.ts";
import type { Asked } from "./exchange.ts";

/** What sources of identities see of a request. Nothing is worked out before somebody asks, and nothing twice. */
export class HttpContext<R> implements RequestContext<R> {
  readonly #asked: Asked<R>;
  readonly #proxies: Proxies | undefined;
  readonly #warn: (trust: Trust["whom"]) => void;
  #address: string | undefined;
  #knowsAddress = false;
  #query: URLSearchParams | undefined;

  /** @param warn told whom the application believes, when a request was forwarded and its address is asked for */
  constructor(asked: Asked<R>, proxies: Proxies | undefined, warn: (whom: Trust["whom"]) => void) {
    this.#asked = asked;
    this.#proxies = proxies;
    this.#warn = warn;
  }

  get request(): R {
    return this.#asked.request;
  }

  get state(): object {
    return this.#asked.state;
  }

  get peer(): string | undefined {
    return this.#asked.peer;
  }

  get address(): string | undefined {
    if (this.#knowsAddress) return this.#address;
    this.#knowsAddress = true;
    return (this.#address = this.#findAddress());
  }

  header(name: string): string | undefined {
    return this.#asked.header(name);
  }

  query(name: string): string | undefined {
    this.#query ??= new URLSearchParams(queryOf(this.#asked.url));
    return this.#query.get(name) ?? undefined;
  }

  #findAddress(): string | undefined {
    const forwardedFor = this.#asked.header("x-forwarded-for");
    const address = this.#clientOf(forwardedFor);
    if (forwardedFor !== undefined) {
      const { whom } = this.#proxies?.trust ?? this.#asked.trust;
      this.#warn(isUnbelieved(this.#asked.peer, address) ? "nobody" : whom);
    }
    return address;
  }

  #clientOf(forwardedFor: string | undefined): string | undefined {
    const { peer, trust } = this.#asked;
    if (this.#proxies) return this.#proxies.clientOf(peer, forwardedFor);
    // An entry that is missing was not written by a proxy of the application's: then no entry is believed.
    if (trust.hops !== undefined && entriesOf(forwardedFor) < trust.hops) return peer;
    return this.#asked.address;
  }
}

export function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end < 0 ? url : url.slice(0, end);
}

function queryOf(url: string): string {
  const start = url.indexOf("?");
  return start < 0 ? "" : url.slice(start + 1);
}
