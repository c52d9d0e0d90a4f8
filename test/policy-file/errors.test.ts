import { TidegateError } from "@tidegate/core";
import { PolicyFileError, policiesFromText } from "@tidegate/policy-file";
import { describe, expect, it } from "vitest";

function failing(text: string): PolicyFileError {
  try {
    policiesFromText(text, "limits.yaml");
  } catch (error) {
    return error as PolicyFileError;
  }
  throw new Error("the file was taken");
}

const SHORT = "limit: 1\nwindow: 1m\n";

/** Rows of a file's text and what is said of it, whole. */
const faults: [name: string, text: string, message: string][] = [
  [
    "a number that is text",
    "policies:\n  burst:\n    algorithm: tokenBucket\n    capacity: ten\n    refillPerSecond: 1\n",
    'limits.yaml:4:15: policies.burst.capacity: give a whole number from 0 to 9007199254, got "ten".',
  ],
  [
    "a number in quotes",
    'policies:\n  burst: { algorithm: tokenBucket, capacity: "10", refillPerSecond: 1 }\n',
    'limits.yaml:2:46: policies.burst.capacity: give a whole number from 0 to 9007199254 (without quotes: 10), got "10".',
  ],
  [
    "a number with separators, which YAML 1.1 took",
    "limit: 1_000\nwindow: 1m\n",
    'limits.yaml:1:8: limit: give a whole number from 0 to 4294967295 (without separators: 1000), got "1_000".',
  ],
  [
    "a number with a leading zero, which YAML 1.1 took for octal",
    "limit: 010\nwindow: 1m\n",
    "limits.yaml:1:8: limit: give a whole number from 0 to 4294967295 without a leading zero, which some read as octal, got 010.",
  ],
  [
    "a number out of range",
    `${SHORT}timeoutMs: 1e6\n`,
    "limits.yaml:3:12: timeoutMs: give a whole number from 1 to 60000, got 1e6.",
  ],
  [
    "a fraction",
    "limit: 1.5\nwindow: 1m\n",
    "limits.yaml:1:8: limit: give a whole number from 0 to 4294967295, got 1.5.",
  ],
  [
    "no number",
    "policies:\n  a: { algorithm: tokenBucket, capacity: 1, refillPerSecond: .inf }\n",
    "limits.yaml:2:62: policies.a.refillPerSecond: give a number above 0, got .inf.",
  ],
  [
    "a window that is none",
    "limit: 1\nwindow: soon\n",
    'limits.yaml:2:9: window: give whole milliseconds from 1 to ten years, or text such as "90s", "1m" or "1 day", got "soon".',
  ],
  [
    "a date for a window",
    "limit: 1\nwindow: 2026-01-01\n",
    'limits.yaml:2:9: window: give whole milliseconds from 1 to ten years, or text such as "90s", "1m" or "1 day", got "2026-01-01".',
  ],
  [
    "off for false",
    `${SHORT}coalesce: off\n`,
    'limits.yaml:3:11: coalesce: give true or false (off is text in YAML 1.2), got "off".',
  ],
  [
    "a key without a value",
    `${SHORT}mode:\n`,
    'limits.yaml:3:6: mode: give "enforce" or "shadow", got nothing.',
  ],
  [
    "an option that is missing",
    "policies:\n  a: { algorithm: gcra, limit: 1 }\n",
    'limits.yaml:2:6: policies.a.window: give whole milliseconds from 1 to ten years, or text such as "90s", "1m" or "1 day"; it is missing. The window: milliseconds, or text such as `1m`. 1 ms to ten years.',
  ],
  [
    "an unknown option of a policy; what it may stand for is not missed as well",
    "policies:\n  a: { algorithm: concurrency, limits: 1 }\n",
    "limits.yaml:2:32: policies.a.limits: there is no such option (did you mean limit?); known are algorithm, limit, leaseMs, by, cost, mode, unit, onFailure, scope, shards.",
  ],
  [
    "an unknown algorithm",
    "policies:\n  a: { algorithm: leaky, limit: 1 }\n",
    'limits.yaml:2:19: policies.a.algorithm: give "tokenBucket", "gcra", "slidingWindow", "slidingLog", "fixedWindow" or "concurrency", got "leaky".',
  ],
  [
    "no algorithm",
    "policies:\n  a: { limit: 1 }\n",
    "limits.yaml:2:6: policies.a.algorithm: say which: tokenBucket, gcra, slidingWindow, slidingLog, fixedWindow, concurrency.",
  ],
  [
    "options of a policy that do not go together",
    "policies:\n  a:\n    algorithm: fixedWindow\n    limit: 1\n    window: day\n    align: clock\n",
    'limits.yaml:6:12: policies.a.align: leave it out: a calendar window has its own beginning, got "clock".',
  ],
  [
    "a time zone that is none",
    "policies:\n  a: { algorithm: fixedWindow, limit: 1, window: day, timeZone: Mars }\n",
    'limits.yaml:2:65: policies.a.timeZone: give an IANA time zone such as "Europe/Berlin", got "Mars".',
  ],
  [
    "a bucket that never fills",
    "policies:\n  a: { algorithm: tokenBucket, capacity: 1000, refillPerSecond: 1e-6 }\n",
    "limits.yaml:2:65: policies.a.refillPerSecond: from empty to full would take more than ten years; raise the rate or lower the capacity, got 0.000001.",
  ],
  [
    "more shards than units",
    "policies:\n  a: { algorithm: gcra, limit: 2, window: 1, shards: 4 }\n",
    "limits.yaml:2:54: policies.a.shards: give at most the limit, 2: every shard needs a part of it, got 4.",
  ],
  ["no policies", "mode: shadow\n", "limits.yaml:1:1: policies: name policies, or give limit and window."],
  ["a limit without its window", "limit: 1\n", "limits.yaml:1:1: window: give it too, beside limit."],
  [
    "both forms at once",
    `${SHORT}policies: { a: { algorithm: gcra, limit: 1, window: 1 } }\n`,
    "limits.yaml:1:1: limit: give either limit and window, or policies.",
  ],
  ["an empty mapping of policies", "policies: {}\n", "limits.yaml:1:11: policies: name at least one policy."],
  [
    "names that differ in case only",
    "policies:\n  a: { algorithm: gcra, limit: 1, window: 1 }\n  A: { algorithm: gcra, limit: 1, window: 1 }\n",
    "limits.yaml:3:3: policies.A: names that differ in case only are one name: rename it or a.",
  ],
  [
    "a name that cannot stand in a header",
    "policies:\n  1st: { algorithm: gcra, limit: 1, window: 1 }\n",
    'limits.yaml:2:3: policies.1st: a name is 1 to 64 of A-Z a-z 0-9 _ . -, a letter first, got "1st".',
  ],
  [
    "more policies than a request may meet",
    `policies:\n${Array.from({ length: 17 }, (_, i) => `  p${i}: { algorithm: gcra, limit: 1, window: 1 }\n`).join("")}`,
    "limits.yaml:2:3: policies: give at most 16 policies, got 17.",
  ],
  [
    "who is nobody",
    `${SHORT}by: client\n`,
    'limits.yaml:3:5: by: give "ip", "user", "tenant", "route" or "globally", or a mapping with one of ip, apiKey, or, and, got "client".',
  ],
  [
    "an API key that is nowhere",
    `${SHORT}by: apiKey\n`,
    'limits.yaml:3:5: by: say where the key is: { apiKey: { header: x-api-key } }, got "apiKey".',
  ],
  [
    "an API key in two places",
    `${SHORT}by: { apiKey: { header: a, query: b } }\n`,
    "limits.yaml:3:15: by.apiKey: give exactly one of header, scheme, query.",
  ],
  [
    "one alternative alone",
    `${SHORT}by: { or: [user] }\n`,
    "limits.yaml:3:11: by.or: give 2 to 8 entries, got 1.",
  ],
  [
    "an alternative that is wrong",
    `${SHORT}by:\n  or:\n    - user\n    - { ip: { ipv6Prefix: 129 } }\n`,
    "limits.yaml:6:27: by.or.1.ip.ipv6Prefix: give a whole number from 1 to 128, got 129.",
  ],
  [
    "a network that is none",
    `${SHORT}deny: [10.0.0.0/8, 10.0.0.0/33]\n`,
    'limits.yaml:3:20: deny.1: give an address or a network such as "203.0.113.7", "10.0.0.0/8" or "2001:db8::/32", got "10.0.0.0/33".',
  ],
  [
    "a route that is none",
    `${SHORT}routes:\n  login: {}\n`,
    'limits.yaml:4:3: routes.login: name a method in capitals and a path, "POST /login", or a path alone, "/login", got "login".',
  ],
  [
    "a route that is switched on",
    `${SHORT}routes:\n  /x: true\n`,
    "limits.yaml:4:7: routes./x: give false, or a mapping, got true.",
  ],
  [
    "a policy of a route",
    `${SHORT}routes:\n  GET /x:\n    policies:\n      y: { algorithm: slidingLog, limit: 1001, window: 1m }\n`,
    "limits.yaml:6:42: routes.GET /x.policies.y.limit: give a whole number from 0 to 1000, got 1001.",
  ],
  [
    "a policy of another name",
    "policies:\n  a: { algorithm: gcra, limit: 1, window: 1 }\nroutes:\n  /x: { policies: [a, b] }\n",
    'limits.yaml:4:23: routes./x.policies.1: there is no policy "b"; known are a.',
  ],
  [
    "a policy of a file that has none by name",
    `${SHORT}routes:\n  /x: { policies: { a: default } }\n`,
    'limits.yaml:4:24: routes./x.policies.a: there is no policy "default"; the file has none under policies.',
  ],
  [
    "the rule local without a number of processes",
    `${SHORT}routes:\n  /x: { onFailure: local }\n`,
    'limits.yaml:4:20: routes./x.onFailure: say by instances how many processes share the limits, or give { local: policies }, got "local".',
  ],
  [
    "two local policies of one name",
    "policies:\n  a: { algorithm: gcra, limit: 1, window: 1, onFailure: { local: { few: { algorithm: gcra, limit: 1, window: 1 } } } }\n  b: { algorithm: gcra, limit: 1, window: 1, onFailure: { local: { few: { algorithm: gcra, limit: 2, window: 1 } } } }\n",
    'limits.yaml:3:57: policies.b.onFailure: two local policies of one request have this name; rename one, got "few".',
  ],
  [
    "a group that reads like a policy",
    "policies:\n  otp.a: { algorithm: gcra, limit: 1, window: 1 }\n  a: { algorithm: gcra, limit: 1, window: 1 }\nroutes:\n  /x: { group: otp }\n",
    'limits.yaml:2:10: policies.otp.a: it would share its keys with a policy of a group, named otp.a together; rename one, got "otp.a".',
  ],
  [
    "partition keys of an older draft",
    `${SHORT}headers:\n  standard: draft-7\n  partitionKey: { secretFromEnv: PATH }\n`,
    'limits.yaml:5:17: headers.partitionKey: only "draft-11" has partition keys; leave one of the two out, got an object (Object).',
  ],
  ["nothing", "", "limits.yaml:1:1: it is empty; give policies, or limit and window."],
  ["comments alone", "# limits\n", "limits.yaml:1:1: it is empty; give policies, or limit and window."],
  ["a list", "- limit: 1\n", "limits.yaml:1:1: give a mapping, got a list."],
  ["a key that is a list", `${SHORT}? [a]\n: 1\n`, "limits.yaml:3:3: a key is text; quote it."],
];

