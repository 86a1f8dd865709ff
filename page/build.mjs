// Builds the program and the style of the page into src/tokenbox/inspect/data.
//   node build.mjs           write them
//   node build.mjs --check   fail if the files there are not what the sources give
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

// The page has no address in it, not even the names of the namespaces that preact knows; and nothing in the
// program may end the element that it stands in.
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
      console.error(`src/tokenbox/inspect/data/${name} is not what page/src gives. Run: make page`);
      process.exit(1);
    }
  }
} else {
  await mkdir(OUT, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(new URL(name, OUT), text);
}
