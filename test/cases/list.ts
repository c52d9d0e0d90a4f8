/**
 * What each case of a public problem report asks for, in a few words. A test that shows it has the case and the number
 * in its title, `P04 T2`, or the number below a group with the case; where it has not, it is named here.
 */

/** A test that carries no number: its file, and a part of its title. */
type Shown = readonly [file: string, title: string];

export interface Ask {
  readonly what: string;
  readonly shown: readonly Shown[];
}

const ask = (what: string, ...shown: Shown[]): Ask => ({ what, shown });

const CLUSTER = "test/topologies/cluster.test.ts";
const REPLICA = "test/faults/processes-replica.test.ts";
const SHUTDOWN = "test/faults/processes-shutdown.test.ts";
const LOCAL = "test/faults/processes-local.test.ts";
const FAILURE = "test/http/failure.test.ts";
const OUTAGE: Shown = ["test/faults/processes-outage.test.ts", "P41 an outage of"];

/** By case; `T1` is the first of each. */
export const cases: Readonly<Record<string, readonly Ask[]>> = {
  P01: [
    ask("Redis is stopped: each request is answered in time"),
    ask("Redis takes connections and says nothing"),
    ask("a socket breaks in mid-call"),
    ask("the client's own defaults do not matter"),
    ask("three limiters on a route wait for one deadline"),
  ],
  P02: [
    ask("an expiry on every key after every decision"),
    ask("a full key without one is repaired"),
    ask("calls paced to the expiry's edge leave none without"),
    ask("so does a process that is killed"),
  ],
  P03: [
    ask("the keys of a decision are in one slot", [CLUSTER, "P03 of %s, 1 to 5 policies"]),
    ask("strange names change no slot and never meet", [CLUSTER, "P03 of strange names"]),
    ask("a wrong slot is a store error, never allowed", [CLUSTER, "P03 of a limiter that knows one server"]),
  ],
  P04: [
    ask("a flush between decisions loses none"),
    ask("50 at once after a flush: one text is sent"),
    ask("a flush before each of 20"),
    ask("a flush within a transaction"),
  ],
  P05: [
    ask("150 clients behind a proxy are 150"),
    ask("nobody is believed: the peer, and one warning"),
    ask("one, two and three proxies of a list: one client"),
  ],
  P06: [
    ask("open: passes, and no number is invented", [FAILURE, "a decision that invents nothing"]),
    ask("closed: 503 with Retry-After", [FAILURE, "P06 the rule %s answers for a Redis that has gone"]),
    ask("the rule is each limiter's own", ["test/failure/rules.test.ts", "The rule %o of a limiter holds"]),
    ask("a listener that throws breaks no request", [FAILURE, "A listener that throws breaks no request"]),
  ],
  P07: [
    ask("a local cap refuses the fourth in one process"),
    ask("four processes let twelve in at most", [LOCAL, "P07 at most 12 get in during the outage"]),
    ask("Redis is back: local counts are dropped", [LOCAL, "what each process counted is forgotten"]),
    ask("the local map is bounded", [LOCAL, "P07 a process remembers 10,000 clients"]),
  ],
  P08: [
    ask("a thousand forged entries are one client"),
    ask("an entry that is missing: the peer"),
    ask("an entry that is no address: the peer"),
  ],
  P09: [
    ask("one /64 is one client"),
    ask("spellings of an address are one key"),
    ask("another prefix where it is asked for"),
    ask("a prefix that cannot be is refused"),
    ask("a helper for functions of one's own"),
  ],
  P10: [
    ask("settings that cannot work are refused by name"),
    ask("a policy function's nonsense is never no limit"),
    ask("text and milliseconds are the same window"),
  ],
  P11: [
    ask("both wordings of READONLY are the wrong node", [REPLICA, "P11 READONLY %s"]),
    ask("the rule answers, and another connection is asked for", [
      REPLICA,
      "P11 a node that becomes a replica",
    ]),
    ask("decisions within 5 s of the promotion", [REPLICA, "decisions work < 5 s after its promotion"]),
  ],
  P12: [
    ask("preflights are neither counted nor refused"),
    ask("other OPTIONS are counted, preflights where asked for"),
    ask("CORS fields survive on a refusal"),
  ],
  P13: [ask("who asks on and on keeps its share"), ask("20,000 refusals write nothing")],
  P14: [
    ask("spellings of a path are one budget"),
    ask("as the router's own settings have it"),
    ask("a hundred codes in a path are one key"),
  ],
  P15: [
    ask("a client that hangs up breaks nothing"),
    ask("a Unix socket: together, with a warning"),
    ask("headers are whole for whoever has no address"),
  ],
  P16: [
    ask("processes ten seconds apart are as one", [
      "test/redis/race.test.ts",
      "are of no account: ten seconds off",
    ]),
    ask("the server's clock steps back: nobody extra"),
    ask("and nobody is blocked for longer than a window"),
    ask("a process's clock changes nothing", [
      "test/redis/race.test.ts",
      "61 seconds off either way change nothing",
    ]),
  ],
  P17: [
    ask("a window that is no whole millisecond"),
    ask("a cost of a half"),
    ask("a rate of a third"),
    ask("a rate of none"),
  ],
  P18: [
    ask("routes declared without awaiting are limited"),
    ask("routes declared before are limited"),
    ask("routes declared after are limited"),
    ask("unknown URLs are limited"),
    ask("scopes are heeded"),
  ],
  P19: [
    ask("a port changes: one client"),
    ask("brackets of IPv6"),
    ask("bare IPv6 is not shortened"),
    ask("no port that is none"),
  ],
  P20: [
    ask("four processes at once: exactly the limit"),
    ask("with a cost above one"),
    ask("with several policies"),
  ],
  P21: [
    ask("Redis absent at the start, exact when it comes"),
    ask("a wrong password"),
    ask("no rejection goes unhandled"),
  ],
  P22: [
    ask("a group shares a budget"),
    ask("without one each route has its own"),
    ask("one limiter on three paths is one budget"),
  ],
  P23: [
    ask("waits are rounded up, never 0"),
    ask("a bucket's wait knows what has come back"),
    ask("who waits as told passes"),
  ],
  P24: [
    ask("the documented rights are enough"),
    ask("without SCRIPT LOAD it works too"),
    ask("what is missing is named, once"),
    ask("a server that is too old is told so"),
  ],
  P25: [
    ask("a script with a limiter ends by itself", [SHUTDOWN, "ends by itself within a second"]),
    ask("importing starts nothing", [SHUTDOWN, "P25 to import @tidegate/core starts no timer"]),
    ask("a hundred made and closed, several times each", [
      SHUTDOWN,
      "P25 100 limiters that are made and closed",
    ]),
    ask("a client of the application's stays open", [
      SHUTDOWN,
      "P25 a client of the application's stays open",
    ]),
  ],
  P26: [
    ask("a limit is raised"),
    ask("a limit is lowered"),
    ask("a window is changed"),
    ask("an algorithm is changed"),
  ],
  P27: [
    ask("on the application and on a route: counted once"),
    ask("next('route') and routers within routers: once"),
    ask("composed twice: once"),
    ask("two limiters count both"),
  ],
  P28: [
    ask("nonsense is counted by address, with an event"),
    ask("a function that fails is as one that gives nothing"),
    ask("0 and '0' are identities"),
    ask("no promise stands in a key"),
  ],
  P29: [
    ask("a million identities are gone after their window"),
    ask("and their memory"),
    ask("one timer at most"),
    ask("a finished request's context is let go of"),
  ],
  P30: [
    ask("an array of five costs five, in one step"),
    ask("and is refused whole"),
    ask("of three aliases one resolves"),
  ],
  P31: [
    ask("numbers are whole and not negative", [
      "test/http/numbers.test.ts",
      "P31 on %s %s: whatever the state",
    ]),
  ],
  P32: [
    ask("a limit of 0 refuses all"),
    ask("and its headers say so"),
    ask("Infinity is no limit to give"),
    ask("skipping costs Redis nothing"),
  ],
  P33: [
    ask("decides without any request"),
    ask("the fourth message of a socket is refused"),
    ask("a response without fields", [
      "test/contract/middleware/afterwards.ts",
      "without any response fields to set",
    ]),
  ],
  P34: [
    ask("packed: require, default and named import"),
    ask("packed: every module setting of TypeScript"),
    ask("packed: Jest, CommonJS and ESM"),
    ask("packed: bundles"),
    ask("packed: one copy of core"),
  ],
  P35: [ask("a heavy request that is refused takes nothing"), ask("a giant one locks nothing")],
  P36: [
    ask("both rules are charged for those that passed"),
    ask("refused by the second, the first is unchanged"),
    ask("a thousand at once: one step"),
  ],
  P37: [
    ask("whoever has answered is left alone"),
    ask("a response that had begun is not written to"),
    ask("a stream of events is not touched"),
    ask("a callback that answers is the only answer"),
  ],
  P38: [
    ask("given back by the status, once"),
    ask("a client that hangs up: once"),
    ask("a refusal has nothing to give back"),
    ask("settled twice is given back once"),
    ask("ten thousand mixed requests: the sum is exact"),
  ],
  P39: [
    ask("around a window's edge no more than is stated"),
    ask("three a second stay three a second"),
    ask("the fixed window's edge is as documented"),
  ],
  P40: [
    ask("long windows in memory"),
    ask("their lifetime in Redis"),
    ask("long blocks"),
    ask("no timer overflows"),
  ],
  P41: [
    ask("a long outage: heap and waiting are bounded", OUTAGE),
    ask("and all is well within two seconds of its end", OUTAGE),
  ],
  P42: [
    ask("Retry-After is the rest of the window, in seconds"),
    ask("the decision says the same as the fields"),
    ask("whole seconds, never a date"),
  ],
  P43: [ask("HEAD and 304 carry the fields"), ask("a refusal is not to be stored")],
  P44: [
    ask("state is read back as written, in plain digits"),
    ask("ten years idle: full"),
    ask("limits beyond exact numbers are refused"),
  ],
  P45: [ask("both stores decide two hundred sequences alike")],
  P46: [
    ask("what binds first stands in front"),
    ask("the longest wait on refusal"),
    ask("names that cannot be quoted are refused"),
  ],
  P47: [
    ask("every algorithm, under the prefix's rights alone"),
    ask("settling"),
    ask("blocking"),
    ask("resetting"),
    ask("idempotency keys"),
    ask("repairs"),
    ask("another prefix is refused"),
    ask("no key in a script that is not KEYS[i]", [
      "test/core/shelves.test.ts",
      "touches no key that is not KEYS[i]",
    ]),
  ],
};
