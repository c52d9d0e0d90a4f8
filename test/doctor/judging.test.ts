/**
 * How the doctor judges numbers that no server here can be made to have: its clock cannot be set, and
 * some versions are not to be had. What it is really told stands in the other files of this folder.
 */
import { describe, expect, it } from "vitest";
import { linesOf } from "../../packages/core/src/doctor/ask.ts";
import {
  clockFound,
  clockSpreadFound,
  latencyFound,
  paceOf,
} from "../../packages/core/src/doctor/checks/pace.ts";
import { prefixFound } from "../../packages/core/src/doctor/checks/keys.ts";
import { versionFound } from "../../packages/core/src/doctor/checks/server.ts";
import { nameOf, typeOf } from "../../packages/core/src/doctor/names.ts";
import { bytesText, countText, listText, msText } from "../../packages/core/src/doctor/text.ts";

const ping = (roundTripMs: number, offsetMs: number | undefined) => ({ roundTripMs, offsetMs });
const pace = (offsetMs: number | undefined, roundTripMs = 1) => paceOf([ping(roundTripMs, offsetMs)]);

describe("a clock", () => {
  it.each([
    [0, 1, "ok", "Its clock is 0 ms behind this machine's."],
    [1000, 0, "ok", "Its clock is 1,000 ms ahead of this machine's."],
    [1001, 0, "warning", "Its clock is 1,001 ms ahead of this machine's."],
    [-4500, 1, "warning", "Its clock is 4,500 ms behind this machine's."],
    // So far away, it may be just as well right.
    [1400, 1000, "ok", "Its clock is 1,400 ms ahead of this machine's."],
    [1501, 1000, "warning", "Its clock is 1,501 ms ahead of this machine's."],
  ])("%i ms off, by a round trip of %i ms: %s", (offsetMs, roundTripMs, level, message) => {
    expect(clockFound(pace(offsetMs, roundTripMs))).toMatchObject([{ level, message, value: { offsetMs } }]);
  });

  it("is read from the shortest round trip", () => {
    const pings = [ping(400, 5000), ping(2, 7), ping(90, -300)];
    expect(clockFound(paceOf(pings))).toMatchObject([{ level: "ok", value: { offsetMs: 7 } }]);
  });

  it("that may not be asked is not judged", () => {
    expect(clockFound(pace(undefined))).toEqual([]);
    expect(clockFound(paceOf([]))).toEqual([]);
  });

  it.each([
    [[10, 20, 30], "ok", 20],
    [[-600, 0, 600], "warning", 1200],
    [[5000, 5000, 5001], "ok", 1],
  ])("of a Cluster's servers is compared with the others': %j", (offsets, level, spreadMs) => {
    const paces = [...offsets.map((offset) => pace(offset)), undefined, pace(undefined)];
    expect(clockSpreadFound(paces)).toMatchObject([{ level, value: { spreadMs } }]);
  });

  it("of one server has no other to be compared with", () => {
    expect(clockSpreadFound([pace(9000), undefined])).toEqual([]);
  });
});

describe("a limiter under another prefix", () => {
  const look = (keys: number, elsewhere: [string, number][], complete = true) =>
    ({ census: { keys, complete }, elsewhere: new Map(elsewhere) }) as never;

  it("is looked for in all servers of a Cluster together", () => {
    expect(
      prefixFound(
        [
          look(0, [["shop", 2]]),
          look(0, [
            ["eu", 5],
            ["shop", 4],
          ]),
        ],
        "rl",
      ),
    ).toMatchObject([{ level: "notice", value: { keys: 11, prefixes: ["shop", "eu"] } }]);
  });

  it.each([
    ["one of them has keys of this prefix", [look(0, [["shop", 2]]), look(1, [])]],
    ["not all was looked at", [look(0, [["shop", 2]]), look(0, [], false)]],
    ["there is none", [look(0, []), look(0, [])]],
  ])("is not told of where %s", (_, looks) => expect(prefixFound(looks, "rl")).toEqual([]));
});

