// Trace a prompt of PARTS elements with BYTES of text in total with prompt-tsx's HTMLTracer: prints the address of
// its page and the seconds it took, and serves the page until stdin ends.
//   node html_tracer.mjs FOLDER_OF_NODE_MODULES PARTS BYTES
import { createRequire } from 'node:module';
const [folder, parts, bytes] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const { HTMLTracer, PromptElement, PromptRenderer, UserMessage, TextChunk, OutputMode } =
  createRequire(`${folder}/package.json`)('@vscode/prompt-tsx');
// Counts characters, so that the time of the tracer dominates.
const tokenizer = {
  mode: OutputMode.OpenAI,
  tokenLength: (part) => Math.ceil((part.text ?? '').length / 4),
  countMessageTokens: (message) => Math.ceil(JSON.stringify(message.content).length / 4),
};
const text = 'word and another word, '.repeat(Math.ceil(bytes / parts / 23)).slice(0, bytes / parts);
class Prompt extends PromptElement {
  render() {
    return vscpp(vscppf, null, Array.from({ length: parts }, (_, i) => vscpp(UserMessage, { priority: i }, `${i} ${text}`)));
  }
}
const started = performance.now();
const tracer = new HTMLTracer();
const renderer = new PromptRenderer({ modelMaxPromptTokens: Math.floor(bytes / 8) }, Prompt, {}, tokenizer);
renderer.tracer = tracer;
await renderer.render();
const server = await tracer.serveHTML();
console.log(JSON.stringify({ address: server.address, seconds: (performance.now() - started) / 1000, bytes: (await server.getHTML()).length }));
process.stdin.resume();
process.stdin.on('end', () => { server.dispose(); process.exit(0); });
