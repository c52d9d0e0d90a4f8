import type { Advice, Named, Option, Options, Shape } from "./shapes.ts";

/** A name as core takes it. */
const NAME = "^[A-Za-z][A-Za-z0-9_.-]{0,63}$";
const MOST_POLICIES = 16;
/** The largest integer a header field may carry. */
const MOST_IN_FIELD = 999_999_999_999_999;
/** What a bucket may hold. */
const MOST_TOKENS = 9_007_199_254;
/** More would overflow the timers of many clients. */
const LONGEST_SECONDS = 2_147_483;

const text = (advice: string, pattern?: string): Shape => ({
  kind: "text",
  advice,
  ...(pattern !== undefined && { pattern }),
});
const words = (...these: (string | false)[]): Shape => ({ kind: "words", words: these });
const whole = (least: number, most: number): Shape => ({ kind: "whole", least, most });
const either = (...of: Shape[]): Shape => ({ kind: "either", of });
const ref = (name: string): Shape => ({ kind: "ref", name });
const list = (of: Shape, least = 0, most?: number): Shape => ({
  kind: "list",
  of,
  least,
  ...(most !== undefined && { most }),
});
const flag: Shape = { kind: "flag" };

const required = (shape: Shape, description: string): Option => ({ shape, description, required: true });
const option = (shape: Shape, description: string, usual?: string | number | boolean): Option => ({
  shape,
  description,
  ...(usual !== undefined && { usual }),
});

/** A secret in a file ends up in a repository. */
const NO_SECRET =
  "a secret does not belong into a file: give secretFromEnv, the environment variable that holds it";
const secretFromEnv = (description: string): Option =>
  option(
    {
      kind: "text",
      advice: "the name of an environment variable",
      pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
      secret: true,
    },
    description,
  );

const named = (of: Shape): Named => ({
  kind: "named",
  of,
  names: NAME,
  advice: "a name is 1 to 64 of A-Z a-z 0-9 _ . -, a letter first",
  least: 1,
  most: MOST_POLICIES,
  anyCase: true,
});

const COST = option(
  whole(0, Number.MAX_SAFE_INTEGER),
  "Units a request takes. 0 looks and takes nothing.",
  1,
);
const MODE = words("enforce", "shadow");
const GIVE_BACK = option(
  words("success", "failure"),
  "Gives a request's units back after its response: `success` when its status was below 400, `failure` when it was not.",
);
const ON_FAILURE =
  "What answers when the store cannot: `open`, the request passes; `closed`, it does not; `local`, this process decides by an equal share of each limit, which needs `instances`; `{ local: policies }`, by policies of your own.";

const LIMIT = option(
  whole(0, 2 ** 32 - 1),
  "The shortest form, with `window` and instead of `policies`: one sliding window named `default`.",
);
const WINDOW = option(
  { kind: "span", least: 1 },
  "The window of `limit`: milliseconds, or text such as `1m`.",
);

/** What every policy takes besides its numbers. */
const COMMON = {
  by: option(ref("by"), "Who this policy counts, where it is not who the others count."),
  cost: option(
    whole(0, Number.MAX_SAFE_INTEGER),
    "Units a request takes of this policy, where it is not what it takes of the others.",
  ),
  mode: option(MODE, "`shadow`: a limit on trial, which refuses nobody.", "enforce"),
  unit: option(
    words("requests", "content-bytes", "concurrent-requests"),
    "What is counted, for clients to read. `requests` by default; `concurrent-requests` for `concurrency`.",
  ),
  onFailure: option(
    ref("onFailure"),
    "What answers for this policy when the store cannot. Of all policies of a request the strictest rule holds.",
  ),
  scope: option(
    words("shared", "process"),
    "`shared`: counted in the store, for all processes together. `process`: in this process's memory, which asks nobody; where there are `instances`, each takes an equal share of the limit.",
    "shared",
  ),
  shards: option(
    whole(2, 64),
    "Splits the limit into so many parts under keys of their own, for an identity that is too much for one server of a Cluster.",
  ),
};

