/** For TypeScript and editors: what `expect.extend(matchers)` adds. */
import type { RateLimitMatchers } from "@tidegate/core/testing";

declare module "vitest" {
  interface Matchers<T = any> extends RateLimitMatchers {}
}
