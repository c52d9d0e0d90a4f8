/** Whether all packages have one core: its classes are the same wherever one looks, so that instanceof works. */
const core = require("@tidegate/core");
const { tidegateStore, StoreUnavailableError } = require("@tidegate/compat/express-rate-limit");
const nest = require("@tidegate/compat/nestjs-throttler");
const express = require("@tidegate/express");
const fastify = require("@tidegate/fastify");
const koa = require("@tidegate/koa");
const { PolicyFileError } = require("@tidegate/policy-file");

/** @param {() => unknown} act */
function thrownBy(act) {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

const bad = { limit: -1, window: "1m" };
console.log(
  JSON.stringify({
    sameClasses: [express, fastify, koa].map(({ TidegateError }) => TidegateError === core.TidegateError),
    configErrors: [
      thrownBy(() => express.rateLimit(bad)),
      thrownBy(() => koa.rateLimit(bad)),
      thrownBy(() => core.createLimiter(bad)),
      thrownBy(() => tidegateStore({ prefix: "" })),
      thrownBy(() => nest.tidegateStore({ prefix: "" })),
    ].map((error) => error instanceof core.ConfigError),
    compat: StoreUnavailableError.prototype instanceof core.StoreError,
    policyFile: PolicyFileError.prototype instanceof core.TidegateError,
  }),
);
