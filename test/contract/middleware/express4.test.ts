import express4 from "express4";
import type express from "express";
import { vi } from "vitest";
import { conformance } from "./conformance.ts";
import { expressKit } from "./express.kit.ts";

// The package takes Express's router from the Express it stands beside: here that is version 4.
vi.mock("express", () => ({ default: express4, Router: express4.Router }));

conformance(expressKit("Express 4", express4 as unknown as typeof express));