describe("what is wrong is told by file, line, column and option, with what to do", () => {
  it.each(faults)("%s", (_, text, message) => {
    const error = failing(text);
    expect(error.message).toBe(message);
    expect(error).toBeInstanceOf(TidegateError);
    const [file, line, column] = message.split(":");
    expect(error).toMatchObject({ name: "PolicyFileError", code: "TIDEGATE_FILE_OPTION", file });
    expect([error.line, error.column]).toEqual([Number(line), Number(column)]);
  });
});

describe("what is no YAML or JSON is told by file, line and column", () => {
  it.each([
    [
      "a key twice",
      "limit: 1\nwindow: 1m\nlimit: 2\n",
      "3:1: limit: it stands in line 1 already; take one of the two away.",
    ],
    [
      "a key twice in JSON",
      '{\n  "limit": 1,\n  "window": 1,\n  "limit": 1\n}',
      "4:3: limit: it stands in line 2 already; take one of the two away.",
    ],
    [
      "a key twice, written in two ways",
      `${SHORT}x-a: 1\n"x-a": 1\n`,
      "4:1: x-a: it stands in line 3 already; take one of the two away.",
    ],
    [
      "a tab as indentation",
      "policies:\n\ta: 1\n",
      "2:1: it is no YAML or JSON: tabs are not allowed as indentation.",
    ],
    [
      "two documents",
      `${SHORT}---\nlimit: 2\n`,
      "3:1: give one document in a file; take the rest behind --- away.",
    ],
    [
      "YAML 1.1",
      `# old\n%YAML 1.1\n---\n${SHORT}`,
      "2:1: it is read as YAML 1.2, where off is text and 010 is ten; take the line %YAML 1.1 away.",
    ],
    ["a tag", "limit: !!binary aGk=\nwindow: 1m\n", "1:8: tags mean nothing here; take it away."],
    [
      "a tag of somebody's own",
      "limit: !env LIMIT\nwindow: 1m\n",
      "1:8: tags mean nothing here; take it away.",
    ],
    [
      "half a mapping",
      "limit: 1\nwindow\n",
      "2:1: it is no YAML or JSON: implicit map keys need to be followed by map values.",
    ],
  ])("%s", (_, text, message) => {
    const error = failing(text);
    expect(error.message.split("\n")[0]).toBe(`limits.yaml:${message}`);
    expect(error.code).toBe("TIDEGATE_FILE_SYNTAX");
  });
});

