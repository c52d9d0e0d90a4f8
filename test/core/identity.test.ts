import {
  createLimiter,
  type Identity,
  identity,
  ipOf,
  slidingWindow,
  type Store,
  tenant,
  user,
} from "@tidegate/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

const KEY = /^rl:\{[a-z]+:[A-Za-z0-9._~-]{1,64}\}:p:sw$/;

/** The key under which an identity is counted. */
async function keyOf(who: Identity | string | number): Promise<string> {
  let key = "";
  const store: Store = {
    decide(batch, done) {
      key = batch[0]!.keys[0]!;
      done[0]!(undefined, { granted: true, now: 1, words: [0, 0], blockedUs: undefined, replayed: false });
    },
    settle: (_, done) => done(undefined, 0),
    forget: (_, done) => done(undefined, 0),
    block: (_, __, ___, done) => done(undefined, 0),
    close: async () => {},
  };
  const policies = { p: slidingWindow({ limit: 1, window: 1000 }) };
  await createLimiter({ store, policies }).decide({ identity: who });
  return key;
}

describe("a key", () => {
  it.each([
    ["42", "rl:{id:42}:p:sw"],
    [42, "rl:{id:42}:p:sw"],
    [0, "rl:{id:0}:p:sw"],
    ["0", "rl:{id:0}:p:sw"],
    [user("42"), "rl:{user:42}:p:sw"],
    [tenant("acme"), "rl:{tenant:acme}:p:sw"],
    [identity("a.b_c~d-e"), "rl:{id:a.b_c~d-e}:p:sw"],
    [ipOf("203.0.113.7"), "rl:{ip:203.0.113.7}:p:sw"],
    [ipOf(undefined), "rl:{ip:none}:p:sw"],
    [ipOf("[fe80::1%eth0]:443"), "rl:{ip:fe80000000000000}:p:sw"],
    [ipOf("::ffff:203.0.113.7"), "rl:{ip:203.0.113.7}:p:sw"],
    // An address of IPv6, however it is written.
    [ipOf("::1.2.3.4"), "rl:{ip:0000000000000000}:p:sw"],
    [ipOf("::102:304"), "rl:{ip:0000000000000000}:p:sw"],
  ] as [Identity | string | number, string][])("of %j is %s", async (who, key) => {
    expect(await keyOf(who)).toBe(key);
  });

  const odd = [
    "a{b",
    "{}",
    "{x}{y}",
    "}{",
    "x".repeat(65),
    "y".repeat(1024),
    "a:b",
    "a b",
    "ü",
    "\n",
    "__proto__ ",
    "h.x",
    "h.",
    "\u0000",
  ];

  it.each(odd)("holds no odd text: %j", async (text) => {
    const key = await keyOf(text);
    expect(key).toMatch(/^rl:\{id:h\.[A-Za-z0-9_-]{22}\}:p:sw$/);
    expect(Buffer.byteLength(key)).toBeLessThanOrEqual(256);
  });

  it("is another for every other text, and a digest cannot be asked for by name", async () => {
    const texts = [...odd, "__proto__", "constructor", "a", "A"];
    const keys = await Promise.all(texts.map(keyOf));
    expect(new Set(keys).size).toBe(texts.length);
    const digest = /id:(h\.[^}]+)/.exec(await keyOf("a:b"))![1]!;
    expect(await keyOf(digest)).not.toBe(await keyOf("a:b"));
  });

  it("follows the grammar whatever the text", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ minLength: 1, unit: "binary" }), async (text) => {
        expect(await keyOf(text)).toMatch(KEY);
      }),
      { numRuns: 300 },
    );
  });

  it("of an identity made by hand is made safe too", async () => {
    expect(await keyOf({ kind: "team", value: "a}b" })).toMatch(/^rl:\{team:h\./);
  });
});
