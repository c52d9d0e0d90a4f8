import { StoreError } from "../errors.ts";

/** The scripts need Redis 7.0; Valkey calls itself Redis 7.2.4. A server that tells nothing is taken to be fit. */
export function tooOld(info: unknown): StoreError | undefined {
  const version = /^redis_version:(\d+)\.(\S+)/m.exec(String(info));
  if (!version || Number(version[1]) >= 7) return undefined;
  const found = `the server is Redis ${version[1]}.${version[2]}`;
  return new StoreError("server", `${found}; Redis 7.0 or Valkey 7.2 or newer is needed`);
}

/** The server's clock, µs, out of INFO. */
export function timeIn(info: unknown): number | undefined {
  const found = /^server_time_usec:(\d+)/m.exec(String(info));
  return found ? Number(found[1]) : undefined;
}
