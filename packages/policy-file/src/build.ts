import {
  apiKey,
  type Config,
  concurrency,
  ConfigError,
  fixedWindow,
  gcra,
  globally,
  type IdentitySource,
  ip,
  type Policy,
  route,
  type RouteOverride,
  slidingLog,
  slidingWindow,
  tenant,
  tokenBucket,
  user,
} from "@tidegate/core";
import { tell } from "./check.ts";
import type { PolicyFileConfig } from "./policies-from.ts";
import type { Problems } from "./problems.ts";
import type { Data, Entries, Reading } from "./read.ts";

/** Reads an environment variable. */
export type Env = (name: string) => string | undefined;

/** The makers by the names of their algorithms. Each checks its own options. */
const MAKERS: Readonly<Record<string, (options: any) => Policy>> = {
  tokenBucket,
  gcra,
  slidingWindow,
  slidingLog,
  fixedWindow,
  concurrency,
};

const SOURCES: Readonly<Record<string, () => IdentitySource>> = {
  ip: () => ip(),
  user: () => user(),
  tenant: () => tenant(),
  route,
  globally,
};

/** Stands for a policy that cannot be made, so that the rest can be checked. */
const STAND_IN = slidingWindow({ limit: 1, window: 1 });

/** Makes the configuration that a file says. What cannot be made is told, and a stand-in takes its place. */
export function build(reading: Reading, problems: Problems, env: Env): PolicyFileConfig {
  return new Builder(reading, problems, env).config();
}

class Builder {
  readonly #reading: Reading;
  readonly #problems: Problems;
  readonly #env: Env;
  readonly #made = new Map<Data, Policy>();
  #own: Readonly<Record<string, Policy>> = {};

  constructor(reading: Reading, problems: Problems, env: Env) {
    this.#reading = reading;
    this.#problems = problems;
    this.#env = env;
  }