describe("an option that there is not", () => {
  it.each([
    ["windw", " (did you mean window?)"],
    ["Window", " (did you mean window?)"],
    ["polcies", " (did you mean policies?)"],
    ["trust_proxy", " (did you mean trustProxy?)"],
    ["fromage", ""],
    ["b", " (did you mean by?)"],
    ["x", ""],
    ["prefix".repeat(10), ""],
  ])("%s is held against those that there are", (name, told) => {
    const { problems } = failing(`${SHORT}${name}: 1\n`);
    expect(problems[0]!.message).toMatch(/: there is no such option/);
    const [, nearest = ""] =
      /no such option( \(did you mean .*\?\))?; known are/.exec(problems[0]!.message) ?? [];
    expect(nearest).toBe(told);
  });
});

describe("what belongs to the application is told so, and no value is shown", () => {
  it.each([
    [
      "redis: redis://:hunter2@localhost",
      "3:1: redis: where Redis is, and its password, are the application's: rateLimit({ redis, ...policiesFrom(file) }).",
    ],
    ["redsi: redis://:hunter2@localhost", "3:1: redsi: there is no such option; known are $schema, "],
    [
      "store: hunter2",
      "3:1: store: a store is the application's: rateLimit({ store, ...policiesFrom(file) }).",
    ],
    [
      "shareConnection: true",
      "3:1: shareConnection: it goes with redis, which is the application's: rateLimit({ redis, shareConnection, ...policiesFrom(file) }).",
    ],
    [
      "skip: hunter2",
      "3:1: skip: a function does not fit into a file: give skip in the application, beside ...policiesFrom(file).",
    ],
    [
      "by: { apiKey: { header: x, secret: hunter2 } }",
      "3:28: by.apiKey.secret: a secret does not belong into a file: give secretFromEnv, the environment variable that holds it.",
    ],
    [
      "by: { apiKey: { header: x, secretFromEnv: hunter-2 } }",
      "3:43: by.apiKey.secretFromEnv: give the name of an environment variable.",
    ],
    [
      "by: { apiKey: { header: x, verify: hunter2 } }",
      "3:28: by.apiKey.verify: a function does not fit into a file: give by: apiKey({ …, verify }) in the application.",
    ],
    [
      "headers: { partitionKey: { secret: hunter2 } }",
      "3:28: headers.partitionKey.secret: a secret does not belong into a file: give secretFromEnv, the environment variable that holds it.",
    ],
  ])("%s", (line, message) => {
    const error = failing(`${SHORT}${line}\n`);
    expect(error.message.startsWith(`limits.yaml:${message}`)).toBe(true);
    expect(JSON.stringify(error.problems) + error.message).not.toContain("hunter");
  });
});

