/** The browser that opens the page of `tidegate simulate` in tests, and for the pictures in docs. */
import { findProgram } from "./run.js";
import { ensureProgram } from "./system-package.js";

/** The path of Chromium, or undefined when it is not there. */
export const findChromium = () => findProgram("chromium") ?? findProgram("chromium-browser");

/** Installs it when it is missing, and says so where that cannot be done: the tests decide what it means. */
export function ensureChromium() {
  if (findChromium()) return;
  try {
    ensureProgram("chromium", { "apt-get": "chromium", apk: "chromium", dnf: "chromium", brew: "chromium" });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
  }
}

/** Root has no sandbox of its own in most containers; a page that runs no script needs none. */
export const CHROMIUM_OPTIONS = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
