// Build the script and the style of the page into src/tokenbox/inspect/data.
//   node build.mjs           write the files
//   node build.mjs --check   fail if the files are out of date
import { build } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';

const OUT = new URL('../src/tokenbox/inspect/data/', import.meta.url);
const BANNER = '/* tokenbox inspector, Apache-2.0. With preact (MIT) and htm (Apache-2.0): see NOTICE. */\n';

async function bundled(entry, options = {}) {
  const result = await build({
    entryPoints: [new URL(entry, import.meta.url).pathname],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: ['es2021', 'chrome105', 'firefox110', 'safari16'],
    legalComments: 'none',
    charset: 'ascii',
    logLevel: 'warning',
    ...options,
  });
  return result.outputFiles[0].text;
}

// The page contains no URLs, not even preact's names of namespaces, and the script must not contain the end tag
// of its own element.
const safe = (text) => text.trimEnd().replace(/http:\/\//g, 'http:\\x2f/')
  .replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
const script = safe(await bundled('src/main.js'));
const widget = safe(await bundled('src/widget.js', { format: 'esm', loader: { '.css': 'text' } }));
const style = (await bundled('src/inspector.css', { loader: { '.css': 'css' } })).trimEnd();
const files = {
  'inspector.js': `${BANNER}${script}\n`,
  'inspector.css': `${style}\n`,
  'widget.js': `${BANNER}${widget}\n`,
};

if (process.argv.includes('--check')) {
  for (const [name, text] of Object.entries(files)) {
    if ((await readFile(new URL(name, OUT), 'utf8').catch(() => '')) !== text) {
      console.error(`src/tokenbox/inspect/data/${name} is out of date. Run: make page`);
      process.exit(1);
    }
  }
} else {
  await mkdir(OUT, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(new URL(name, OUT), text);
}