const algorithm = (
  name: string,
  description: string,
  own: Readonly<Record<string, Option>>,
): [string, Options] => [
  name,
  { kind: "options", options: { algorithm: required(words(name), description), ...own, ...COMMON } },
];

const windowed = (most: number): { limit: Option; window: Option } => ({
  limit: required(whole(0, most), "Units per window."),
  window: required(
    { kind: "span", least: 1 },
    "The window: milliseconds, or text such as `1m`. 1 ms to ten years.",
  ),
});

const POLICY: Shape = {
  kind: "variants",
  by: "algorithm",
  of: Object.fromEntries([
    algorithm(
      "tokenBucket",
      "A bucket of tokens, refilled evenly: bursts up to `capacity`, `refillPerSecond` in the long run.",
      {
        capacity: required(whole(0, MOST_TOKENS), "Tokens the bucket holds: the largest burst."),
        refillPerSecond: required(
          { kind: "positive" },
          "Tokens that flow in per second. From empty to full takes at most ten years.",
        ),
      },
    ),
    algorithm("gcra", "`limit` units per window, evenly, and up to `burst` at once.", {
      ...windowed(MOST_IN_FIELD),
      burst: option(whole(0, MOST_TOKENS), "Units that may come at once. `limit` by default."),
    }),
    algorithm(
      "slidingWindow",
      "Units per sliding window, from two counters: small state, smooth.",
      windowed(2 ** 32 - 1),
    ),
    algorithm(
      "slidingLog",
      "Units per sliding window, exactly. Keeps one entry for each unit.",
      windowed(1000),
    ),
    algorithm(
      "fixedWindow",
      "Units per window, counted from its first request, by the clock, or by the calendar.",
      {
        limit: required(whole(0, MOST_IN_FIELD), "Units per window."),
        window: required(
          { kind: "span", least: 1, words: ["day", "week", "month"] },
          "The window: milliseconds, text such as `1m`, or `day`, `week` (from Monday) or `month` of the calendar.",
        ),
        align: option(
          words("first", "clock"),
          "When a window of a span begins: `first` with its first request, which is the default; `clock` at whole multiples of it since 1970, in UTC.",
        ),
        timeZone: option(
          text('an IANA time zone such as "Europe/Berlin"'),
          "The IANA time zone of a calendar window. `UTC` by default.",
        ),
      },
    ),
    algorithm("concurrency", "How many requests are in flight.", {
      limit: required(whole(0, 100_000), "How many may be in flight."),
      leaseMs: option(
        { kind: "span", least: 100 },
        "How long a slot is kept for a process that says nothing any more.",
        30_000,
      ),
    }),
  ]),
};

const BY_WORDS = ["ip", "user", "tenant", "route", "globally"];

const BY: Shape = either(
  {
    kind: "words",
    words: BY_WORDS,
    instead: { apiKey: "say where the key is: { apiKey: { header: x-api-key } }" },
  },
  {
    kind: "choice",
    options: {
      ip: option(
        {
          kind: "options",
          options: {
            ipv6Prefix: option(whole(1, 128), "IPv6 addresses with the same first bits count as one.", 64),
            trustedHeaders: option(
              {
                kind: "options",
                options: {
                  header: required(
                    text("the header in which the CDN writes the client's address"),
                    "The header in which a CDN names the client, such as `cf-connecting-ip`.",
                  ),
                  from: required(
                    list({ kind: "network" }),
                    "The networks of that CDN. The header is believed only when the address that would count otherwise is one of these.",
                  ),
                },
              },
              "A header in which a CDN names the client, and the networks of that CDN.",
            ),
          },
        },
        "Counts by the client's address, by the proxies that are believed.",
      ),
      apiKey: option(
        {
          kind: "options",
          options: {
            header: option(
              text("the name of a request header"),
              "The request header that holds the key, for example `x-api-key`.",
            ),
            scheme: option(words("bearer"), "`bearer`: the key stands in `Authorization: Bearer …`."),
            query: option(
              text("the name of a parameter of the query"),
              "The parameter of the query that holds the key. Such keys end up in logs: headers are better.",
            ),
            secretFromEnv: secretFromEnv(
              "The environment variable whose value is mixed into the digest of a key, so that nobody can test guesses against stored keys.",
            ),
          },
          oneOf: ["header", "scheme", "query"],
          elsewhere: {
            secret: NO_SECRET,
            verify: "a function does not fit into a file: give by: apiKey({ …, verify }) in the application",
            verifiedForMs: "it needs verify, a function, which does not fit into a file",
          },
        },
        "Counts by API key, where the request has one. Nobody verifies it: let an `ip` policy stand beside.",
      ),
      or: option(list(ref("by"), 2, 8), "The first that can tell who it is."),
      and: option(list(ref("by"), 2, 8), "All of these together: each combination is somebody of its own."),
    },
  },
);

