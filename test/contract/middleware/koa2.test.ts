import Koa from "koa2";
import { conformance } from "./conformance.ts";
import { koaKit } from "./koa.kit.ts";

conformance(koaKit("Koa 2", Koa));
