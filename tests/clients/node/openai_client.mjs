// The openai package: openai_client.mjs URL MODEL
import OpenAI from "openai";
import { LONG, MESSAGES, TOOL, report, version } from "./asking.mjs";

await report(async (url, model) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 2 });
  const asked = { model, messages: MESSAGES, max_tokens: 8 };
  const answer = await client.chat.completions.create(asked);
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  })) {
    chunks.push(chunk);
  }
  let plain = "";
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    plain += chunk.choices[0].delta.content ?? "";
  }
  const helped = await client.chat.completions.stream(asked).finalContent();
  const called = await client.chat.completions.create({ ...asked, tools: [TOOL] });
  const response = await client.responses.create({ model, input: "Hello", max_output_tokens: 16 });
  const events = [];
  const said = { model, input: "Hello", max_output_tokens: 16 };
  for await (const event of await client.responses.create({ ...said, stream: true })) {
    events.push(event.type);
  }
  // The package's own reader of such streams; llama.cpp's do not have all that it asks for.
  const reading = client.responses.stream(said).finalResponse();
  const responseHelper = await reading.then((final) => final.output_text, String);
  const over = {};
  for (const [name, ask] of Object.entries({
    chat: () => client.chat.completions.create({ model, messages: LONG }),
    stream: () => client.chat.completions.create({ model, messages: LONG, stream: true }),
    responses: () => client.responses.create({ model, input: LONG }),
  })) {
    try {
      await ask();
    } catch (error) {
      if (error instanceof OpenAI.BadRequestError) {
        over[name] = { code: error.code, param: error.param, type: error.type };
      }
    }
  }
  return {
    version: version("openai"),
    chat: answer.choices[0].message.content,
    input_tokens: answer.usage.prompt_tokens,
    told: answer.tokenbox.input_tokens,
    stream: chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""),
    stream_input_tokens: chunks.at(-1).usage.prompt_tokens,
    stream_told: chunks[0].tokenbox.input_tokens,
    plain_loop: plain,
    helped,
    tools: (called.choices[0].message.tool_calls ?? []).map((call) => [
      call.function.name,
      call.function.arguments,
    ]),
    response: response.output_text,
    response_events: [events[0], events.at(-1)],
    response_helper: responseHelper,
    over,
  };
});
