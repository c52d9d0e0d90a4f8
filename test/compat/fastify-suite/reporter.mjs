/** Writes how each test ended, one a line: `pass`, `fail` or `skip`, its file and its name. Suites are left out. */

/** @param {AsyncIterable<{ type: string, data: any }>} events */
export default async function* lines(events) {
  for await (const { type, data } of events) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    // A file as a whole is told of as well, by its path.
    if (data.details?.type === "suite" || data.name.endsWith(".test.js")) continue;
    const ended = data.skip === undefined ? type.slice("test:".length) : "skip";
    const file = /test[/\\]([\w./\\-]+)$/.exec(data.file ?? "")?.[1]?.replaceAll("\\", "/");
    yield `${ended}\t${file}\t${data.name}\n`;
  }
}
