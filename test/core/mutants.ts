/** One-token faults, by file of lua/. Every one must be noticed by a story or by the twins. */
export interface Mutant {
  readonly file: string;
  /** Stands exactly once in the file. */
  readonly from: string;
  readonly to: string;
}

const of = (file: string, faults: [from: string, to: string][]): Mutant[] =>
  faults.map(([from, to]) => ({ file, from, to }));

export const mutants: Mutant[] = [
  ...of("algorithms/token-bucket", [
    ["local available = now > ts and", "local available = now < ts and"],
    ["if available > full then", "if available < full then"],
    ["if now > ts then micro = micro + math.floor", "if now > ts then micro = micro + math.ceil"],
    [
      "if micro > full then micro = full end\n  micro = micro - units",
      "if micro > full then micro = full end\n  micro = micro + units",
    ],
    ["(full - micro) / policy.b", "(full - micro) / policy.b / 2"],
    ["ts <= now and", "ts >= now and"],
    ["micro < 0 then micro = 0", "micro > 0 then micro = 0"],
    ["if policy.cost == 0", "if policy.cost == 1"],
    ["% 1000000 == 0 and '%d'", "% 10 == 0 and '%d'"],
    ["math.min(full, micro + more)", "math.min(full, micro - more)"],
    ["math.ceil((mark - now) * policy.b)", "math.ceil(mark * policy.b)"],
  ]),
  ...of("algorithms/sliding-window", [
    ["previous * (window - elapsed) or 0", "previous * window or 0"],
    ["age == 1", "age == 2"],
    ["count + before, -1", "count, -1"],
    ["now - elapsed + 2 * window", "now - elapsed + window"],
    ["/ window - stored) %", "/ window + stored) %"],
    ["math.ceil(policy.a", "math.floor(policy.a"],
    ["current + units", "current - units"],
    ["(policy.b - elapsed) >=", "(policy.b - elapsed) <"],
    ["if previous >= 0 and", "if previous > 0 and"],
  ]),
  ...of("algorithms/sliding-log", [
    ["now - policy.b + 1", "now - policy.b"],
    ["math.max(now, newest + 1)", "math.max(now, newest)"],
    ["'-inf', now - policy.b)", "'-inf', now)"],
    ["count + policy.cost - policy.a", "count - policy.a"],
    ["newest > now + 2 * policy.a", "newest > now"],
    ["return first + units - 1", "return first + units"],
    ["redis.call('ZREMRANGEBYSCORE', key, '-inf', '+inf')", "redis.call('TYPE', key)"],
    ["count - policy.a + 1)", "count - policy.a)"],
  ]),
  ...of("algorithms/fixed-window", [
    ["if rest ~= 0 then count", "if rest == 0 then count"],
    ["policy.b - now % policy.b", "now % policy.b"],
    ["us < whole - rounding then", "us > whole - rounding then"],
    ["us <= policy.b and us or", "us <= policy.b and whole or"],
    ["if rest < 0 then keep", "if rest > 0 then keep"],
    ["keep(key, now + whole, units)", "keep(key, now + whole, 1)"],
    ["return count + units, math", "return count, math"],
    ["if rest >= 0 then return", "if rest <= 0 then return"],
    ["(policy.a - count) / policy.cost", "(policy.a + count) / policy.cost"],
    ["policy.c - now or nil", "policy.c - policy.b or nil"],
  ]),
  ...of("algorithms/gcra", [
    ["math.max(0, tat - now * 4)", "math.min(0, tat - now * 4)"],
    ["policy.a * policy.b - ahead", "policy.a * policy.b + ahead"],
    ["now * 4) + units * policy.b", "now * 4) - units * policy.b"],
    ["keep(key, tat / 4,", "keep(key, now,"],
    ["> policy.lifetime * 4", "> policy.lifetime"],
    ["far and now * 4 + policy.a", "far and now * 4 - policy.a"],
    ["tat - more)", "tat + more)"],
    ["mark - now * 4)", "mark)"],
  ]),
  ...of("algorithms/concurrency", [
    ["now + 1, '+inf')", "now + policy.b, '+inf')"],
    ["(policy.a - held)", "(policy.a + held)"],
    ["local ends = now + policy.b\n", "local ends = now + policy.a\n"],
    ["'-inf', now)", "'-inf', now + policy.b)"],
    ["keep(key, math.max(ends, last))", "keep(key, math.min(ends, last))"],
    ["last <= now + policy.b and", "last > now + policy.b and"],
    ["'ZREM', key, member(lease, i)", "'ZREM', key, member(lease, 1)"],
    ["if policy.cost == 0", "if policy.cost == 1"],
  ]),
  ...of("decide", [
    ["if room < granted and", "if room > granted and"],
    ["if units > 0 then", "if units >= 0 then"],
    ["room < 1 and policy.cost <= policy.a", "room < 1 and policy.cost > policy.a"],
    ["room and room < 1 and", "room and room < 0 and"],
    ["granted * policy.cost", "n * policy.cost"],
    ["KEYS[first_key + i], policy, now, n, lease)", "KEYS[first_key + 1], policy, now, n, lease)"],
    ["and not policy.shadow then granted", "and policy.shadow then granted"],
    ["room >= n and 1 or 0", "room > n and 1 or 0"],
    ["room = math.floor(room)", "room = math.ceil(room)"],
  ]),
];
