/** An application that uses every package, as npm installs it: the folder is outside the repository. */
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll } from "vitest";
import { installed, ran, roomIn } from "../../scripts/published.js";

const programs = fileURLToPath(new URL("programs/", import.meta.url));

/** Exact, so that a release of one of them changes no test by itself. */
const SITE = {
  "@fastify/rate-limit": "11.2.0",
  "@nestjs/common": "11.2.10",
  "@nestjs/core": "11.2.10",
  "@nestjs/throttler": "6.7.1",
  "@opentelemetry/api": "1.10.0",
  "@types/express": "5.0.6",
  "@types/koa": "3.0.3",
  "@types/node": "20.19.43",
  express: "5.3.0",
  "express-rate-limit": "8.7.5",
  fastify: "5.12.8",
  ioredis: "6.0.0",
  koa: "3.3.0",
  "prom-client": "15.1.3",
  "reflect-metadata": "0.2.2",
  rxjs: "7.8.2",
  typescript: "5.9.3",
};

/** For tests of one file: a room of their own in the application, with these programs in it. */
export function useSite(...names: string[]) {
  return useRoom(() => installed("site", SITE), names);
}

/** @param install answers the folder that npm has filled */
export function useRoom(install: () => Promise<string>, names: readonly string[]) {
  let folder: string;
  let room: string;
  beforeAll(async () => {
    folder = await install();
    room = roomIn(folder);
    for (const name of names) copyFileSync(join(programs, name), join(room, name));
  }, 300_000);
  afterAll(() => room && rmSync(room, { recursive: true, force: true }));
  return {
    /** Where npm has installed. */
    get folder() {
      return folder;
    },
    /** Where the programs are: a folder below. */
    get room() {
      return room;
    },
    /** What a program says, and whether it ended well. */
    node: (args: string[], program = process.execPath) => ran(program, args, { cwd: room }),
  };
}
