import express from "express";
import { conformance } from "./conformance.ts";
import { expressKit } from "./express.kit.ts";

conformance(expressKit("Express 5", express));
