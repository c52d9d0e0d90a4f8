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
    ["now - ts or 0", "now - ts or 1"],
    ["math.min(policy.a * unit, micro", "math.max(policy.a * unit, micro"],
    ["math.floor(elapsed * policy.b)", "math.ceil(elapsed * policy.b)"],
    ["micro, ts) - units * unit", "micro, ts) - units + unit"],
    ["(policy.a * unit - micro) / policy.b", "(policy.a * unit - micro) / policy.b / 2"],
    ["ts <= now and", "ts >= now and"],
    ["math.max(0, at(", "math.min(0, at("],
    ["if policy.cost == 0", "if policy.cost == 1"],
  ]),
  ...of("algorithms/sliding-window", [
    ["- previous * rest\n", "- previous * policy.b\n"],
    ["age == 1", "age == 2"],
    ["count + before, true", "count, true"],
    ["keep(key, policy.b + rest,", "keep(key, rest,"],
    ["% wrap, policy.b - elapsed", "% wrap, elapsed"],
    ["math.ceil(policy.a", "math.floor(policy.a"],
    ["current + units", "current - units"],
    ["previous * rest >=", "previous * rest <"],
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
    ["math.floor((policy.a", "math.ceil((policy.a"],
  ]),
  ...of("decide", [
    ["if room < granted then", "if room > granted then"],
    ["if units > 0 then", "if units >= 0 then"],
    ["if room < 1 then", "if room < 0 then"],
    ["empty[i] and policy.cost <= policy.a", "empty[i] and policy.cost > policy.a"],
    ["granted * policy.cost", "n * policy.cost"],
    ["KEYS[first_key + i], policy, now, n)", "KEYS[first_key + 1], policy, now, n)"],
  ]),
];
