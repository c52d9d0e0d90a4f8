/** A release, rehearsed: everything but the last step, in a copy of the repository. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { missingFields, rehearse } from "../../scripts/release.js";
import { packages } from "../../scripts/setup.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

const read = (path: string) => readFileSync(join(root, path), "utf8");

/** What a release changes. */
const state = () => ({
  manifests: packages().map((folder) => read(`${folder}/package.json`)),
  folders: packages().map((folder) => readdirSync(join(root, folder)).sort()),
  changes: readdirSync(join(root, ".changeset")).sort(),
});

const numbers = (version: string): number[] => version.split(".").map(Number);

it(
  "a release can be made: one new version for all packages, sound tarballs that npm would take, and the repository is left alone",
  { timeout: 300_000 },
  async () => {
    const before = state();
    const said: string[] = [];
    const { version, warnings } = await rehearse((line) => said.push(line));
    expect(state()).toEqual(before);
    const manifests = before.manifests.map((text) => JSON.parse(text));
    const now = manifests[0].version as string;
    expect(said.map((line) => line.split(":")[0])).toEqual([
      "changeset version",
      "pack",
      "publint and attw",
      "npm publish --dry-run",
    ]);
    expect(said[1]!.match(new RegExp(`tidegate-[\\w-]+-${version}\\.tgz`, "g"))).toHaveLength(7);
    const step = numbers(version).map((number, i) => number - numbers(now)[i]!);
    expect(
      step.find((difference) => difference !== 0),
      `${version} comes after ${now}`,
    ).toBe(1);
    // What is missing is said, and nothing else.
    for (const warning of warnings)
      expect(warning).toMatch(/^`\w+` is not set|says ".*": write the new version/);
    expect(warnings.filter((warning) => warning.startsWith("`")).length).toBe(
      missingFields(manifests).length,
    );
  },
);

it.each([
  [
    "nothing that a registry's page links to",
    {},
    [
      "`repository` is not set in package.json of a",
      "`homepage` is not set in package.json of a",
      "`bugs` is not set in package.json of a",
    ],
  ],
  ["no repository", { homepage: "h", bugs: "b" }, ["`repository` is not set in package.json of a"]],
  ["all of it", { repository: "r", homepage: "h", bugs: "b" }, []],
])("a package with %s is told of", (_, fields, warnings) => {
  expect(missingFields([{ name: "a", ...fields }])).toEqual(warnings);
});
