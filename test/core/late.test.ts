import { setTimeout as sleep } from "node:timers/promises";
import { concurrency, createLimiter, fixedWindow, memoryStore, type Store } from "@tidegate/core";
import { describe, expect, it } from "vitest";

/** Decides at once, and is slow to say so. */
function slowToAnswer(store: Store, ms: number): Store {
  return {
    ...store,
    decide(batch, done) {
      store.decide(
        batch,
        done.map((each) => (error, outcome) => void setTimeout(each, ms, error, outcome)),
      );
    },
  };
}

const policies = {
  day: fixedWindow({ limit: 10, window: "1d" }),
  slots: concurrency({ limit: 3 }),
};

/** What is left of each policy once a late answer has arrived. */
async function leftAfterLateGrant(onFailure: "open" | "closed") {
  const store = memoryStore();
  const late = createLimiter({ store: slowToAnswer(store, 60), policies, timeoutMs: 20, onFailure });
  const decision = await late.decide({ identity: "somebody" });
  expect(decision.degraded).toEqual({ rule: onFailure, reason: "timeout" });
  await sleep(80);
  const { verdicts } = await createLimiter({ store, policies }).peek({ identity: "somebody" });
  await store.close();
  return verdicts.map(({ remaining }) => remaining);
}

describe("a grant that arrives when the rule has answered", () => {
  it("stays charged where the rule let the request pass, but holds no slot in flight", async () => {
    expect(await leftAfterLateGrant("open")).toEqual([9, 3]);
  });

  it("is given back where the rule refused", async () => {
    expect(await leftAfterLateGrant("closed")).toEqual([10, 3]);
  });
});
