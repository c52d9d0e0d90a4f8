export { concurrency, type ConcurrencyOptions } from "./algorithms/concurrency.ts";
export { fixedWindow, type FixedWindowOptions } from "./algorithms/fixed-window.ts";
export { gcra, type GcraOptions } from "./algorithms/gcra.ts";
export type {
  Cost,
  FailureRule,
  LocalRule,
  Mode,
  Policy,
  PolicyOptions,
  Scope,
  Unit,
  WindowOptions,
} from "./algorithms/policy.ts";
export { slidingLog } from "./algorithms/sliding-log.ts";
export { slidingWindow } from "./algorithms/sliding-window.ts";
export { tokenBucket, type TokenBucketOptions } from "./algorithms/token-bucket.ts";
export type { ClientDone, ClientState, ClusterClient, ScriptClient } from "./clients/client.ts";
export type { RedisInput } from "./clients/connection.ts";
export { ioredisClient, type IoredisOptions } from "./clients/ioredis.ts";
export { ioredisCluster } from "./clients/ioredis-cluster.ts";
export type { IoredisCluster, IoredisLike, IoredisServer } from "./clients/ioredis-shape.ts";
export { nodeRedisClient, type NodeRedisOptions } from "./clients/node-redis.ts";
export { nodeRedisCluster } from "./clients/node-redis-cluster.ts";
export type {
  NodeRedisCluster,
  NodeRedisClusterSettings,
  NodeRedisLike,
  NodeRedisServer,
  NodeRedisSettings,
} from "./clients/node-redis-shape.ts";
export type { CalendarUnit } from "./algorithms/calendar.ts";
export {
  type Answer,
  type Config,
  type Extension,
  perRequest,
  type PerRequestPolicy,
  type Refusal,
  type ResponseOutcome,
  type RouteOverride,
  type Settlement,
} from "./config.ts";
export type { Charge, Decision, Degraded, Reason, Receipt, Verdict } from "./decision.ts";
export { doctor, type DoctorOptions, type DoctorReport, type DoctorServer } from "./doctor/doctor.ts";
export type { DoctorCode, Finding, Level } from "./doctor/finding.ts";
export {
  ConfigError,
  type ConfigErrorCode,
  type RequestErrorCode,
  StoreError,
  type StoreErrorClass,
  TidegateError,
} from "./errors.ts";
export type { HealthReport } from "./failure/health.ts";
export type { HeaderOptions, PartitionKeyFunction, Standard } from "./header-options.ts";
export {
  type Asked,
  type Exchange,
  type Framework,
  type PathTest,
  routeName,
  type RouteOptions,
} from "./http/exchange.ts";
export { createGuard, type Guard } from "./http/guard.ts";
export type { Header } from "./http/items.ts";
export type { ResponseEnd, Ruling } from "./http/ruling.ts";
export { NodeExchange, textOf } from "./http/node-exchange.ts";
export { share, type Shared, sharedOf } from "./http/shared.ts";
export type { AddressOptions } from "./identity/address.ts";
export { apiKey, type ApiKeyOptions } from "./identity/api-key.ts";
export {
  apiKeyOf,
  type By,
  type Identity,
  identity,
  type IdentityFunction,
  type IdentitySource,
  ipOf,
  type MaybePromise,
  type RequestContext,
} from "./identity/identity.ts";
export { type Trust, trustBySample, type TrustProxy } from "./identity/proxy.ts";
export { globally, ip, type IpOptions, route, tenant, user } from "./identity/sources.ts";
export { createLimiter, type Limiter, type Reservation } from "./limiter.ts";
export type {
  BatchMessage,
  BreakerMessage,
  DecisionMessage,
  LateMessage,
  PolicyOutcome,
} from "./observe/channels.ts";
export type { EventListener, TidegateEvent, WarningCode } from "./observe/events.ts";
export { type Duration, flag, oneOf } from "./options.ts";
export type { DecideRequest, IdentityInput } from "./request.ts";
export { type MemoryStore, memoryStore, type MemoryStoreOptions } from "./stores/memory.ts";
export { redisStore, type RedisStoreOptions, type Scripting } from "./stores/redis.ts";
export type { Script } from "./stores/scripts.ts";
export type { Changed, Check, Done, Move, Outcome, Store } from "./stores/store.ts";
export type { WaitOptions } from "./wait.ts";