  config(): PolicyFileConfig {
    const data = Object.fromEntries(
      Object.entries(this.#reading.data ?? {}).filter(([name]) => name !== "$schema"),
    );
    const { policies, headers, routes } = data;
    if (policies !== undefined)
      this.#own = this.#all(policies as Entries, (policy, name) => this.#policy(policy, `policies.${name}`));
    return {
      ...this.#scope(data as Entries, ""),
      ...(policies !== undefined && { policies: this.#own }),
      ...(headers !== undefined && { headers: this.#headers(headers as Entries) }),
      ...(routes !== undefined && {
        routes: this.#all(routes as Entries, (line, name) => this.#route(line, `routes.${name}`)),
      }),
    } as PolicyFileConfig;
  }

  /** The file or a route, without a shortest form that is told of already. */
  #scope(data: Entries, at: string): Record<string, unknown> {
    const { limit, window, ...rest } = this.#part(data, at);
    const isWhole = limit !== undefined && window !== undefined && rest["policies"] === undefined;
    return isWhole ? { ...rest, limit, window } : rest;
  }

  /** What the file, a route and a policy have in common. */
  #part(data: Entries, at: string): Record<string, unknown> {
    const { by, onFailure } = data;
    return {
      ...data,
      ...(by !== undefined && { by: this.#source(by, under(at, "by")) }),
      ...(onFailure !== undefined && { onFailure: this.#rule(onFailure, under(at, "onFailure")) }),
    };
  }

  #policy(data: Data, at: string): Policy {
    const before = this.#made.get(data);
    if (before) return before;
    const { algorithm, ...options } = data as { algorithm: string } & Entries;
    const given = this.#part(options as Entries, at);
    const policy = this.#reading.isUnsound(data)
      ? STAND_IN
      : this.#try(at, algorithm, STAND_IN, () => MAKERS[algorithm]!(given));
    this.#made.set(data, policy);
    return policy;
  }

  #route(data: Data, at: string): RouteOverride | false {
    if (typeof data !== "object") return false;
    const { policies } = data as Entries;
    return {
      ...this.#scope(data as Entries, at),
      ...(policies !== undefined && { policies: this.#named(policies, `${at}.policies`) }),
    } as RouteOverride;
  }

  /** The policies of a route: its own, and those of the file by name. */
  #named(data: Data, at: string): Record<string, Policy> {
    if (!Array.isArray(data))
      return this.#all(data as Entries, (policy, name) =>
        typeof policy === "string"
          ? this.#known(policy, `${at}.${name}`)
          : this.#policy(policy, `${at}.${name}`),
      );
    const names = data as readonly string[];
    const policies: [string, Policy][] = names.map((name, i) => {
      if (names.indexOf(name) < i)
        this.#fault(`${at}.${i}`, `${name} stands here already; take one away`, name);
      return [name, this.#known(name, `${at}.${i}`)];
    });
    return Object.fromEntries(policies);
  }

  #known(name: string, at: string): Policy {
    if (Object.hasOwn(this.#own, name)) return this.#own[name]!;
    const known = Object.keys(this.#own).join(", ");
    const advice = known === "" ? "the file has none under policies" : `known are ${known}`;
    // What is in the file, and could not be read, is told there.
    if (!this.#problems.touches(`policies.${name}`))
      this.#fault(at, `there is no policy "${name}"; ${advice}`, name);
    return STAND_IN;
  }

  #source(data: Data, at: string): IdentitySource {
    if (typeof data === "string") return SOURCES[data]!();
    const [[kind, options] = ["", ""]] = Object.entries(data as Entries);
    if (this.#reading.isUnsound(data)) return globally();
    const inner = under(at, kind);
    if (kind === "ip") return this.#try(at, "", globally(), () => ip(options as object));
    if (kind === "apiKey")
      return this.#try(at, "", globally(), () => apiKey(this.#withSecret(options as Entries, inner)));
    const [first, ...rest] = (options as readonly Data[]).map((one, i) => this.#source(one, `${inner}.${i}`));
    return rest.reduce((all, one) => (kind === "or" ? all.or(one) : all.and(one)), first!);
  }

  #rule(data: Data, at: string): Config["onFailure"] {
    if (typeof data === "string") return data as "open";
    const { local } = data as Entries;
    if (local === undefined) return "open";
    return {
      local: this.#all(local as Entries, (policy, name) => this.#policy(policy, `${at}.local.${name}`)),
    };
  }

  #headers(headers: Entries): object {
    const { partitionKey } = headers;
    if (typeof partitionKey !== "object") return headers;
    return { ...headers, partitionKey: this.#withSecret(partitionKey as Entries, "headers.partitionKey") };
  }

  /** The secret itself, where the name of a variable stands. */
  #withSecret({ secretFromEnv, ...rest }: Entries, at: string): object {
    if (typeof secretFromEnv !== "string") return rest;
    const secret = this.#env(secretFromEnv);
    if (secret !== undefined && secret !== "") return { ...rest, secret };
    const option = `${at}.secretFromEnv`;
    this.#fault(
      option,
      `set the environment variable ${secretFromEnv}; it is ${secret === "" ? "empty" : "not set"}`,
    );
    return { ...rest, secret: "none" };
  }

  #all<T>(data: Entries, make: (value: Data, name: string) => T): Record<string, T> {
    return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, make(value, name)]));
  }

  /** @param maker whose name begins the options of its errors, and is none in the file */
  #try<T>(at: string, maker: string, standIn: T, make: () => T): T {
    try {
      return make();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const own = maker === "" ? error.option : error.option.slice(maker.length + 1);
      tell(error, under(at, own), this.#reading, this.#problems);
      return standIn;
    }
  }

  #fault(option: string, message: string, value?: string): void {
    this.#problems.add({ place: this.#reading.placeOf(option), option, message, value });
  }
}

const under = (at: string, name: string): string => (at === "" ? name : `${at}.${name}`);
