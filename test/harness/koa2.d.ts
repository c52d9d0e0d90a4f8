/** Koa 2, under a name of its own. What is used of it has the types of Koa 3. */
declare module "koa2" {
  export { default } from "koa";
}