/** On routes, a policy may be one of the file's own by name. */
const ROUTE_POLICIES: Shape = either(
  named(either(text("the name of one of the file's policies", NAME), ref("policy"))),
  list(text("the name of one of the file's policies", NAME), 1, MOST_POLICIES),
);

const ROUTE: Options = {
  kind: "options",
  options: {
    policies: option(
      ROUTE_POLICIES,
      "Instead of the file's. Counted for this route alone, but for those that are the file's own under their own name: these count on. A list names such; in a mapping, the name of one stands where its options would.",
    ),
    limit: LIMIT,
    window: WINDOW,
    by: option(ref("by"), "Who is counted on this route, unless a policy says otherwise."),
    cost: option(whole(0, Number.MAX_SAFE_INTEGER), "Units a request takes on this route."),
    onFailure: option(ref("onFailure"), "What answers on this route when the store cannot."),
    mode: option(MODE, "The mode of every policy on this route, whatever the policy says itself."),
    group: option(
      text("1 to 64 of A-Z a-z 0-9 _ . -, a letter first", NAME),
      "Routes of one group share what their policies count.",
    ),
    giveBackOn: GIVE_BACK,
  },
  together: ["limit", "window"],
  insteadOf: "policies",
  elsewhere: { settle: functionOf("settle"), skip: "write false for a route that is not limited" },
};

const HEADERS: Options = {
  kind: "options",
  options: {
    standard: option(
      words("draft-11", "draft-10", "draft-9", "draft-8", "draft-7", "draft-6", false),
      "The form of `RateLimit` and `RateLimit-Policy`, by draft-ietf-httpapi-ratelimit-headers; `false`: neither.",
      "draft-11",
    ),
    x: option(flag, "Also `X-RateLimit-Limit`, `-Remaining` and `-Reset`.", false),
    retryAfter: option(
      either(flag, {
        kind: "options",
        options: {
          concurrency: option(whole(1, LONGEST_SECONDS), "Said when too many are in flight, seconds.", 1),
          closed: option(whole(1, LONGEST_SECONDS), "Said when the store cannot be asked, seconds.", 5),
        },
      }),
      "`Retry-After` on a refusal. True by default; or how many seconds to say where nobody knows.",
    ),
    partitionKey: option(
      either(words(false), {
        kind: "options",
        options: {
          secretFromEnv: {
            ...secretFromEnv("The environment variable whose value makes an HMAC of policy and identity."),
            required: true,
          },
        },
        elsewhere: { secret: NO_SECRET },
      }),
      "`pk`: tells one partition of a quota from another. `draft-11` only. False by default.",
    ),
    omitOnRedirect: option(flag, "Whether `RateLimit` is left out of redirects.", true),
    jitterSeconds: option(
      whole(0, 3600),
      "Up to so many whole seconds, at random, are added to `Retry-After`.",
      0,
    ),
    expose: option(
      flag,
      "Adds the fields to `Access-Control-Expose-Headers`, for scripts of other origins.",
      false,
    ),
  },
};

/** What is no data, and where it belongs. */
const ELSEWHERE: Advice = {
  redis:
    "where Redis is, and its password, are the application's: rateLimit({ redis, ...policiesFrom(file) })",
  store: "a store is the application's: rateLimit({ store, ...policiesFrom(file) })",
  shareConnection:
    "it goes with redis, which is the application's: rateLimit({ redis, shareConnection, ...policiesFrom(file) })",
  ...Object.fromEntries(
    ["skip", "onLimited", "onEvent", "settle", "idempotencyKey"].map((name) => [name, functionOf(name)]),
  ),
};