it("tells everything at once, in the order of the file", () => {
  const error = failing(`prefx: api
policies:
  burst: { algorithm: tokenBucket, capacity: ten, refillPerSecond: 0 }
  calendar: { algorithm: fixedWindow, limit: 1, window: 1m, timeZone: UTC }
  fine: { algorithm: gcra, limit: 1, window: 1s }
by: { or: [usr, ip] }
routes:
  POST /login: { policies: [burst, fine, brust], mode: dark }
  GET /y: { onFailure: local }
  /x: {}
  /x: {}
headers: { standard: draft-7, partitionKey: { secretFromEnv: TIDEGATE_NOT_SET } }
mode: shadw
`);
  expect(error.problems.map(({ line, column, option }) => `${line}:${column} ${option}`)).toEqual([
    "1:1 prefx",
    "3:46 policies.burst.capacity",
    "3:68 policies.burst.refillPerSecond",
    "4:71 policies.calendar.timeZone",
    "6:12 by.or.0",
    "8:42 routes.POST /login.policies.2",
    "8:56 routes.POST /login.mode",
    "9:24 routes.GET /y.onFailure",
    "11:3 routes./x",
    "12:62 headers.partitionKey.secretFromEnv",
    "13:7 mode",
  ]);
  expect(error.message.split("\n")).toEqual(
    error.problems.map(({ line, column, message }) => `limits.yaml:${line}:${column}: ${message}`),
  );
  expect(error).toMatchObject({ line: 1, column: 1, option: "prefx", value: undefined });
  expect(error.problems[1]!.value).toBe("ten");
});

it("tells a hundred things at most, and how many more there are", () => {
  const { message, problems } = failing(`limit: 1\nwindow: 1\nallow:\n${"  - nowhere\n".repeat(250)}`);
  expect(problems).toHaveLength(100);
  expect(message.split("\n").at(-1)).toBe("limits.yaml: and 150 more.");
});

it("shows what cannot be seen, so that a file can forge no line of a log", () => {
  const error = failing(`${SHORT}"a\\nb\\e[31m\\u202Ec": 1\n`);
  expect(error.message).toMatch(
    /^limits\.yaml:3:1: a\\u\{a\}b\\u\{1b\}\[31m\\u\{202e\}c: there is no such option/,
  );
  expect(error.message).not.toMatch(/\n/);
});
