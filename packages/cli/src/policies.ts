import { type By, type Config, type IdentitySource, type Policy, slidingWindow } from "@tidegate/core";
import { policiesFrom } from "@tidegate/policy-file";
import type { Io } from "./io.ts";
import { plain } from "./plain.ts";

/** A policy file, as far as commands look at it. */
export interface PolicyFile {
  /** As it was given, fit for a terminal. */
  readonly name: string;
  readonly config: Config;
}

/** @throws PolicyFileError when it is missing, or wrong */
export function readPolicies({ env }: Pick<Io, "env">, file: string, prefix?: string): PolicyFile {
  const config: Config = { ...policiesFrom(file, { env: (name) => env[name] }) };
  return { name: plain(file), config: prefix === undefined ? config : { ...config, prefix } };
}

type Part = Pick<Config, "policies" | "limit" | "window">;

/** The policies that a configuration or a route has of its own; `undefined`: none. */
export function policiesIn({ policies, limit, window }: Part): Readonly<Record<string, Policy>> | undefined {
  if (limit !== undefined && window !== undefined) return { default: slidingWindow({ limit, window }) };
  return policies as Readonly<Record<string, Policy>> | undefined;
}

/** The names of a file's policies, those of routes too, and of those that count everybody together. */
export function namesOf(config: Config): { readonly all: string[]; readonly shared: string[] } {
  const routes = Object.values(config.routes ?? {}).filter((route) => route !== false);
  const parts = [config, ...routes].flatMap((part) =>
    Object.entries(policiesIn(part) ?? {}).map(([name, policy]) => ({
      name,
      by: policy.by ?? part.by ?? config.by,
    })),
  );
  const names = (kept: typeof parts) => [...new Set(kept.map(({ name }) => name))];
  return { all: names(parts), shared: names(parts.filter(({ by }) => isConstant(by))) };
}

const isConstant = (by: By | undefined): boolean =>
  (by as IdentitySource | undefined)?.constant !== undefined;
