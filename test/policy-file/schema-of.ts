/** The JSON Schema of a policy file, out of the table that the loader reads by. */
import type { Named, Option, Options, Shape } from "../../packages/policy-file/src/shapes.ts";
import { DEFINITIONS, FILE } from "../../packages/policy-file/src/table.ts";

type Json = Record<string, unknown>;

/** Draft 7: of all that say the same, the one that every editor knows. */
export function schemaOf(): Json {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Rate limits for tidegate",
    description: "Policies, identities, routes and rules, as in the configuration of @tidegate/core.",
    ...schemaFor(FILE),
    definitions: Object.fromEntries(
      Object.entries(DEFINITIONS).map(([name, shape]) => [name, schemaFor(shape)]),
    ),
  };
}

function schemaFor(shape: Shape): Json {
  switch (shape.kind) {
    case "text":
      return shape.pattern === undefined
        ? { type: "string", minLength: 1 }
        : { type: "string", pattern: shape.pattern, patternErrorMessage: `Give ${shape.advice}.` };
    case "words":
      return { enum: shape.words };
    case "flag":
      return { type: "boolean" };
    case "whole":
      return { type: "integer", minimum: shape.least, maximum: shape.most };
    case "positive":
      return { type: "number", exclusiveMinimum: 0 };
    case "span":
      return { anyOf: spans(shape.least, shape.words) };
    case "network":
      return { type: "string", minLength: 1 };
    case "list":
      return {
        type: "array",
        items: schemaFor(shape.of),
        ...(shape.least > 0 && { minItems: shape.least }),
        ...(shape.most !== undefined && { maxItems: shape.most }),
      };
    case "options":
      return objectOf(shape);
    case "named":
      return recordOf(shape);
    case "choice":
      return {
        type: "object",
        properties: propertiesOf(shape.options),
        minProperties: 1,
        maxProperties: 1,
        additionalProperties: false,
      };
    case "variants":
      return { anyOf: Object.values(shape.of).map(objectOf) };
    case "either":
      return { anyOf: shape.of.map(schemaFor) };
    case "ref":
      return { $ref: `#/definitions/${shape.name}` };
  }
}

/** As the library reads them that core reads spans with. */
const UNITS =
  "milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w|years?|yrs?|y";
const ANY_CASE = UNITS.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
const TEN_YEARS_MS = 315_576_000_000;

function spans(least: number, words: readonly string[] = []): Json[] {
  const text = {
    type: "string",
    pattern: `^(?:\\d+)?\\.?\\d+ *(?:${ANY_CASE})?$`,
    patternErrorMessage: 'Give milliseconds, or text such as "90s", "1m" or "1 day".',
  };
  const number = { type: "integer", minimum: least, maximum: TEN_YEARS_MS };
  return [...(words.length > 0 ? [{ enum: words }] : []), number, text];
}

function objectOf(shape: Options): Json {
  const { options, together = [], insteadOf, needs, oneOf, extensible } = shape;
  const required = Object.keys(options).filter((name) => options[name]!.required);
  return {
    type: "object",
    properties: propertiesOf(options),
    ...(extensible && { patternProperties: { "^x-": {} } }),
    ...(required.length > 0 && { required }),
    ...(needs && { anyOf: needs.map((name) => ({ required: [name] })) }),
    ...(oneOf && { oneOf: oneOf.map((name) => ({ required: [name] })) }),
    ...(together.length > 0 && {
      dependencies: Object.fromEntries(
        together.map((name) => [name, together.filter((one) => one !== name)]),
      ),
    }),
    ...(insteadOf !== undefined && { not: { required: [insteadOf, together[0]] } }),
    additionalProperties: false,
  };
}

const recordOf = ({ of, names, least, most }: Named): Json => ({
  type: "object",
  propertyNames: { pattern: names },
  additionalProperties: schemaFor(of),
  ...(least > 0 && { minProperties: least }),
  ...(most !== undefined && { maxProperties: most }),
});

const propertiesOf = (options: Readonly<Record<string, Option>>): Json =>
  Object.fromEntries(Object.entries(options).map(([name, option]) => [name, propertyOf(option)]));

function propertyOf({ shape, description, usual }: Option): Json {
  // Draft 7 heeds nothing beside a $ref.
  const schema = shape.kind === "ref" ? { allOf: [schemaFor(shape)] } : schemaFor(shape);
  return { description, ...(usual !== undefined && { default: usual }), ...schema };
}
