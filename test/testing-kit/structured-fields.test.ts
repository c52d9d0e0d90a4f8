/** The parser of the test kit, held against one of another's: the same values, and the same refusals. */
import fc from "fast-check";
import {
  type BareItem as TheirItem,
  DisplayString,
  isInnerList,
  type Item,
  type List,
  parseDictionary as theirDictionary,
  parseList as theirList,
  serializeDictionary,
  serializeList,
  Token,
} from "structured-headers";
import { describe, expect, it } from "vitest";
import {
  type BareItem,
  FieldFault,
  type Member,
  parseDictionary,
  parseList,
} from "../../packages/core/src/testing/structured-fields.ts";

/** Theirs in our words. They know integers and decimals by the value alone. */
function bareOf(item: TheirItem): [string, unknown] {
  if (typeof item === "number") return ["number", item];
  if (item instanceof Token) return ["token", String(item)];
  if (item instanceof DisplayString) return ["display", String(item)];
  if (item instanceof Date) return ["date", item.getTime()];
  if (typeof item === "object") return ["bytes", Buffer.from(item as ArrayBuffer).toString("hex")];
  return [typeof item, item];
}

function ownBare({ type, value }: BareItem): [string, unknown] {
  if (type === "integer" || type === "decimal") return ["number", value];
  if (type === "date") return ["date", value.getTime()];
  if (type === "bytes") return ["bytes", Buffer.from(value).toString("hex")];
  return [type, value];
}

const theirMember = (member: List[number]): unknown => [
  isInnerList(member) ? member[0].map(theirMember) : bareOf(member[0]),
  [...member[1]].map(([key, value]) => [key, bareOf(value)]),
];

const ownMember = (member: Member): unknown => [
  "items" in member ? member.items.map(ownMember) : ownBare(member.item),
  [...member.parameters].map(([key, value]) => [key, ownBare(value)]),
];

const FAULT = "no structured field";

function theirs(field: string, parse: (field: string) => unknown): unknown {
  try {
    return parse(field);
  } catch {
    return FAULT;
  }
}

function own(field: string, parse: (field: string) => unknown): unknown {
  try {
    return parse(field);
  } catch (error) {
    expect(error).toBeInstanceOf(FieldFault);
    return FAULT;
  }
}

const asList = {
  theirs: (field: string) => theirs(field, (field) => theirList(field).map(theirMember)),
  own: (field: string) => own(field, (field) => parseList(field).map(ownMember)),
};
const asDictionary = {
  theirs: (field: string) =>
    theirs(field, (field) => [...theirDictionary(field)].map(([key, member]) => [key, theirMember(member)])),
  own: (field: string) =>
    own(field, (field) => [...parseDictionary(field)].map(([key, member]) => [key, ownMember(member)])),
};

/** Without dates: structured-headers 2.1.0 reads one at the very end of a field only. They stand in the table below. */
const key = fc.stringMatching(/^[a-z*][a-z0-9_\-.*]{0,5}$/);
const bare: fc.Arbitrary<TheirItem> = fc.oneof(
  fc.integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 }),
  fc.integer({ min: -999_999, max: 999_999 }).map((thousandths) => thousandths / 1000),
  fc.stringMatching(/^[ -~]{0,8}$/),
  fc.stringMatching(/^[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]{0,5}$/).map((text) => new Token(text)),
  fc.uint8Array({ maxLength: 6 }),
  fc.boolean(),
  fc.string({ unit: "grapheme", maxLength: 5 }).map((text) => new DisplayString(text)),
);
const parameters = fc.uniqueArray(fc.tuple(key, bare), { selector: ([key]) => key, maxLength: 3 });
const item: fc.Arbitrary<Item> = fc.tuple(
  bare,
  parameters.map((entries) => new Map(entries)),
);
const member = fc.oneof(
  item,
  fc.tuple(
    fc.array(item, { maxLength: 3 }),
    parameters.map((entries) => new Map(entries)),
  ),
);
const listField = fc.array(member, { maxLength: 4 }).map((list) => serializeList(list));
const dictionaryField = fc
  .uniqueArray(fc.tuple(key, member), { selector: ([key]) => key, maxLength: 4 })
  .map((entries) => serializeDictionary(new Map(entries)));

