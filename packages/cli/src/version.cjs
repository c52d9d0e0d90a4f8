/* CommonJS on purpose: only `require` reads the package's own manifest in both module formats and from the sources. */

/** @type {string} */
module.exports = require("@tidegate/cli/package.json").version;
