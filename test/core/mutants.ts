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
    ["now - ts or 0\n  micro", "now - ts or 1\n  micro"],
    ["micro = math.min(full", "micro = math.max(full"],
    ["math.floor(elapsed * policy.b)) -", "math.ceil(elapsed * policy.b)) -"],
    ["- units * 1000000", "+ units * 1000000"],
    ["(full - micro) / policy.b", "(full - micro) / policy.b / 2"],
    ["ts <= now and", "ts >= now and"],
    ["micro < 0 then micro = 0", "micro > 0 then micro = 0"],
    ["if policy.cost == 0", "if policy.cost == 1"],
    ["% 1000000 == 0 and '%d'", "% 10 == 0 and '%d'"],
  ]),
  ...of("algorithms/sliding-window", [
    ["previous * (window - elapsed) or 0", "previous * window or 0"],
    ["age == 1", "age == 2"],
    ["count + before, -1", "count, -1"],
    ["keep(key, 2 * window - elapsed,", "keep(key, window - elapsed,"],
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
    ["newest > now + policy.a", "newest > now"],
    ["return first + units - 1", "return first + units"],
    ["redis.call('DEL', key)", "redis.call('TYPE', key)"],
    ["count - policy.a + 1)", "count - policy.a)"],
  ]),
  ...of("algorithms/fixed-window", [
    ["if rest ~= 0 then count", "if rest == 0 then count"],
    ["rest > policy.b then", "rest < policy.b then"],
    ["if rest < 0 then keep", "if rest > 0 then keep"],
    ["keep(key, policy.b, units)", "keep(key, policy.b, 1)"],
    ["return count + units, rest", "return count, rest"],
    ["if rest >= 0 then return", "if rest <= 0 then return"],
    ["(policy.a - count) / policy.cost", "(policy.a + count) / policy.cost"],
  ]),
  ...of("decide", [
    ["if room < granted then", "if room > granted then"],
    ["if units > 0 then", "if units >= 0 then"],
    ["if room < 1 then", "if room < 0 then"],
    ["empty[i] and policy.cost <= policy.a", "empty[i] and policy.cost > policy.a"],
    ["granted * policy.cost", "n * policy.cost"],
    ["KEYS[first_key + i], policy, now, n)", "KEYS[first_key + 1], policy, now, n)"],
    ["room = math.floor(room)", "room = math.ceil(room)"],
  ]),
];
