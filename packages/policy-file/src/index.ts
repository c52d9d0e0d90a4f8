export { PolicyFileError, type PolicyFileErrorCode, type PolicyFileProblem } from "./errors.ts";
export {
  type PolicyFileConfig,
  type PolicyFileOptions,
  policiesFrom,
  policiesFromText,
} from "./policies-from.ts";
