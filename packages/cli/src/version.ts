/** As package.json has it: a built package has no import of its own manifest that works in both formats. */
export const VERSION = "0.1.0";