describe("a latency", () => {
  it.each([
    [[1, 1, 25], "ok"],
    [[1, 1, 25.1], "warning"],
    [[49, 49, 200], "warning"],
    [[50, 50, 50], "must"],
  ])("of %j ms, where a decision may take 50: %s", (roundTrips, level) => {
    const pings = roundTrips.map((ms) => ping(ms, 0));
    expect(latencyFound(paceOf(pings), 50)).toMatchObject([{ level, value: { maxMs: roundTrips[2] } }]);
  });

  it("of which nothing is known is not judged", () => {
    expect(latencyFound(undefined, 50)).toEqual([]);
  });
});

describe("a version", () => {
  it.each([
    ["redis_version:7.0.15", "ok", "It is Redis 7.0.15."],
    ["redis_version:10.2.0", "ok", "It is Redis 10.2.0."],
    ["redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", "ok", "It is Valkey 8.0.1."],
    ["redis_version:7.4.0\r\nserver_name:dragonfly", "ok", "It is dragonfly 7.4.0."],
    ["redis_version:6.2.14", "must", "It is Redis 6.2.14, which cannot run the scripts"],
    ["os:Linux", "notice", "The server tells no version."],
  ])("%j: %s", (info, level, message) => {
    expect(versionFound(linesOf(`# Server\r\n${info}\r\n`))).toMatchObject([
      { level, message: expect.stringContaining(message) },
    ]);
  });
});

describe("a key's name", () => {
  it.each([
    ["{user:42}:burst:tb", "policy", "hash", "rl:{user:…}:burst:tb"],
    ["{key:arnx6499M4j0-dWG9m6Z_Q}:perIp:sw", "policy", "string", "rl:{key:…}:perIp:sw"],
    ["{ip:203.0.113.7}:login:sl", "policy", "zset", "rl:{ip:…}:login:sl"],
    ["{id:x#018}:split:gc", "policy", "string", "rl:{id:…}:split:gc"],
    [
      "{id:x}:h.ArIFVK9zs23zGA2h7o8T8A.login:cc",
      "policy",
      "zset",
      "rl:{id:…}:h.ArIFVK9zs23zGA2h7o8T8A.login:cc",
    ],
    ["{all:-}:total:fw", "policy", "string", "rl:{all:…}:total:fw"],
    // Of a newer version, which may have more.
    ["{id:x}:p:zz", "policy", undefined, "rl:{id:…}:p:zz"],
    ["{id:x}::q:more", "newer", undefined, "rl:{id:…}::…"],
    ["{id:x}::b", "block", "string", "rl:{id:…}::b"],
    ["{id:x}::n:abc", "nonce", "string", "rl:{id:…}::n:…"],
    ["eu:{id:x}:p:sw", "neighbour", undefined, "rl:…"],
    ["a b:c:{id:x}::b", "neighbour", undefined, "rl:…"],
    ["session:42", "foreign", undefined, "rl:…"],
    ["42", "foreign", undefined, "rl:…"],
    ["", "foreign", undefined, "rl:…"],
    ["{id:x}", "foreign", undefined, "rl:{…}…"],
    ["{id:x}:p", "foreign", undefined, "rl:{…}…"],
    ["{id:x}:p:tb:more", "foreign", undefined, "rl:{…}…"],
    ["{x}:p:tb", "foreign", undefined, "rl:…"],
    ["{id:}:p:tb", "foreign", undefined, "rl:…"],
    ["{ID:x}:p:tb", "foreign", undefined, "rl:…"],
    [`{id:${"x".repeat(65)}}:p:tb`, "foreign", undefined, "rl:…"],
    ["{id:x}:\u001b[31m:tb", "foreign", undefined, "rl:{…}…"],
  ])("%j is %s", (rest, is, type, shape) => {
    const name = nameOf(rest, "rl");
    expect([name.is, typeOf(name), name.shape]).toEqual([is, type, shape]);
  });
});

it("numbers are written as people read them", () => {
  expect([0, 1023, 1024, 1_500_000, 200 * 1024 ** 2, 3 * 1024 ** 4].map(bytesText)).toEqual([
    "0 bytes",
    "1,023 bytes",
    "1 KB",
    "1.4 MB",
    "200 MB",
    "3 TB",
  ]);
  expect([msText(0.123), msText(1234.56)]).toEqual(["0.12 ms", "1,234.6 ms"]);
  expect([countText(1, "key"), countText(1000, "key")]).toEqual(["1 key", "1,000 keys"]);
  expect([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(listText)).toEqual(["", "a", "a and b", "a, b and c"]);
});
