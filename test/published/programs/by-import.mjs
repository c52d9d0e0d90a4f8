import * as cli from "@tidegate/cli";
import { tidegateStore } from "@tidegate/compat/express-rate-limit";
import * as simulate from "@tidegate/core/simulate";
import * as testing from "@tidegate/core/testing";
import * as tidegateExpress from "@tidegate/express";
import * as tidegateFastify from "@tidegate/fastify";
import { rateLimit } from "@tidegate/koa";
import { policiesFromText } from "@tidegate/policy-file";
import express from "express";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import { fastify } from "fastify";
import Koa from "koa";
import bursts from "./bursts.cjs";

// Namespaces where all names are asked for, named imports where one is: both must link.
const packages = /** @type {import("./bursts.cjs").Packages} */ ({
  express: tidegateExpress,
  fastify: tidegateFastify,
  koa: { rateLimit },
  policyFile: { policiesFromText },
  cli,
  expressStore: { tidegateStore },
  simulate,
  testing,
});

const told = await bursts(packages, { express, fastify, Koa, expressRateLimit });
console.log(JSON.stringify(told));
