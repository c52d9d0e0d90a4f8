/** Who the client behind proxies is: the same as the middleware finds. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clientBehind, parseBelieved } from "../../packages/cli/src/simulate/logs/client.ts";
import { addressOf, ipOf } from "../../packages/core/src/identity/identity.ts";
import { proxiesOf } from "../../packages/core/src/identity/proxy.ts";

const address = fc.constantFrom(
  "127.0.0.1",
  "10.0.0.1",
  "10.0.0.2",
  "192.168.1.1",
  "203.0.113.7",
  "8.8.8.8",
  "::1",
  "fd00::1",
  "2001:db8:1::9",
);
const entry = fc.oneof(
  { weight: 6, arbitrary: address },
  address.map((text) => (text.includes(":") ? `[${text}]:443` : `${text}:8080`)),
  fc.constantFrom("::ffff:10.0.0.1", "unknown", "", "1.2.3", "fe80::1%eth0", "10.0.0.1:99999", "[::1"),
);
const chain = fc.option(
  fc.array(entry, { maxLength: 5 }).map((entries) => entries.join(", ")),
  { nil: undefined },
);

describe.each([
  ["0", 0],
  ["1", 1],
  ["2", 2],
  ["10.0.0.0/8", ["10.0.0.0/8"]],
  ["loopback,uniquelocal", ["loopback", "uniquelocal"]],
  ["10.0.0.1, fd00::/8", ["10.0.0.1", "fd00::/8"]],
])("--trust-proxy %s", (text, trustProxy) => {
  it("finds the client that trustProxy finds, in any chain", () => {
    const clientOf = clientBehind(parseBelieved(text));
    const proxies = proxiesOf(trustProxy);
    fc.assert(
      fc.property(address, chain, (peer, forwarded) => {
        const found = clientOf({ peer, forwarded, client: undefined });
        const theirs = addressOf({ address: proxies.clientOf(peer, forwarded), peer });
        expect(ipOf(found)).toEqual(theirs);
      }),
      { numRuns: 500 },
    );
  });
});

it.each(["10.0.0.0/33", "localhost", "1.2.3.4/x", "2001:db8::/129", "", "-1", "1.5"])(
  "refuses %j, and says what to give",
  (text) => {
    expect(() => clientBehind(parseBelieved(text))).toThrow(
      `--trust-proxy: give how many proxies stand in front, or networks such as 10.0.0.0/8, got ${text}.`,
    );
  },
);