function functionOf(name: string): string {
  return `a function does not fit into a file: give ${name} in the application, beside ...policiesFrom(file)`;
}

/** Definitions, which may hold themselves. */
export const DEFINITIONS: Readonly<Record<string, Shape>> = {
  policy: POLICY,
  by: BY,
  onFailure: either(words("open", "closed", "local"), {
    kind: "options",
    options: {
      local: required(named(ref("policy")), "This process's own policies, which should be tighter."),
    },
  }),
};

/** The whole file. */
export const FILE: Options = {
  kind: "options",
  options: {
    $schema: option(
      text("where the schema is"),
      "Where an editor finds this schema. Means nothing to tidegate.",
    ),
    policies: option(
      named(ref("policy")),
      "The policies by name: all of them are charged for a request, or none. Their order is that of the headers.",
    ),
    limit: LIMIT,
    window: WINDOW,
    by: option(
      ref("by"),
      "Who is counted, unless a policy says otherwise: `ip`, `user`, `tenant`, `route` or `globally`, or a mapping with `ip`, `apiKey`, `or` or `and`. In HTTP the client's address by default.",
    ),
    cost: COST,
    routes: option(
      {
        kind: "named",
        of: either(words(false), ROUTE),
        names: "^(?:[A-Z-]+ +)?[/*].*$",
        advice: 'name a method in capitals and a path, "POST /login", or a path alone, "/login"',
        least: 0,
      },
      "What holds for single routes, by `METHOD /pattern` or `/pattern` in the framework's own words. The first that matches holds; `false`: not limited.",
    ),
    mode: option(
      MODE,
      "`shadow`: every policy is on trial and refuses nobody. By default each policy as it says.",
    ),
    allow: option(list({ kind: "network" }), "Addresses and networks that are not limited at all."),
    deny: option(
      list({ kind: "network" }),
      "Addresses and networks that are refused, always. Goes before `allow`.",
    ),
    trustProxy: option(
      either(whole(0, 64), list({ kind: "network" })),
      "Which proxies to believe: how many, or which networks. Instead of the framework's own setting.",
    ),
    preflights: option(
      words("exempt", "count"),
      "Whether CORS preflights are limited: `count` limits them like other requests.",
      "exempt",
    ),
    timeoutMs: option(whole(1, 60_000), "How long a decision may take, milliseconds.", 50),
    functionTimeoutMs: option(
      whole(1, 60_000),
      "How long a request's own functions may take together, milliseconds, where it is not what a decision may take.",
    ),
    onFailure: option(ref("onFailure"), ON_FAILURE, "open"),
    instances: option(
      whole(1, 100_000),
      "How many processes share the limits: what `local` and the scope `process` divide them by.",
    ),
    headers: option(HEADERS, "Which header fields responses carry."),
    giveBackOn: GIVE_BACK,
    idempotencyMs: option(
      whole(1, 86_400_000),
      "How long a grant is kept for its idempotency key, milliseconds. The key itself is the application's: `idempotencyKey`.",
      60_000,
    ),
    denyCache: option(
      either(flag, {
        kind: "options",
        options: { maxMs: option(whole(1, 60_000), "For how long at most, milliseconds.", 1000) },
      }),
      "Refuses from this process's memory what Redis would refuse, until the wait is over. True by default, with `redis`.",
    ),
    coalesce: option(
      flag,
      "Whether the questions of one turn of the event loop travel to the store together.",
      true,
    ),
    blocking: option(flag, "Whether decisions heed `limiter.block()`.", false),
    prefix: option(
      text("1 to 64 characters without braces or control characters", "^[^{}\\u0000-\\u001f\\u007f]{1,64}$"),
      "Begins every key. Two services on one Redis give different ones.",
      "rl",
    ),
    scripting: option(
      words("scripts", "functions"),
      "How Redis runs what decides: as scripts, or as Redis Functions.",
      "scripts",
    ),
  },
  together: ["limit", "window"],
  insteadOf: "policies",
  needs: ["policies", "limit"],
  elsewhere: ELSEWHERE,
  extensible: true,
};
