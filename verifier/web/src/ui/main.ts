/** The one script of the file: in the page it is the page, in a Worker made of the same text it is the check. */
import { start } from "./app.ts";
import { serve } from "./engine.ts";

if (typeof document === "undefined") {
  serve();
} else {
  start();
}
