import slotOfKey from "cluster-key-slot";
import type { ClusterClient, ScriptClient } from "../clients/client.ts";
import { StoreError } from "../errors.ts";
import { classify } from "../stores/classify.ts";
import type { Changed, Check, Done, Move, Outcome, Store } from "../stores/store.ts";
import type { Backend, BackendOptions } from "./backend.ts";
import { oneStore } from "./one-store.ts";
import { decideBySlot } from "./several-slots.ts";
import { grouped, slotOf, splitBySlot } from "./slots.ts";

/** Checks that may wait until it is known who has which slots: as many as in a thousand batches. */
const MOST_WAITING = 64_000;

/** What stands for the answer to "who has the slot?". */
const KNOWN: Outcome = { granted: true, now: 0, words: [], blockedUs: undefined, replayed: false };

/**
 * The servers of a Cluster, each a store with a deadline, a breaker and a clock of its own: when one
 * is away, the identities of the others do not notice.
 */
export function clusterBackend(
  cluster: ClusterClient,
  storeFor: (client: ScriptClient) => Store,
  options: BackendOptions,
): Backend {
  const servers = new Map<string, Backend>();
  // A key is asked for by whoever routes it and by whoever gathers a batch, one right after the other.
  let lastKey = "";
  let lastSlot = -1;
  const slotFor = (key: string): number => {
    if (key === lastKey && lastSlot >= 0) return lastSlot;
    lastKey = key;
    lastSlot = slotOfKey(cluster.keyPrefix + key);
    return lastSlot;
  };
  let waiting: (() => void)[] = [];
  let tellKnown = () => {};
  let gaveBack: (keys: readonly string[]) => void = () => {};

  /** Asked who has a slot, while nobody is known to. It has a breaker too: a Cluster may be away as a whole. */
  const unknown = oneStore(
    {
      isConnected: () => cluster.state === "ready",
      onConnected: (listener) => void (tellKnown = listener),
      decide([check], [done]) {
        whenKnown(slotFor(check!.keys[0]!), (server, error) =>
          server ? done!(undefined, KNOWN) : done!(error, undefined),
        );
      },
      settle: (moves, done) => later(moves[0]!.key, done, (server) => server.settle(moves, done)),
      forget: (keys, done) => later(keys[0]!, done, (server) => server.forget(keys, done)),
      revoke: (keys, done) => later(keys[0]!, done, (server) => server.revoke(keys, done)),
      block: (key, ms, reason, done) => later(key, done, (server) => server.block(key, ms, reason, done)),
      close: async () => {},
    },
    options,
  );

  cluster.onChange(changed);
  if (cluster.state === "ready") changed();

  function changed(): void {
    if (cluster.state === "ready") {
      const primaries = cluster.primaries();
      for (const address of primaries) serverAt(address);
      for (const address of servers.keys()) if (!primaries.includes(address)) leave(address);
      tellKnown();
    }
    const going = waiting;
    waiting = [];
    for (const go of going) go();
  }

  /** A server that has slots. Connected to beforehand: the first decision is not to wait for that. */
  function serverAt(address: string): Backend {
    const known = servers.get(address);
    if (known) return known;
    const slotOf = ({ keys }: Check) => slotFor(keys[0]!);
    const isHere = () => servers.get(address) === made;
    const made: Backend = oneStore(storeFor(cluster.node(address)), watchedWhile(isHere), {
      address,
      slotOf,
    });
    servers.set(address, made);
    return made;
  }

  function leave(address: string): void {
    const server = servers.get(address);
    server?.stop();
    servers.delete(address);
    void server?.close();
    options.watcher.answered(address);
  }

  /**
   * A server that does not answer may have been replaced. What was under way to one that has left says nothing: nobody
   * would ever hear that it is well again.
   */
  function watchedWhile(isHere: () => boolean): BackendOptions {
    const { watcher } = options;
    return {
      ...options,
      watcher: {
        answered: (server) => isHere() && watcher.answered(server),
        failed(error, server) {
          if (!isHere()) return;
          cluster.refresh();
          watcher.failed(error, server);
        },
        asked: watcher.asked,
        breaker: (isOpen) => isHere() && watcher.breaker(isOpen),
      },
    };
  }

  /** One slot's part of a decision. */
  function decideAt(slot: number, check: Check, done: Done, late: (outcome: Outcome) => void): void {
    const server = serverOf(slot);
    if (server !== unknown) return server.decide(check, done, late);
    const known: Done = (error) => (error ? done(error, undefined) : decideAt(slot, check, done, late));
    unknown.decide(check, known, () => {});
  }

  function serverOf(slot: number): Backend {
    const address = cluster.ownerOf(slot);
    return address === undefined ? unknown : serverAt(address);
  }

  function whenKnown(slot: number, then: (server: Backend | undefined, error?: StoreError) => void): void {
    const server = serverOf(slot);
    if (server !== unknown) return then(server);
    if (cluster.state !== "connecting") return then(undefined, notKnown());
    if (waiting.length < MOST_WAITING) waiting.push(() => whenKnown(slot, then));
    else
      then(undefined, new StoreError("overload", "too many requests wait for the first connection to Redis"));
  }

  /** What is done to keys of one slot as soon as it is known where that is. */
  function later(key: string, done: Changed, act: (server: Backend) => void): void {
    whenKnown(slotFor(key), (server, error) => (server ? act(server) : done(error, 0)));
  }

  function notKnown(): StoreError {
    const why = cluster.trouble === undefined ? undefined : classify(cluster.trouble);
    if (why?.reason === "denied") return why;
    if (cluster.state === "ready")
      return new StoreError("unavailable", "no server of the Cluster has the slot");
    return new StoreError("connection", "there is no connection to the Cluster");
  }

  /** Does something to keys or moves, server by server, and sums up. */
  function bySlot<T>(
    items: readonly T[],
    keyOf: (item: T) => string,
    act: (server: Backend, items: T[], done: Changed) => void,
    done: Changed,
  ): void {
    const groups = grouped(items, (item) => slotFor(keyOf(item)));
    let left = groups.size;
    let sum = 0;
    let failure: StoreError | undefined;
    if (left === 0) return done(undefined, 0);
    for (const [slot, group] of groups) {
      act(serverOf(slot), group, (error, changed) => {
        failure ??= error;
        sum += changed;
        if (--left === 0) done(failure, sum);
      });
    }
  }

  function settle(moves: readonly Move[], done: Changed): void {
    bySlot(
      moves,
      ({ key }) => key,
      (server, some, done) => server.settle(some, done),
      done,
    );
  }

  function revoke(nonces: readonly string[], done: Changed): void {
    bySlot(
      nonces,
      (nonce) => nonce,
      (server, some, done) => server.revoke(some, done),
      done,
    );
  }

  const all = () => [unknown, ...servers.values()];

  return {
    get isOpen() {
      return all().some(({ isOpen }) => isOpen);
    },
    get isConnected() {
      return all().every(({ isConnected }) => isConnected);
    },
    decide(check, done, late) {
      const slot = slotOf(check, slotFor);
      if (slot !== undefined) return decideAt(slot, check, done, late);
      const parts = splitBySlot(check, slotFor);
      if (parts.length === 1) return decideAt(parts[0]!.slot, parts[0]!.check, done, late);
      decideBySlot(parts, { decideAt, settle, revoke, gaveBack: (keys) => gaveBack(keys) }, done);
    },
    onGiveBack: (listener) => void (gaveBack = listener),
    settle,
    forget: (keys, done) =>
      bySlot(
        keys,
        (key) => key,
        (server, some, done) => server.forget(some, done),
        done,
      ),
    revoke,
    block: (key, ms, reason, done) => serverOf(slotFor(key)).block(key, ms, reason, done),
    stop() {
      for (const server of all()) server.stop();
    },
    async close() {
      waiting = [];
      for (const server of all()) await server.close();
      await cluster.close();
    },
  };
}
