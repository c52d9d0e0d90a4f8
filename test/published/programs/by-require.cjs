const bursts = require("./bursts.cjs");

const packages = {
  express: require("@tidegate/express"),
  fastify: require("@tidegate/fastify"),
  koa: require("@tidegate/koa"),
  policyFile: require("@tidegate/policy-file"),
  cli: require("@tidegate/cli"),
  expressStore: require("@tidegate/compat/express-rate-limit"),
  simulate: require("@tidegate/core/simulate"),
  testing: require("@tidegate/core/testing"),
};
const frameworks = {
  express: require("express"),
  fastify: require("fastify").fastify,
  Koa: require("koa"),
  expressRateLimit: require("express-rate-limit").rateLimit,
};

void bursts(packages, frameworks).then((told) => console.log(JSON.stringify(told)));
