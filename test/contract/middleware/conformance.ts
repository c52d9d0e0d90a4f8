/** The contract of every framework's package: one table of situations, the same answers to the byte. */
import { describe } from "vitest";
import { useRedis } from "../../harness/http.ts";
import { afterwards } from "./afterwards.ts";
import { answers } from "./answers.ts";
import { identities } from "./identities.ts";
import type { Kit } from "./kit.ts";
import { routes } from "./routes.ts";

export function conformance(kit: Kit): void {
  describe(kit.name, () => {
    const redis = useRedis();
    answers(kit, redis);
    routes(kit, redis);
    identities(kit, redis);
    afterwards(kit, redis);
  });
}
