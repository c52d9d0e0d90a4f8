import Koa from "koa";
import { conformance } from "./conformance.ts";
import { koaKit } from "./koa.kit.ts";

conformance(koaKit("Koa 3", Koa));