/** structured-headers lets any letter beyond Latin-1 into a display string, where RFC 9651 §4.2.10 lets only ASCII. */
const foreign = /@|%"[^"]*[^ -~]/;

/** One character more, less or another: most such fields are wrong, and some are not. */
const mutated = (field: fc.Arbitrary<string>) =>
  fc
    .tuple(field, fc.nat(), fc.nat(2), fc.constantFrom(...' \t"\\;=,()%?:*-.0123azAZ/+_'))
    .map(([field, place, how, character]) => {
      const at = place % (field.length + 1);
      const rest = field.slice(how === 0 ? at : at + 1);
      return `${field.slice(0, at)}${how === 2 ? "" : character}${rest}`;
    });
const noise = fc.string({ unit: fc.constantFrom(...' \t"\\;=,()%?:*-.01a~Z/+\u00e9'), maxLength: 12 });

describe.each([
  ["lists", listField, asList],
  ["dictionaries", dictionaryField, asDictionary],
])("of %s", (_, field, parser) => {
  it("every field that structured-headers writes is read as it reads it", () => {
    fc.assert(
      fc.property(field, (field) => {
        const read = parser.own(field);
        expect(read).not.toBe(FAULT);
        expect(read).toEqual(parser.theirs(field));
      }),
      { numRuns: 1000 },
    );
  });

  it("a field with a fault in it is refused, or read, as there", () => {
    fc.assert(
      fc.property(fc.oneof(mutated(field), noise), (field) => {
        fc.pre(!foreign.test(field));
        expect(parser.own(field)).toEqual(parser.theirs(field));
      }),
      { numRuns: 4000 },
    );
  });
});

/** What the random ones meet seldom. */
it.each<[field: string, fits: boolean]>([
  ["", true],
  ["   ", true],
  ['"a";q=1,"b"', true],
  ['"a"\t,\t"b"', true],
  ['"a",', false],
  [',"a"', false],
  ['"a" "b"', false],
  ['\t"a"', false],
  ['"a', false],
  ['"a\\b"', false],
  ['"\u00e9"', false],
  ["123456789012345", true],
  ["1234567890123456", false],
  ["123456789012.123", true],
  ["1234567890123.1", false],
  ["1.1234", false],
  ["1.", false],
  ["-", false],
  ["1.5.3", false],
  ["a;Q=1", false],
  ["a; q=1", true],
  ["a ;q=1", false],
  ["?2", false],
  ["(1 2);a", true],
  ["(1  2 )", true],
  ["(1,2)", false],
  ["(1", false],
  ["((1))", false],
  ["a;d=@5", true],
  ["@1.5", false],
  [":YQ:", true],
  [":YQ=:", false],
  [":=YQ:", false],
  [":Y:", false],
  ['%"%c3%a9"', true],
  ['%"%C3%A9"', false],
  ['%"%c3"', false],
])("%j is a list: %s", (field, fits) => {
  expect(asList.own(field)).toEqual(asList.theirs(field));
  expect(asList.own(field) !== FAULT).toBe(fits);
});

it.each([
  ["@0, b", [0]],
  ["@-1659578233;a, @1659578233", [-1_659_578_233_000, 1_659_578_233_000]],
])("%j holds dates", (field, dates) => {
  const found = parseList(field).flatMap((member) =>
    "item" in member && member.item.type === "date" ? [member.item.value.getTime()] : [],
  );
  expect(found).toEqual(dates);
});

it("says at which character a field is wrong, and what is there", () => {
  expect(() => parseList('"a";q=x y')).toThrow(
    new FieldFault('character 9 should begin a comma or the end, and there is "y"'),
  );
  expect(() => parseList('"a";q=')).toThrow(
    new FieldFault(
      "character 7 should begin a number, a string in double quotes, a token or another item, and there is the end",
    ),
  );
  expect(() => parseList(":Y:;a")).toThrow(new FieldFault("what ends before character 4 is no base64"));
  expect(() => parseList('%"%c3", b')).toThrow(new FieldFault("what ends before character 7 is no UTF-8"));
});
