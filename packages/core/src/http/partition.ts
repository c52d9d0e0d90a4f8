import { createHmac } from "node:crypto";
import type { PartitionKeySetting } from "../header-options.ts";

/** 72 bits: twelve characters of base64 without padding. */
const BYTES = 9;

/**
 * `pk` of a policy and an identity, in base64; `undefined` when the user's function gives no bytes.
 * source: draft-ietf-httpapi-ratelimit-headers-11 §3.1.4
 */
export function partitionOf(
  setting: PartitionKeySetting,
  policy: string,
  identity: string,
  request: unknown,
): string | undefined {
  if (typeof setting === "function") {
    const bytes: unknown = setting({ policy, identity, request });
    return bytes instanceof Uint8Array ? Buffer.from(bytes).toString("base64") : undefined;
  }
  const mac = createHmac("sha256", setting.secret).update(`${policy}\0${identity}`).digest();
  return mac.subarray(0, BYTES).toString("base64");
}
