// Vercel's AI SDK with four of its providers: ai_sdk_client.mjs URL MODEL
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText, tool } from "ai";
import { z } from "zod";
import { ABOUT, LONG, QUESTION, report, version } from "./asking.mjs";

async function asked(model) {
  const question = { model, system: "Be brief.", prompt: QUESTION, maxOutputTokens: 16, maxRetries: 0 };
  const answer = await generateText(question);
  const errors = [];
  const stream = streamText({ ...question, onError: ({ error }) => errors.push(String(error)) });
  let streamed = "";
  for await (const text of stream.textStream) {
    streamed += text;
  }
  const weather = tool({ description: ABOUT, inputSchema: z.object({ city: z.string() }) });
  const called = await generateText({ ...question, tools: { get_weather: weather } });
  let over = {};
  try {
    await generateText({ model, messages: LONG, maxRetries: 2 });
  } catch (error) {
    if (APICallError.isInstance(error)) {
      const { error: said } = JSON.parse(error.responseBody);
      over = { status: error.statusCode, retryable: error.isRetryable, code: said.code ?? null, message: error.message };
    }
  }
  return {
    chat: answer.text,
    input_tokens: answer.usage.inputTokens,
    stream: streamed,
    stream_input_tokens: (await stream.usage).inputTokens,
    stream_errors: errors,
    tools: called.toolCalls.map((call) => [call.toolName, call.input]),
    over,
  };
}

await report(async (url, model) => {
  const base = { baseURL: `${url}/v1`, apiKey: "none" };
  const openai = createOpenAI(base);
  return {
    version: version("ai"),
    compatible: await asked(createOpenAICompatible({ ...base, name: "guarded", includeUsage: true })(model)),
    chat: await asked(openai.chat(model)),
    responses: await asked(openai.responses(model)),
    anthropic: await asked(createAnthropic(base)(model)),
  };
});
