/** What the body of a GraphQL request asks for, and what that costs. */
import {
  getOperationAST,
  getVariableValues,
  GraphQLError,
  parse,
  TypeInfo,
  validate,
  valueFromAST,
  visit,
  visitWithTypeInfo,
} from "graphql";

/** @import { DocumentNode, FieldNode, GraphQLField, GraphQLSchema } from "graphql" */

/** @typedef {{ [name: string]: unknown }} Variables */
/** @typedef {{ document: DocumentNode, operationName: string | null | undefined, variableValues: Variables }} Runnable */
/** @typedef {{ cost: number, runnable: Runnable } | { cost: number, error: GraphQLError }} Operation */

/** Documents are read before anything is counted, so they are kept small. */
const MOST_TOKENS = 500;

/**
 * An operation as it will run, so that nothing runs but what was counted. One that cannot run costs 1.
 *
 * @param {GraphQLSchema} schema
 * @param {any} asked an entry of the body, or all of it
 * @returns {Operation}
 */
export function operationOf(schema, asked) {
  try {
    return read(schema, asked ?? {});
  } catch (error) {
    if (!(error instanceof GraphQLError)) throw error;
    return { error, cost: 1 };
  }
}

/**
 * @param {GraphQLSchema} schema
 * @param {any} asked
 * @throws GraphQLError when it cannot run
 */
function read(schema, { query, operationName, variables }) {
  const variableValues = variables ?? {};
  if (typeof query !== "string") throw new GraphQLError("Give a query.");
  if (typeof variableValues !== "object") throw new GraphQLError("Give the variables as an object.");
  const document = parse(query, { maxTokens: MOST_TOKENS });
  throwFirst(validate(schema, document));
  const operation = getOperationAST(document, operationName);
  if (!operation) throw new GraphQLError("Say which operation of the document.");
  const { coerced, errors } = getVariableValues(schema, operation.variableDefinitions ?? [], variableValues);
  throwFirst(errors);
  const cost = complexityOf(schema, document, coerced ?? {});
  return { cost, runnable: { document, operationName, variableValues } };
}

/** @param {readonly GraphQLError[]} [errors] */
function throwFirst(errors = []) {
  for (const error of errors) throw error;
}

/**
 * The root fields of a document, fragments' own among them. Each costs 1, a list costs its `first`. Lists in lists
 * would have to be multiplied; this schema has none.
 *
 * @param {GraphQLSchema} schema
 * @param {DocumentNode} document
 * @param {Variables} variables
 */
function complexityOf(schema, document, variables) {
  const roots = [schema.getQueryType(), schema.getMutationType()];
  const types = new TypeInfo(schema);
  let cost = 0;
  const countField = (/** @type {FieldNode} */ node) => {
    const parent = types.getParentType();
    if (roots.some((root) => root && root === parent)) cost += sizeOf(types.getFieldDef(), node, variables);
  };
  visit(document, visitWithTypeInfo(types, { Field: countField }));
  return cost;
}

/**
 * @param {GraphQLField<unknown, unknown> | null | undefined} field
 * @param {FieldNode} node
 * @param {Variables} variables
 */
function sizeOf(field, node, variables) {
  const first = field?.args.find(({ name }) => name === "first");
  if (!first) return 1;
  const given = node.arguments?.find(({ name }) => name.value === "first");
  const size = given && valueFromAST(given.value, first.type, variables);
  return Math.max(1, Number(size ?? first.defaultValue));
}
