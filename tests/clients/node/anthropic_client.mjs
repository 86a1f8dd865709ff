// The @anthropic-ai/sdk package: anthropic_client.mjs URL MODEL
import Anthropic from "@anthropic-ai/sdk";
import { ABOUT, LONG, PARAMETERS, QUESTION, report, version } from "./asking.mjs";

await report(async (url, model) => {
  const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 2 });
  const messages = [{ role: "user", content: QUESTION }];
  // llama.cpp omits the first event of a stream if its first random token is part of a character.
  const asked = { model, system: "Be brief.", messages, max_tokens: 8, temperature: 0 };
  const answer = await client.messages.create(asked);
  const stream = client.messages.stream(asked);
  let streamed = "";
  stream.on("text", (text) => {
    streamed += text;
  });
  const final = await stream.finalMessage();
  const events = [];
  for await (const event of await client.messages.create({ ...asked, stream: true })) {
    events.push(event.type);
  }
  const tool = { name: "get_weather", description: ABOUT, input_schema: PARAMETERS };
  const called = await client.messages.create({ ...asked, tools: [tool] });
  const counted = await client.messages.countTokens({ model, system: "Be brief.", messages });
  let over = {};
  try {
    await client.messages.create({ model, max_tokens: 8, messages: LONG });
  } catch (error) {
    if (error instanceof Anthropic.BadRequestError) {
      over = { type: error.error.error.type, message: error.error.error.message };
    }
  }
  return {
    version: version("@anthropic-ai/sdk"),
    chat: answer.content.map((block) => block.text ?? "").join(""),
    input_tokens: answer.usage.input_tokens + (answer.usage.cache_read_input_tokens ?? 0),
    told: answer.tokenbox.input_tokens,
    stream: streamed,
    stream_told: final.tokenbox.input_tokens,
    stream_stop: final.stop_reason,
    events: [events[0], events.at(-1)],
    tools: called.content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]),
    counted: counted.input_tokens,
    over,
  };
});
