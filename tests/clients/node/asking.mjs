// What every client asks, and how it reports: one JSON object on standard output.
import { readFileSync } from "node:fs";

export const QUESTION = "What is the weather in Paris?";
export const MESSAGES = [{ role: "system", content: "Be brief." }, { role: "user", content: QUESTION }];
export const LONG = [{ role: "user", content: "word ".repeat(9000) }];
export const ABOUT = "The weather in a city.";
export const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
};
export const TOOL = {
  type: "function",
  function: { name: "get_weather", description: ABOUT, parameters: PARAMETERS },
};

export const version = (name) =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8")).version;

export async function report(run) {
  const [url, model] = process.argv.slice(2);
  console.log(JSON.stringify(await run(url, model)));
}
