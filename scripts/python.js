/** The Python that runs the example in examples/fastapi, with the packages that the system has for it. */
import { findProgram, run } from "./run.js";

/** As Debian calls them. None of them starts a service. */
const PACKAGES = ["python3-redis", "python3-fastapi", "python3-uvicorn"];

/** The system's own comes first: another Python on PATH does not know the system's packages. */
const places = () => ["/usr/bin/python3", findProgram("python3")];

/**
 * The path of a Python that has what the example imports, or undefined when there is none.
 *
 * @returns {string | undefined}
 */
export const findPython = () => places().find((path) => path && run(path, ["-c", IMPORTS]).ok);

const IMPORTS = "import fastapi, redis.asyncio, uvicorn";

/** Installs what is missing, and says so where that cannot be done: the tests decide what it means. */
export function ensurePython() {
  if (findPython()) return;
  const reason = install();
  if (reason !== undefined) console.error(`The tests of examples/fastapi are left out: ${reason}`);
}

/**
 * Installs the packages with apt-get. Other systems name and cut them otherwise.
 *
 * @returns {string | undefined} why it cannot be done, in one sentence
 */
function install() {
  const names = PACKAGES.join(" ");
  if (!findProgram("apt-get")) {
    return "no Python here has redis, fastapi and uvicorn, and there is no apt-get to install them with.";
  }
  const root = process.getuid?.() === 0;
  if (!root && !run("sudo", ["-n", "true"]).ok) {
    return `install what they need with \`sudo apt-get install ${names}\`.`;
  }
  console.log(`setup: installing ${names} with apt-get`);
  const [shell, ...args] = root ? ["sh"] : ["sudo", "-n", "sh"];
  const { output } = run(/** @type {string} */ (shell), [...args, "-c", INSTALL]);
  return findPython() ? undefined : `apt-get could not install ${names}.\n${output}`;
}

const INSTALL = `
  set -e
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends ${PACKAGES.join(" ")}`;
